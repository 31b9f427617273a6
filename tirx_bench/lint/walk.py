"""Follow a block's control flow with a machine's state, as far as it can be followed without deciding a condition.

An arm of a branch, or an iteration of a loop whose count is not a constant, that leaves as much open as it found needs
no decision. Anything else raises `Undecided`, and the walk ends there: a valid kernel must never get an error. TVM once
refused kernels on such a proof and dropped it because it "could reject valid programs" (apache/tvm #20085).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from typing import Generic, Protocol, TypeVar

from tirx_bench.lint.tree import Block, Branch, Jump, Leaf, Loop, Node, Site, finding, jumps_out
from tirx_bench.model import Finding

S = TypeVar("S")
STEP_LIMIT = 10_000


class Undecided(Exception):
    """Balance beyond `site` depends on something that is not known here."""

    def __init__(self, site: Site, message: str):
        super().__init__(message)
        self.site, self.message = site, message


class Machine(Protocol[S]):
    """One kind of range. States are immutable and compare by value."""

    what: str

    def start(self) -> S: ...

    def step(self, state: S, leaf: Leaf, again: bool) -> tuple[S, tuple[Finding, ...]]:
        """The state after `leaf`, and what was wrong. `again`: a loop that holds it has begun another iteration."""

    def balanced(self, before: S, after: S) -> bool:
        """Whether as much is open after as before."""

    def join(self, one: S, other: S) -> S:
        """What holds in both of two balanced states."""

    def still_open(self, state: S) -> tuple[str, ...]:
        """What is open, in words."""

    def leaks(self, state: S) -> tuple[Finding, ...]:
        """What is wrong if the kernel ends in `state`."""


def check(machine: Machine[S], block: Block) -> tuple[Finding, ...]:
    """Faults that are certain, then at most one note on what ended the walk."""
    walk = _Walk(machine)
    try:
        end = walk.block(block, machine.start())
        if end is not None:
            walk.report(machine.leaks(end))
    except Undecided as stop:
        walk.report([finding("unproven", "note", stop.message, stop.site, f"balance of {machine.what}")])
    return tuple(walk.findings)


class _Walk(Generic[S]):
    """`block` and the methods below it return the state at the end, None if a jump left before that."""

    def __init__(self, machine: Machine[S]):
        self.machine = machine
        self.findings: dict[Finding, None] = {}
        self.steps = 0
        self.loops = 0
        self.repeating = 0
        self.conditional = 0
        self.uncertain = 0
        self.entries: list[tuple[S, list[tuple[str, S]]]] = []

    def report(self, findings: Iterable[Finding]) -> None:
        self.findings.update(dict.fromkeys(findings))

    def block(self, nodes: Block, state: S) -> S | None:
        for node in nodes:
            after = self.node(node, state)
            if after is None:
                return None
            state = after
        return state

    def node(self, node: Node, state: S) -> S | None:
        if isinstance(node, Branch):
            return self.branch(node, state)
        if isinstance(node, Jump):
            self.jump(node, state)
            return None
        if isinstance(node, Loop):
            exact = node.trips is not None and not jumps_out(node.body)
            return self.repeat(node, state) if exact else self.any_number_of_times(node, state)
        return self.step(node, state)

    def step(self, leaf: Leaf, state: S) -> S:
        self.steps += 1
        if self.steps > STEP_LIMIT:
            raise Undecided(leaf.site, f"gave up here: more than {STEP_LIMIT} events would have to be followed")
        after, faults = self.machine.step(state, leaf, self.repeating > 0)
        if faults and self.uncertain:
            # The arm may run only in iterations that begin in another state, as in `if i > 0: range_pop()`.
            raise Undecided(leaf.site, "in which iterations this runs, and so what is open then, is not decided here")
        self.report(faults)
        return after

    def branch(self, node: Branch, state: S) -> S | None:
        inside_loop = self.loops > 0
        self.conditional += 1
        self.uncertain += inside_loop
        ends = [self.block(arm, state) for arm in (node.then, node.other)]
        self.conditional -= 1
        self.uncertain -= inside_loop
        return self.meet(node.site, f"if {node.condition}", state, [end for end in ends if end is not None])

    def meet(self, site: Site, where: str, before: S, ends: list[S]) -> S | None:
        for end in ends:
            if not self.machine.balanced(before, end):
                message = f"`{where}` {self.difference(before, end)}; what later code makes of that is not decided here"
                raise Undecided(site, message)
        return reduce(self.machine.join, ends) if ends else None

    def difference(self, before: S, after: S) -> str:
        then, now = Counter(self.machine.still_open(before)), Counter(self.machine.still_open(after))
        opened, closed = sorted(now - then), sorted(then - now)
        parts = [f"leaves {' and '.join(opened)} open"] if opened else []
        parts += [f"closes {' and '.join(closed)}, opened before it"] if closed else []
        return " and ".join(parts)

    def repeat(self, loop: Loop, state: S) -> S | None:
        """A constant number of whole iterations: run them, until one changes nothing or never ends."""
        self.loops += 1
        after: S | None = state
        for trip in range(loop.trips or 0):
            self.repeating += trip > 0
            after = self.block(loop.body, state)
            self.repeating -= trip > 0
            if after is None or after == state:
                break
            state = after
        self.loops -= 1
        return after

    def any_number_of_times(self, loop: Loop, state: S) -> S | None:
        """Run the body until its end, joined with its entry, is its entry: then that holds of every iteration."""
        self.loops += 1
        self.conditional += 1
        joined, ways_out = self.iteration(loop, state)
        while joined != state:
            state = joined
            joined, ways_out = self.iteration(loop, state)
        self.conditional -= 1
        self.loops -= 1
        if "break" in ways_out:
            return state
        return state if not loop.endless and (loop.trips is None or ways_out) else None

    def iteration(self, loop: Loop, state: S) -> tuple[S, set[str]]:
        """The entry state of any iteration after this one, and the ways in which this one can end."""
        ends: list[tuple[str, S]] = []
        self.entries.append((state, ends))
        end = self.block(loop.body, state)
        self.entries.pop()
        if end is not None:
            ends.append(("end", end))
        met = self.meet(loop.site, loop.text, state, [after for _, after in ends])
        return state if met is None else self.machine.join(state, met), {way for way, _ in ends}

    def jump(self, node: Jump, state: S) -> None:
        if node.kind != "return":
            entry, ends = self.entries[-1]
            self.must_balance(node, entry, state, "the iteration")
            ends.append((node.kind, state))
        elif self.conditional:
            # Lanes that return inside a range do not leak it: the warp goes on with the others.
            self.must_balance(node, self.machine.start(), state, "the kernel")
        else:
            self.report(self.machine.leaks(state))

    def must_balance(self, node: Jump, before: S, state: S, what: str) -> None:
        if not self.machine.balanced(before, state):
            difference = self.difference(before, state)
            message = f"{node.kind} ends {what} for some and {difference}; who takes it is not decided here"
            raise Undecided(node.site, message)
