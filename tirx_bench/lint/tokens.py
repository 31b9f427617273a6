"""range_start and range_end. A token holds no more than the id of its name, so two ranges of one name cannot be told
apart: NVIDIA's matcher toggles per (warp, name).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from tirx_bench.lint.tree import Event, Leaf, Site, TokenStore, error
from tirx_bench.lint.walk import Undecided
from tirx_bench.model import Finding


class Held(Enum):
    """What a token can hold other than a name."""

    NOTHING = "nothing"
    SENTINEL = "a sentinel"
    UNKNOWN = "different values on different paths"


Value = str | Held

UNSET = "the end is recorded whatever the token holds, and looks like a start; store sentinel_token first"


@dataclass(frozen=True)
class Tokens:
    """What each token holds, and the ranges that are open, the oldest first."""

    values: frozenset[tuple[int, Value]] = frozenset()
    opened: tuple[tuple[str, Site], ...] = ()

    def held(self, token: int | None) -> Value:
        return dict(self.values).get(token, Held.NOTHING) if token is not None else Held.NOTHING

    def holds(self, token: int | None, value: Value) -> Tokens:
        return self if token is None else Tokens(frozenset({**dict(self.values), token: value}.items()), self.opened)

    def site_of(self, name: str) -> Site | None:
        """Where the newest open range of that name started."""
        return next((site for opened, site in reversed(self.opened) if opened == name), None)

    def opens(self, name: str, site: Site) -> Tokens:
        return Tokens(self.values, (*self.opened, (name, site)))

    def closes(self, name: str) -> Tokens:
        last = max(i for i, (opened, _) in enumerate(self.opened) if opened == name)
        return Tokens(self.values, self.opened[:last] + self.opened[last + 1 :])


class StartEnd:
    """The machine of `walk` for token ranges."""

    what = "range_start and range_end"

    def start(self) -> Tokens:
        return Tokens()

    def step(self, state: Tokens, leaf: Leaf, again: bool) -> tuple[Tokens, tuple[Finding, ...]]:
        if isinstance(leaf, TokenStore):
            return _store(state, leaf)
        return _end(state, leaf) if leaf.kind == "end" and leaf.token is not None else (state, ())

    def balanced(self, before: Tokens, after: Tokens) -> bool:
        return Counter(self.still_open(before)) == Counter(self.still_open(after))

    def join(self, one: Tokens, other: Tokens) -> Tokens:
        tokens = {token for token, _ in one.values | other.values}
        met = {token: one.held(token) if one.held(token) == other.held(token) else Held.UNKNOWN for token in tokens}
        return Tokens(frozenset(met.items()), one.opened)

    def still_open(self, state: Tokens) -> tuple[str, ...]:
        return tuple(repr(name) for name, _ in state.opened)

    def leaks(self, state: Tokens) -> tuple[Finding, ...]:
        return tuple(_leak(name, site) for name, site in state.opened)


def _end(state: Tokens, end: Event) -> tuple[Tokens, tuple[Finding, ...]]:
    value = state.held(end.token)
    if value is Held.UNKNOWN:
        raise Undecided(end.site, f"range_end of a token that holds {value.value}, and the path is not decided here")
    if value is Held.SENTINEL:
        return state, ()
    if isinstance(value, Held):
        return state, (error("IK006", "range_end of a token that nothing was stored into", end.site, UNSET),)
    if state.site_of(value) is None:
        message = f"range_end of {value!r}, which is not open: it was ended before"
        return state, (error("IK005", message, end.site, f"the second end starts a false {value!r} range"),)
    return state.closes(value), ()


def _store(state: Tokens, store: TokenStore) -> tuple[Tokens, tuple[Finding, ...]]:
    copied = state.held(store.origin) if store.source == "copy" else Held.SENTINEL
    faults: list[Finding] = []
    lost = state.held(store.token)
    if isinstance(lost, str) and (site := state.site_of(lost)) and not _held_elsewhere(state, lost, store, copied):
        message = f"token overwritten while its range {lost!r} is open: nothing can end that range"
        faults.append(error("IK007", message, store.site, f"started at {site}"))
        state = state.closes(lost)
    if store.source != "start":
        return state.holds(store.token, copied), tuple(faults)
    name = store.name or "(no name)"
    if site := state.site_of(name):
        message = f"a second {name!r} range starts while one is open: IKET pairs by name and will cross them"
        faults.append(error("IK008", message, store.site, f"the other one started at {site}"))
    return state.holds(store.token, name).opens(name, store.site), tuple(faults)


def _held_elsewhere(state: Tokens, name: str, store: TokenStore, copied: Value) -> bool:
    """Whether another token can still end the range `name` after `store`."""
    others = {value for token, value in state.values if token != store.token}
    return bool({name, Held.UNKNOWN} & (others | {copied}))


def _leak(name: str, site: Site) -> Finding:
    message = f"the range that range_start({name!r}) opens is never ended"
    evidence = f"it is missing from the trace; if {name!r} starts again in this warp, every later {name!r} is inverted"
    return error("IK004", message, site, evidence)
