"""cp.async: every thread copies a few bytes from a tensor into shared memory, and waits for its own copies.

PTX ISA, "cp.async": the copies are ordinary, weak accesses, in the generic proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tirx_bench.simulate.barriers import Waitable
from tirx_bench.simulate.values import spread

if TYPE_CHECKING:
    from tirx_bench.simulate.machine import Strand
    from tirx_bench.simulate.warp import Warp


@dataclass
class ThreadCopies(Waitable):
    """The copies of one thread, numbered from 1, which are the epochs of `agent`."""

    agent: int
    issued: int = 0
    pending: set[int] = field(default_factory=set)
    commits: list[int] = field(default_factory=list)  # how many were issued before each
    then: list[tuple[int, Callable[[], None]]] = field(default_factory=list)  # what follows when so many have landed
    changes: int = 0

    def landed(self, number: int) -> None:
        self.pending.discard(number)
        self.changes += 1
        ready = [act for through, act in self.then if self.through(through)]
        self.then = [(through, act) for through, act in self.then if not self.through(through)]
        for act in ready:
            act()

    def through(self, number: int) -> bool:
        """Whether every copy up to this one has landed."""
        return not any(copy <= number for copy in self.pending)

    def when_all_landed(self, act: Callable[[], None]) -> None:
        if self.through(self.issued):
            act()
        else:
            self.then.append((self.issued, act))

    def waiting(self, strand: Strand) -> str:
        return "its cp.async"


def copies_of(warp: Warp, lane: int) -> ThreadCopies:
    if lane not in warp.copies:
        edge = "a cp.async.wait_group of the thread that issued it, and a barrier"
        warp.copies[lane] = ThreadCopies(warp.domain.agent(edge))
    return warp.copies[lane]


def chosen(values: Any, lanes: list[int]) -> Any:
    """What these lanes have of a value that all may share."""
    return spread(values)[lanes]
