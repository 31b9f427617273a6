"""Barriers: mbarrier objects in shared memory, the named barriers of a block, and the barrier of a cluster."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tirx_bench.simulate.clocks import ORDERED, Clock, Domain
from tirx_bench.simulate.values import WARP, Mask

if TYPE_CHECKING:
    from tirx_bench.simulate.machine import Strand
    from tirx_bench.simulate.warp import Warp

NAMED_BARRIERS = 16


class Waitable:
    """Something that a strand waits for; `changes` counts what may have ended the wait."""

    changes = 0

    def waiting(self, strand: Strand) -> str:
        """What is missing, for a report of a deadlock."""
        raise NotImplementedError


class MBarrier(Waitable):
    """PTX ISA, "mbarrier": a phase completes when as many arrivals as `count` and all announced bytes have come."""

    def __init__(self, domain: Domain, name: str, count: int, warp: Warp, mask: Mask):
        self.name, self.count, self.pending, self.bytes, self.phase = name, count, count, 0, 0
        self.agent = domain.agent(
            f"a wait on {name} for that copy's phase"
        )  # of the copies that complete on it; phase p is epoch p + 1
        self.clock, self.gathered = domain.clock(), domain.clock()
        self.at, self.warp = warp.at, warp
        self.made_by, self.made_at, self.made_lane = warp.order.agent, warp.order.now, mask.first
        self.arrivals: Counter[tuple[str, int]] = Counter()  # of this phase, by warp and place
        self.came: Counter[tuple[str, int]] = Counter()  # ever
        self.observed = 0  # phases that somebody has waited for
        self.copy_at: int | None = None  # of the last copy that completes on it

    def made_before(self, warp: Warp, clock: Clock, row: int = ORDERED) -> bool:
        """Whether its initialisation is ordered before a warp with this clock."""
        if self.made_by == warp.order.agent and row == ORDERED:
            return True
        alone = warp.domain.lane_agents[self.made_by, self.made_lane]
        return bool(clock[row, self.made_by] >= self.made_at or (alone >= 0 and clock[row, alone] >= self.made_at))

    def arrive(self, warp: Warp, clock: Clock, arrivals: int, expected_bytes: int = 0) -> None:
        np.maximum(self.gathered, clock, out=self.gathered)
        self.bytes += expected_bytes
        self.pending -= arrivals
        self.arrivals[str(warp), warp.at] += arrivals
        self.came[str(warp), warp.at] += arrivals
        if self.pending < 0:
            message = f"{self.name} gets more arrivals in one phase than its count of {self.count}"
            warp.finding("barrier-misuse", message, other=self.at)
        self.settle()

    def settle(self) -> None:
        """Complete the phase if nothing is missing."""
        self.changes += 1
        if self.pending <= 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.count
            np.maximum(self.clock, self.gathered, out=self.clock)
            self.arrivals.clear()

    def completed(self, parity: int) -> bool:
        """try_wait.parity: whether the phase of this parity is over."""
        return (self.phase & 1) != parity

    def waiting(self, strand: Strand) -> str:
        sites = strand.warp.machine.program.sites
        came = "; ".join(f"{who}, {n} at {sites[at]}" for (who, at), n in self.arrivals.most_common(3))
        ever = "; ".join(f"{who} at {sites[at]}" for (who, at), _ in self.came.most_common(3))
        missing = f"{self.pending} of {self.count} arrivals" if self.pending > 0 else "no arrival"
        return (
            f"{self.name}, phase {self.phase}: {missing} and {self.bytes} bytes are missing; "
            f"arrived in this phase: {came or 'nobody'}; ever: {ever or 'nobody'}; initialised at {sites[self.at]}"
        )


@dataclass
class Meeting(Waitable):
    """A barrier that a number of threads meet at, again and again: a named one of a block, or the cluster's."""

    name: str
    domain: Domain
    expected: int = 0
    arrived: int = 0
    generation: int = 0
    clock: Clock = None
    done: Clock = None  # of the last generation that completed
    who: list[tuple[str, int]] = field(default_factory=list)
    team: frozenset[str] | None = None
    changes: int = 0

    def join(self, warp: Warp, mask: Mask, expected: int) -> int:
        """The whole warp arrives (PTX ISA, "bar": in multiples of the warp size). The generation to wait for."""
        if self.arrived and expected != self.expected:
            message = f"{self.name} is used with {self.expected} and with {expected} threads"
            warp.finding("barrier-misuse", message, other=self.who[-1][1])
        self.expected = expected
        if self.clock is None:
            self.clock = self.domain.clock()
        np.maximum(self.clock, warp.order.release(mask), out=self.clock)
        self.arrived += WARP
        self.who.append((str(warp), warp.at))
        mine = self.generation
        if self.arrived >= expected:
            self._complete(warp)
        return mine

    def _complete(self, warp: Warp) -> None:
        team = frozenset(name for name, _ in self.who)
        if self.team is not None and self.team != team and not (team <= self.team or self.team <= team):
            message = f"{self.name} is used by two sets of warps; which of them meet depends on who comes first"
            warp.finding("barrier-shared", message, other=self.who[0][1])
        self.team = self.team or team
        self.done, self.clock = self.clock, None
        self.generation += 1
        self.changes += 1
        self.arrived, self.who = 0, []

    def passed(self, warp: Warp, mask: Mask, generation: int) -> bool:
        if self.generation == generation:
            return False
        warp.order.acquire(mask, self.done)
        return True

    def waiting(self, strand: Strand) -> str:
        sites = strand.warp.machine.program.sites
        who = "; ".join(f"{name} at {sites[at]}" for name, at in self.who)
        return f"{self.name}: {self.arrived} of {self.expected} threads have come: {who}"


def mbarrier_name(source: str) -> str:
    """What the author calls it in the line that initialises it: `full` of `full.init(1)`, or of `init(full.ptr_to([0]), 1)`."""
    match = re.search(r"(\w+)\.(?:init|ptr_to)\(", source)
    return match[1] if match else "mbarrier"
