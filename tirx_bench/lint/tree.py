"""What lint keeps of a kernel: IKET events, token stores, and the control flow around them. Standard library only.

A block is a tuple of nodes. Branches and loops that hold no event, no token store and no jump are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tirx_bench.model import Finding, Place, Severity


@dataclass(frozen=True)
class Site:
    """Where a statement is written, and the call sites that inlined it, the nearest one first."""

    place: Place | None
    inlined_at: tuple[Place, ...] = ()

    def __str__(self) -> str:
        return str(self.place) if self.place else "an unknown place"


@dataclass(frozen=True)
class Event:
    """A mark, a push, a pop or the end of a token range. `name` is None for pop and end, and where it is no literal."""

    kind: Literal["mark", "push", "pop", "end"]
    site: Site
    name: str | None = None
    token: int | None = None
    payload: str | None = None


@dataclass(frozen=True)
class TokenStore:
    """A value stored into a token: a started range, a sentinel, or another token's value (`origin`).

    `token` is None where the value is thrown away.
    """

    source: Literal["start", "sentinel", "copy"]
    site: Site
    token: int | None
    name: str | None = None
    origin: int | None = None
    payload: str | None = None


@dataclass(frozen=True)
class Branch:
    condition: str
    site: Site
    then: Block
    other: Block = ()


@dataclass(frozen=True)
class Loop:
    """A for or while loop. `trips` is None unless it is a constant; only a jump leaves an `endless` loop.

    `text` is how to name the loop to a person.
    """

    text: str
    site: Site
    trips: int | None
    body: Block
    endless: bool = False


@dataclass(frozen=True)
class Jump:
    kind: Literal["break", "continue", "return"]
    site: Site


Leaf = Event | TokenStore
Node = Event | TokenStore | Branch | Loop | Jump
Block = tuple[Node, ...]


def leaves(block: Block) -> Iterator[Leaf]:
    """Every event and token store, in source order."""
    for node in block:
        if isinstance(node, Branch):
            yield from leaves(node.then + node.other)
        elif isinstance(node, Loop):
            yield from leaves(node.body)
        elif isinstance(node, Event | TokenStore):
            yield node


def jumps_out(body: Block, *, inner: bool = False) -> bool:
    """Whether a break, a continue or a return can leave an iteration of the loop that has this body early."""
    for node in body:
        if isinstance(node, Jump) and (node.kind == "return" or not inner):
            return True
        if isinstance(node, Branch) and jumps_out(node.then + node.other, inner=inner):
            return True
        if isinstance(node, Loop) and jumps_out(node.body, inner=True):
            return True
    return False


def finding(rule: str, severity: Severity, message: str, site: Site, evidence: str = "") -> Finding:
    chain = tuple(f"inlined at {place}" for place in site.inlined_at)
    return Finding(rule, severity, message, site.place, evidence, chain)


def error(rule: str, message: str, site: Site, evidence: str = "") -> Finding:
    return finding(rule, "error", message, site, evidence)
