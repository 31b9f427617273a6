"""range_push and range_pop: one stack per warp. A pop carries no name, so only the depth can be wrong."""

from __future__ import annotations

from collections import Counter

from tirx_bench.lint.tree import Event, Leaf, error
from tirx_bench.model import Finding

Stack = tuple[Event, ...]

IGNORED = "IKET ignores such a pop"
MISSING = "a range that is never popped is missing from the trace, without a word"
NAMELESS = "a pop carries no name, so the missing one may be that of a range pushed later"


class PushPop:
    """The machine of `walk` for pushed ranges: the state is the pushes that are still open, the oldest first."""

    what = "range_push and range_pop"

    def start(self) -> Stack:
        return ()

    def step(self, state: Stack, leaf: Leaf, again: bool) -> tuple[Stack, tuple[Finding, ...]]:
        if not isinstance(leaf, Event) or leaf.kind not in ("push", "pop"):
            return state, ()
        if leaf.kind == "push":
            return (*state, leaf), ()
        return (state[:-1], ()) if state else (state, (_underflow(leaf, again),))

    def balanced(self, before: Stack, after: Stack) -> bool:
        return len(before) == len(after)

    def join(self, one: Stack, other: Stack) -> Stack:
        return one

    def still_open(self, state: Stack) -> tuple[str, ...]:
        return tuple(repr(push.name) for push in state)

    def leaks(self, state: Stack) -> tuple[Finding, ...]:
        # By identity: two pushes of one name on one line, from an unrolled Python loop, are two events and no loop.
        count = Counter(id(push) for push in state)
        pushes = {id(push): push for push in state}
        return tuple(_leak(push, count[key]) for key, push in pushes.items())


def _underflow(pop: Event, again: bool) -> Finding:
    if again:
        message = "the loop pops more than it pushes: after some iterations range_pop() finds nothing open"
        return error("IK010", message, pop.site, IGNORED)
    return error("IK001", "range_pop() without a range_push: nothing is open here", pop.site, IGNORED)


def _leak(push: Event, times: int) -> Finding:
    if times > 1:
        message = f"the loop pushes more than it pops: {times} ranges {push.name!r} are still open when the kernel ends"
        return error("IK010", message, push.site, MISSING)
    return error("IK002", f"range_push({push.name!r}) is never popped", push.site, f"{MISSING}; {NAMELESS}")
