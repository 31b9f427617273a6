"""What happens before what: vector clocks of warps, of their lanes where these differ, and of asynchronous engines.

An agent is whoever can be waited for: a warp, one lane that acted alone, the copies that complete on an mbarrier, a
warpgroup's wgmma, a thread's bulk copies. A clock has two rows by agent: up to which of its epochs everything is ordered
before, and up to which it is also visible to the asynchronous proxy, through fence.proxy.async (PTX ISA, "Async proxy").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tirx_bench.simulate.values import FULL, WARP, Mask

Clock = Any  # (2, agents) int32
COLLECTIVE = WARP  # the "lane" of what all lanes of a warp do together
ORDERED, FENCED = 0, 1
BARRIER = "a barrier or an mbarrier between them"


class TooManyAgentsError(Exception):
    """The domain is too small; a larger one will do."""


class Domain:
    """The agents that can be ordered with each other: those of the clusters that run together."""

    def __init__(self, capacity: int):
        self.capacity, self.count = capacity, 0
        self.edges: list[str] = []  # by agent, what orders something after what it did
        self.lane_agents = np.full((capacity, WARP + 1), -1, np.int32)  # by a warp's agent and lane

    def agent(self, edge: str) -> int:
        """A new agent; `edge` says what orders something after what it does."""
        if self.count == self.capacity:
            raise TooManyAgentsError
        self.count += 1
        self.edges.append(edge)
        return self.count - 1

    def clock(self) -> Clock:
        return np.zeros((2, self.capacity), np.int32)

    def lane_agent(self, agent: int, lane: int) -> int:
        if self.lane_agents[agent, lane] < 0:
            self.lane_agents[agent, lane] = self.agent(BARRIER)
        return int(self.lane_agents[agent, lane])

    def unordered(self, row: Any, agents: Any, epochs: Any, lanes: Any, own_agent: int, own_lanes: Any) -> Any:
        """Where what `agents` did at `epochs` by `lanes` is not ordered before the holder of the clock's `row`.

        A lane is always ordered after itself.
        """
        late = (agents >= 0) & (epochs > row[agents])
        if not late.any():
            return late
        alone = self.lane_agents[agents, lanes]
        late &= ~((alone >= 0) & (epochs <= row[alone]))
        return late & ~((agents == own_agent) & (lanes == own_lanes))


class Order:
    """What a warp has seen. `base` is what all lanes have; a lane that waited by itself has a clock of its own until the
    warp synchronises."""

    def __init__(self, domain: Domain):
        self.domain, self.agent = domain, domain.agent(BARRIER)
        self.base = domain.clock()
        self.own: dict[int, Clock] = {}
        self.now, self.fenced = 1, 0  # this epoch, and the last one of which all was fenced
        self.fenced_lanes: dict[int, int] = {}

    def clock(self, lane: int) -> Clock:
        return self.own.get(lane, self.base)

    def groups(self, mask: Mask) -> Iterator[tuple[list[int], Clock]]:
        """The lanes of `mask` by the clock that they have."""
        if not self.own:
            yield mask.lanes, self.base
            return
        rest = [lane for lane in mask.lanes if lane not in self.own]
        if rest:
            yield rest, self.base
        for lane in mask.lanes:
            if lane in self.own:
                yield [lane], self.own[lane]

    def acquire(self, mask: Mask, clock: Clock) -> None:
        """The lanes have seen what `clock` has."""
        if mask is FULL:
            np.maximum(self.base, clock, out=self.base)
            for own in self.own.values():
                np.maximum(own, clock, out=own)
            return
        for lane in mask.lanes:
            own = self._own(lane)
            np.maximum(own, clock, out=own)

    def reach(self, mask: Mask, agent: int, epoch: int, generic: bool = False) -> None:
        """The lanes have waited for an asynchronous agent's epoch. What it did it did in the asynchronous proxy, unless
        `generic`."""
        clocks = [self.base, *self.own.values()] if mask is FULL else [self._own(lane) for lane in mask.lanes]
        for clock in clocks:
            clock[ORDERED, agent] = max(clock[ORDERED, agent], epoch)
            if not generic:
                clock[FENCED, agent] = max(clock[FENCED, agent], epoch)

    def release(self, mask: Mask) -> Clock:
        """What whoever sees the lanes act now has seen. What they do afterwards is of the next epoch."""
        clock = self._joined(mask)
        if mask is FULL:
            self._publish(clock)
        else:
            for lane in mask.lanes:
                alone = self.domain.lane_agent(self.agent, lane)
                clock[ORDERED, alone] = self.now
                clock[FENCED, alone] = max(self.fenced, self.fenced_lanes.get(lane, 0))
        self.now += 1
        return clock

    def synchronise(self, mask: Mask) -> None:
        """The lanes have seen what each of them did and saw: bar.warp.sync."""
        clock = self._joined(mask)
        if mask is FULL:
            self._publish(clock)
            self.base, self.own = clock, {}
        else:
            for lane in mask.lanes:
                alone = self.domain.lane_agent(self.agent, lane)
                clock[ORDERED, alone] = self.now
                clock[FENCED, alone] = max(self.fenced, self.fenced_lanes.get(lane, 0))
            self.own.update({lane: clock.copy() for lane in mask.lanes})
        self.now += 1

    def fence(self, mask: Mask, strict: bool) -> None:
        """fence.proxy.async. Strict: it covers what the lanes did themselves, not what they have seen others do."""
        if mask is FULL:
            self.fenced = self.now
            for clock in [self.base, *self.own.values()]:
                self._cover(clock, strict)
        else:
            for lane in mask.lanes:
                self.fenced_lanes[lane] = self.now
                self._cover(self._own(lane), strict)
        self.now += 1

    def _cover(self, clock: Clock, strict: bool) -> None:
        if strict:
            clock[FENCED, self.agent] = clock[ORDERED, self.agent]
        else:
            np.maximum(clock[FENCED], clock[ORDERED], out=clock[FENCED])

    def _publish(self, clock: Clock) -> None:
        clock[ORDERED, self.agent] = self.now
        clock[FENCED, self.agent] = max(self.fenced, clock[FENCED, self.agent])
        for lane, epoch in self.fenced_lanes.items():
            alone = self.domain.lane_agent(self.agent, lane)
            clock[ORDERED, alone], clock[FENCED, alone] = self.now, max(epoch, clock[FENCED, alone])

    def _own(self, lane: int) -> Clock:
        if lane not in self.own:
            self.own[lane] = self.base.copy()
        return self.own[lane]

    def _joined(self, mask: Mask) -> Clock:
        clocks = [self.clock(lane) for lane in mask.lanes if lane in self.own]
        if len(clocks) < mask.count:
            clocks.append(self.base)
        joined = clocks[0].copy()
        for clock in clocks[1:]:
            np.maximum(joined, clock, out=joined)
        return joined
