"""Who touched which bytes last: what an access needs to know to see whether it races."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tirx_bench.simulate.clocks import COLLECTIVE, FENCED, ORDERED, Clock, Domain

NOBODY = -1


@dataclass
class Access:
    """One access: whose, of which epoch and lanes, from which place in the code, with what clock.

    `lanes` is one number or one for each element; `asynchronous` for TMA and wgmma, whose accesses need a proxy fence behind
    generic writes.
    """

    agent: int
    epoch: int
    lanes: Any
    at: int
    clock: Clock
    asynchronous: bool = False
    atomic: bool = False  # atomics do not race with each other


@dataclass(frozen=True)
class Conflict:
    """Accesses that nothing orders, or that a fence is missing between; `index` is the element, `other` the earlier place."""

    kind: str  # RAW, WAR, WAW, fence, unwritten, or flying: it has not landed
    index: int
    other: int
    agent: int = NOBODY  # that did it; nobody if it is of a cluster that has ended


class Shadow:
    """The last write, and every agent's last read, of each element. `index` is anything that indexes an array of them.

    Clusters that do not run together have agents of their own: `origin` is the number of the first one of this cluster, and
    nothing orders what an agent below it did.
    """

    def __init__(self, domain: Domain, shape: tuple[int, ...]):
        self.domain, self.shape = domain, shape
        self.writer = np.full(shape, NOBODY, np.int32)
        self.epoch, self.at = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self.lane, self.generic, self.atomic = np.zeros(shape, np.int16), np.zeros(shape, bool), np.zeros(shape, bool)
        self.readers: dict[int, tuple[Any, Any, Any]] = {}  # epoch, place, lane
        self.flying = np.zeros(shape, np.int8)  # asynchronous writes on their way
        self.origin = 0
        self.read_before: Any = None  # the place of a read by a cluster that ran before, plus 1

    def read(self, index: Any, access: Access) -> list[Conflict]:
        """Check a read and remember it."""
        found = []
        writers, epochs, foreign = self._writers(index)
        if (missing := writers < 0).any() and (foreign is None or (missing := missing & ~foreign).any()):
            found.append(self._conflict("unwritten", missing, index))
        late = self._late(writers, epochs, foreign, index, access)
        if late.any():
            found.append(self._conflict("RAW", late, index, writers))
        elif (flying := self.flying[index] > 0).any():
            found.append(self._conflict("flying", flying, index))
        if access.asynchronous and (plain := self._unfenced(writers, epochs, late, index, access)).any():
            found.append(self._conflict("fence", plain, index))
        self._remember(index, access)
        return found

    def write(self, index: Any, access: Access) -> list[Conflict]:
        """Check a write and remember it."""
        found = []
        writers, epochs, foreign = self._writers(index)
        if access.atomic and foreign is None and (missing := writers < 0).any():
            found.append(self._conflict("unwritten", missing, index))  # an atomic reads too
        late = self._late(writers, epochs, foreign, index, access)
        if late.any():
            found.append(self._conflict("WAW", late, index, writers))
        if self.read_before is not None and (before := self.read_before[index]).any():
            found.append(self._conflict("WAR", before > 0, index, None, self.read_before - 1))
        if access.asynchronous and (plain := self._unfenced(writers, epochs, late, index, access)).any():
            found.append(self._conflict("fence", plain, index))
        for agent, (read_epoch, read_at, read_lane) in self.readers.items():
            epochs = read_epoch[index]
            late = epochs > access.clock[ORDERED, agent]
            if late.any():
                late = self.domain.unordered(
                    access.clock[ORDERED], np.where(late, agent, NOBODY), epochs, read_lane[index], access.agent, access.lanes
                )
                if late.any():
                    found.append(self._conflict("WAR", late, index, np.full_like(epochs, agent), read_at))
        self.wrote(index, access)
        return found

    def wrote(self, index: Any, access: Access) -> None:
        """Remember a write without a check."""
        self.writer[index], self.epoch[index], self.at[index] = self.origin + access.agent, access.epoch, access.at
        self.lane[index], self.generic[index], self.atomic[index] = access.lanes, not access.asynchronous, access.atomic

    def next_cluster(self) -> None:
        """The agents of this cluster are gone, and with them whatever they were ordered with."""
        self.origin += self.domain.capacity
        for epoch, at, _ in self.readers.values():
            if self.read_before is None:
                self.read_before = np.zeros(self.shape, np.int32)
            np.copyto(self.read_before, at + 1, where=epoch > 0)
        self.readers = {}

    def _writers(self, index: Any) -> tuple[Any, Any, Any]:
        """The agent and epoch of the last writes, and where an earlier cluster made them; there the agent is nobody."""
        writers, epochs = self.writer[index], self.epoch[index]
        if not self.origin:
            return writers, epochs, None
        return np.where(writers >= self.origin, writers - self.origin, NOBODY), epochs, (writers >= 0) & (writers < self.origin)

    def _late(self, writers: Any, epochs: Any, foreign: Any, index: Any, access: Access) -> Any:
        late = (writers >= 0) & (epochs > access.clock[ORDERED][writers])
        if late.any():
            late = self.domain.unordered(access.clock[ORDERED], writers, epochs, self.lane[index], access.agent, access.lanes)
        late = late if foreign is None else late | foreign
        return late & ~self.atomic[index] if access.atomic else late

    def _unfenced(self, writers: Any, epochs: Any, late: Any, index: Any, access: Access) -> Any:
        plain = (writers >= 0) & ~late & self.generic[index] & (epochs > access.clock[FENCED][writers])
        if plain.any():
            alone = self.domain.lane_agents[writers, self.lane[index]]
            plain &= ~((alone >= 0) & (epochs <= access.clock[FENCED][alone]))
        return plain

    def _remember(self, index: Any, access: Access) -> None:
        if access.agent not in self.readers:
            self.readers[access.agent] = (
                np.zeros(self.shape, np.int32), np.zeros(self.shape, np.int32), np.zeros(self.shape, np.int16)
            )  # fmt: skip
        epoch, at, lane = self.readers[access.agent]
        if not access.asynchronous:
            # Several lanes that read one element: whoever writes it is another lane for one of them.
            others = (epoch[index] > access.clock[ORDERED, access.agent]) & (lane[index] != access.lanes)
            lane[index] = access.lanes
            several = others | (lane[index] != access.lanes)
            if several.any():
                lane[index] = np.where(several, COLLECTIVE, lane[index])
        epoch[index], at[index] = access.epoch, access.at

    def _conflict(self, kind: str, where: Any, index: Any, agents: Any = None, places: Any = None) -> Conflict:
        first = np.unravel_index(int(np.argmax(where)), np.shape(where))
        numbers = np.arange(int(np.prod(self.shape))).reshape(self.shape)[index]
        at = (self.at if places is None else places)[index][first]
        return Conflict(kind, int(numbers[first]), int(at), NOBODY if agents is None else int(agents[first]))
