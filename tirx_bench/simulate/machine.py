"""The machine: blocks of warps, each a generator, run by a schedule until all have ended or none can go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirx_bench.simulate.barriers import NAMED_BARRIERS, MBarrier, Meeting, Waitable
from tirx_bench.simulate.capture import KernelCall, TensorMap
from tirx_bench.simulate.clocks import Domain
from tirx_bench.simulate.copies import TensorView
from tirx_bench.simulate.findings import Found, Site
from tirx_bench.simulate.memory import Pointer, SharedMemory, Tensor
from tirx_bench.simulate.schedule import LATE, Chance, Schedule
from tirx_bench.simulate.shadow import Shadow
from tirx_bench.simulate.tensor_core import Warpgroup
from tirx_bench.simulate.values import FULL, WARP, Mask
from tirx_bench.simulate.warp import HaltError, Warp

SPIN = "spin"  # yielded by a loop that polls memory
SPINS = 2000  # rounds in which strands only poll, before nobody can end it

Body = Callable[..., Generator[Any, None, None]]


@dataclass(frozen=True)
class Program:
    """A translated device function."""

    body: Body
    source: str
    sites: tuple[Site, ...]
    operations: tuple[tuple[int, str], ...]  # place and variant of every intrinsic, in the order of the code
    static_bytes: int
    unit: int
    written: frozenset[str]
    communicates: bool


class Strand:
    """Threads of a warp that run together; a warp has several while it is divided."""

    __slots__ = ("changes", "generator", "mask", "seen", "waits", "warp")

    def __init__(self, warp: Warp, mask: Mask):
        self.warp, self.mask, self.changes = warp, mask, 0
        self.generator: Generator[Any, None, None]
        self.waits: Any = None
        self.seen = 0

    def wait(self, what: Any) -> bool:
        """Blocked until `what` changes. Always False, so that an operation can return it."""
        self.waits, self.seen = what, what.changes
        return False

    def waiting(self, strand: Strand) -> str:
        return "the other threads of its warp"


class Block:
    """A CTA."""

    def __init__(self, cluster: Cluster, rank: int, position: tuple[int, ...]):
        machine, call = cluster.machine, cluster.machine.call
        self.cluster, self.rank, self.position, self.threads = cluster, rank, position, call.threads
        program = machine.program
        self.memory = SharedMemory(cluster.domain, program.static_bytes, call.dynamic_bytes, program.unit, machine.races)
        self.mbarriers: dict[int, MBarrier] = {}
        self.named = [Meeting(f"barrier {number}", cluster.domain) for number in range(NAMED_BARRIERS)]
        self.pool = RegisterPool()
        self.ended = cluster.domain.clock()  # what its warps had seen when they ended
        self.touched_by: dict[int, tuple[int, int, Warp]] = {}  # other blocks' accesses to its memory


class RegisterPool(Waitable):
    """Registers that setmaxnreg.dec has given back and .inc may take."""

    def __init__(self) -> None:
        self.free = 0

    def waiting(self, strand: Strand) -> str:
        return f"setmaxnreg.inc: the block has {self.free} registers free"


class Cluster:
    """The blocks that run together: those of a cluster, or the whole grid where blocks talk through global memory."""

    def __init__(self, machine: Machine, origins: list[tuple[int, int, int]], capacity: int):
        self.machine, self.domain = machine, Domain(capacity)
        self.blocks: list[Block] = []
        self.warps: list[Warp] = []
        self.warpgroups: dict[tuple[int, int], Warpgroup] = {}
        self.pending: list[tuple[str, Callable[[], None]]] = []
        self.meeting = Meeting("the barrier of the cluster", self.domain)
        self.announced: dict[tuple[int, int], Any] = {}  # by memory and offset, what an atomic there announces
        shape = machine.call.cluster
        for origin in origins:
            for z in range(shape[2]):
                for y in range(shape[1]):
                    for x in range(shape[0]):
                        self._add_block(origin, (x, y, z))

    def _add_block(self, origin: tuple[int, int, int], inside: tuple[int, int, int]) -> None:
        block = Block(self, len(self.blocks), tuple(o + i for o, i in zip(origin, inside, strict=True)))
        self.blocks.append(block)
        for number in range(-(-block.threads // WARP)):
            warp = Warp(block, number)
            warp.index |= {f"clusterCtaIdx.{axis}": i for axis, i in zip("xyz", inside, strict=True)}
            self.warps.append(warp)
        for number in range(-(-block.threads // (4 * WARP))):
            self.warpgroups[block.rank, number] = Warpgroup(
                block, self.domain.agent("a wgmma.wait_group of all four warps, and a barrier")
            )

    def launch(self, kind: str, complete: Callable[[], None]) -> None:
        """Asynchronous work was issued."""
        if kind in self.machine.schedule.early:
            complete()
        else:
            self.pending.append((kind, complete))


class Machine:
    """One launch of one device function, under one schedule. `races`: keep shadows of memory, and report."""

    def __init__(
        self, program: Program, call: KernelCall, arrays: Mapping[str, Any], schedule: Schedule = LATE, *, races: bool = True,
        strict: bool = False, capacity: int | None = None,
    ):  # fmt: skip
        self.program, self.call, self.schedule, self.races, self.strict = program, call, schedule, races, strict
        self.found = Found(program.sites)
        self.chance = Chance(schedule)
        self.tensors = {name: Tensor(name, array) for name, array in arrays.items()}
        self.visited: set[int] = set()
        self.phases: dict[str, int] = {}  # by mbarrier, the most that one completed
        self.views: dict[str, TensorView] = {}
        blocks = int(np.prod(call.cluster)) if not program.communicates else call.blocks
        self.capacity = capacity or max(64, blocks * (call.threads // WARP * 2 + 40))
        self.arguments = {
            name: given if isinstance(given, TensorMap | int | float) else Pointer(self.tensors[given], 0)
            for name, given in zip(call.names, call.arguments, strict=True)
        }

    def view(self, tensor_map: TensorMap) -> TensorView:
        if tensor_map.name not in self.views:
            self.views[tensor_map.name] = TensorView(tensor_map, self.tensors[tensor_map.tensor])
        return self.views[tensor_map.name]

    # ----------------------------------------------------------------------------------------- running

    def run(self) -> None:
        """Every cluster of the grid. Raises `TooManyAgentsError` when `capacity` is too small."""
        origins = list(self.call.clusters())
        together = [origins] if self.program.communicates else [[origin] for origin in origins]
        for group in together:
            cluster = Cluster(self, group, self.capacity)
            if self.races:
                self._watch(cluster)
            try:
                with np.errstate(all="ignore"):  # a device does not warn either
                    ended = self._run(cluster)
            except HaltError:
                ended = False
            if not ended:
                return

    def _watch(self, cluster: Cluster) -> None:
        for name in self.program.written:
            tensor = self.tensors[name]
            if tensor.shadow is None:
                tensor.shadow = Shadow(cluster.domain, (tensor.array.size,))
            else:
                tensor.shadow.next_cluster()
                tensor.shadow.domain = cluster.domain

    def _run(self, cluster: Cluster) -> bool:
        """Whether all strands have ended."""
        strands = []
        for warp in cluster.warps:
            strand = Strand(warp, FULL)
            strand.generator = self.program.body(self, strand, FULL)
            strands.append(strand)
        self.strands, spins = strands, 0
        while strands:
            if self._round(cluster, strands):
                spins = 0
            elif not self._complete_one(cluster):
                spins += 1
                if spins > SPINS or all(strand.waits is not None for strand in strands):
                    self._deadlock(strands)
                    return False
        while cluster.pending:
            cluster.pending.pop(0)[1]()
        self._leftovers(cluster)
        return True

    def _round(self, cluster: Cluster, strands: list[Strand]) -> bool:
        """Let every strand go on that can. Whether one did more than poll."""
        moved = False
        order = list(strands)
        if self.schedule.by_chance:
            self._shuffle(order)
            while cluster.pending and self.chance.choose(3) == 0:
                cluster.pending.pop(self.chance.choose(len(cluster.pending)))[1]()
                moved = True
        for strand in order:
            if strand.waits is not None:
                if strand.waits.changes == strand.seen:
                    continue
                strand.waits = None
            try:
                moved |= next(strand.generator) is not SPIN
            except StopIteration:
                moved = True
                strand.changes += 1
                strands.remove(strand)
                self._ended(strand)
        return moved

    def _shuffle(self, order: list[Strand]) -> None:
        for last in range(len(order) - 1, 0, -1):
            other = self.chance.choose(last + 1)
            order[last], order[other] = order[other], order[last]

    def _complete_one(self, cluster: Cluster) -> bool:
        """Nobody can run: one asynchronous operation completes. Whether there was one."""
        waiting = {id(s.waits): s for s in self.strands if isinstance(s.waits, Warpgroup)}
        groups = [s for s in waiting.values() if s.waits.ready(s.warp.wgmma.wanted)]
        count = len(cluster.pending) + len(groups)
        if not count:
            return False
        pick = self.chance.choose(count) if self.schedule.by_chance else 0
        if pick < len(cluster.pending):
            cluster.pending.pop(pick)[1]()
        else:
            strand = groups[pick - len(cluster.pending)]
            strand.waits.run(strand.warp.wgmma.wanted)
        return True

    def arms(self, strand: Strand, yes: Body, taken: Mask | None, no: Body, left: Mask | None) -> Generator[Any, None, None]:
        """Both arms of a branch in which threads may wait: those of one can make progress while the other waits."""
        if taken is None or left is None:
            yield from yes(strand, taken) if left is None else no(strand, left)
            return
        other = Strand(strand.warp, left)
        other.generator = no(other, left)
        self.strands.append(other)
        yield from yes(strand, taken)
        while other in self.strands:
            strand.wait(other)
            yield

    # ---------------------------------------------------------------------------------------- the end

    def _ended(self, strand: Strand) -> None:
        warp = strand.warp
        if any(other.warp is warp for other in self.strands):
            return
        np.maximum(warp.block.ended, warp.order.release(FULL), out=warp.block.ended)
        for groups in warp.bulk.values():
            if groups.open:
                warp.finding("bulk-group", "the thread ends with bulk copies that it never committed", at=groups.open[0].at)
            elif (unread := groups.unread) is not None:
                warp.finding("bulk-group", "the block may end while this copy still reads its shared memory", at=unread.at)
        if len(warp.wgmma.commits) > warp.wgmma.waited:
            warp.finding("wgmma-group", "the warp ends with wgmma that it never waited for")

    def _leftovers(self, cluster: Cluster) -> None:
        for block in cluster.blocks:
            for meeting in block.named:
                if meeting.arrived:
                    message = f"{meeting.name} is left with {meeting.arrived} of {meeting.expected} threads at the end"
                    self.found.add("unmatched-arrive", message, meeting.who[-1][0], meeting.who[-1][1])
            for agent, (epoch, at, warp) in block.touched_by.items():
                if epoch > block.ended[0, agent]:
                    message = "the block whose shared memory this reaches may have ended"
                    self.found.add("exit-before-remote-access", message, str(warp), at)
            for barrier in block.mbarriers.values():
                self.phases[barrier.name] = max(barrier.phase, self.phases.get(barrier.name, 0))
                if barrier.copy_at is not None and barrier.observed < barrier.phase:
                    message = (
                        f"{barrier.name} completed {barrier.phase - barrier.observed} phases of copies that nobody waited for"
                    )
                    self.found.add("unconsumed-load", message, "", barrier.copy_at, barrier.at)

    def _deadlock(self, strands: list[Strand]) -> None:
        for strand in strands:
            what = strand.waits.waiting(strand) if strand.waits is not None else "memory that it polls"
            lanes = "" if strand.mask is FULL else f" ({strand.mask.count} lanes)"
            self.found.add("deadlock", f"waits for {what}", f"{strand.warp}{lanes}", strand.warp.at)
