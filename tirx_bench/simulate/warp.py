"""One warp: what it has seen, what it holds, and its accesses to memory, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_bench.simulate.barriers import MBarrier, Meeting, mbarrier_name
from tirx_bench.simulate.clocks import COLLECTIVE, Order
from tirx_bench.simulate.copies import BulkGroups
from tirx_bench.simulate.element_copies import ThreadCopies
from tirx_bench.simulate.memory import OFFSET, RANK_SHIFT, Pointer, SharedMemory, Tensor
from tirx_bench.simulate.registers import Accumulators
from tirx_bench.simulate.shadow import Access, Conflict
from tirx_bench.simulate.tensor_core import Warpgroup, WarpWgmma
from tirx_bench.simulate.values import FULL, LANES, WARP, Mask, byte_size

if TYPE_CHECKING:
    from tirx_bench.simulate.machine import Block


class HaltError(Exception):
    """Nothing sensible can follow; the finding says why."""


class Warp:
    def __init__(self, block: Block, number: int):
        self.block, self.number, self.in_warpgroup = block, number, number % 4
        self.cluster, self.machine, self.domain = block.cluster, block.cluster.machine, block.cluster.domain
        self.order: Order = Order(self.domain)
        self.thread = number * WARP + LANES
        self.at: int = 0
        self.accumulators: list[Accumulators] = []
        self.fences: dict[int, Any] = {}  # by lane, the clock of its last fence
        self.wgmma = WarpWgmma()
        self.bulk: dict[int, BulkGroups] = {}  # by lane
        self.copies: dict[int, ThreadCopies] = {}  # by lane: cp.async
        self.registers = self.machine.call.registers
        self.joined: dict[int, tuple[Meeting, int]] = {}  # strand: what it waits at, and for which generation
        self.index = {
            **{f"blockIdx.{axis}": p for axis, p in zip("xyz", block.position, strict=True)},
            "threadIdx.x": self.thread,
        }

    def __str__(self) -> str:
        where = ",".join(map(str, self.block.position)).removesuffix(",0").removesuffix(",0")
        return f"block {where} warp {self.number}"

    @property
    def warpgroup(self) -> Warpgroup:
        return self.cluster.warpgroups[self.block.rank, self.number // 4]

    def finding(self, rule: str, message: str, *, other: int | None = None, at: int | None = None) -> None:
        self.machine.found.add(rule, message, str(self), self.at if at is None else at, other)

    def aligned(self, mask: Mask, what: str) -> None:
        if mask is not FULL:
            self.finding("divergent-aligned", f"{what} is .aligned, and {WARP - mask.count} lanes of the warp do not run it")

    # ------------------------------------------------------------------------------------------- memory

    def access(self, lanes: Any, mask: Mask) -> Iterable[tuple[list[int], Access]]:
        """An ordinary access by the lanes of `mask`, once for each clock that they have. `lanes` are theirs."""
        for group, clock in self.order.groups(mask):
            yield group, Access(self.order.agent, self.order.now, lanes, self.at, clock)

    def shared(self, address: Any, size: int, mask: Mask, what: str, write: bool, atomic: bool = False) -> Any:
        """Check accesses of `size` bytes at shared-memory addresses, one by lane or one for all, and where they are.

        Gives the block and the byte offsets of the active lanes, or None when they are outside of its memory.
        """
        block, offsets = self.target(address, mask)
        active = offsets[mask.bits] if offsets.ndim else offsets[None]
        memory = block.memory
        if active.min() < 0 or active.max() + size > memory.size or (active % size).any():
            wrong = "misaligned" if (active % size).any() else f"outside of the {memory.size} bytes of shared memory"
            self.finding(
                "out-of-bounds" if "outside" in wrong else "misaligned", f"{what}: {size} bytes at {int(active.max())}, {wrong}"
            )
            return None
        if block is not self.block:
            block.touched_by[self.order.agent] = (self.order.now, self.at, self)
        if memory.shadow is not None:
            self._check_shared(memory, offsets, size, mask, what, write, atomic)
        return block, active

    def _check_shared(
        self, memory: SharedMemory, offsets: Any, size: int, mask: Mask, what: str, write: bool, atomic: bool
    ) -> None:
        assert memory.shadow is not None
        for group, access in self.access(COLLECTIVE, mask):
            access.atomic = atomic
            if offsets.ndim:
                access.lanes = np.array(group)
                index = memory.elements(offsets[access.lanes], size)
            else:
                access.lanes = COLLECTIVE if len(group) > 1 else group[0]
                index = memory.elements(offsets[None], size)
            self.judge(memory.shadow.write(index, access) if write else memory.shadow.read(index, access), what)

    def target(self, address: Any, mask: Mask) -> tuple[Block, Any]:
        """The block whose shared memory an address is in, and the offset there. Lanes must agree on the block."""
        addresses = np.asarray(address)
        rank = int(addresses[mask.first] if addresses.ndim else addresses) >> RANK_SHIFT
        return (self.cluster.blocks[rank - 1] if rank else self.block), addresses & OFFSET

    def global_index(self, pointer: Pointer, size: int, mask: Mask, what: str, write: bool, atomic: bool = False) -> Any:
        """Check accesses to a tensor; the elements of the active lanes, or None when they are outside of it."""
        tensor, offset = pointer.tensor, np.asarray(pointer.offset)
        active = offset[mask.bits] if offset.ndim else offset[None]
        if active.min() < 0 or active.max() + size > len(tensor.raw):
            worst = int(active.min()) if active.min() < 0 else int(active.max())
            self.finding("out-of-bounds", f"{what}: byte {worst} of {tensor.name}, which has {len(tensor.raw)}")
            return None
        if tensor.shadow is not None:
            for group, access in self.access(COLLECTIVE, mask):
                access.lanes = np.array(group) if offset.ndim else (COLLECTIVE if len(group) > 1 else group[0])
                access.atomic = atomic
                elements = (offset[access.lanes] if offset.ndim else offset[None]) // tensor.size
                if size > tensor.size:
                    elements = elements + np.arange(size // tensor.size)[:, None]
                self.judge(tensor.shadow.write(elements, access) if write else tensor.shadow.read(elements, access), what, tensor)
        return active

    def judge(self, conflicts: list[Conflict], what: str, tensor: Tensor | None = None) -> None:
        """Report what an access to memory conflicts with."""
        place = f"element {{}} of {tensor.name}" if tensor else "shared memory"
        for conflict in conflicts:
            where = place.format(conflict.index)
            if conflict.kind == "unwritten":
                if tensor is None:
                    self.finding("uninitialised-memory", f"{what} reads shared memory that nobody has written")
            elif conflict.kind == "flying":
                message = f"{what} has passed its barrier although a copy into these bytes has not landed: expect_tx is too small"
                self.finding("transaction-bytes", message, other=conflict.other)
            elif conflict.kind == "fence":
                message = f"{what} is in the asynchronous proxy and follows ordinary writes without fence.proxy.async"
                self.finding("missing-proxy-fence", message, other=conflict.other)
            else:
                before = {"RAW": "reads what nothing orders after its write", "WAW": "overwrites what nothing orders before it",
                          "WAR": "overwrites what may still be read"}[conflict.kind]  # fmt: skip
                missing = "nothing can order blocks of one launch" if conflict.agent < 0 else self.domain.edges[conflict.agent]
                self.finding("race", f"{conflict.kind}: {what} {before} ({where}); missing: {missing}", other=conflict.other)

    # ------------------------------------------------------------------------------------------- atomics

    def fence(self, mask: Mask) -> None:
        """What the lanes did and saw may be announced by an atomic from now on (PTX ISA, "Release and Acquire Patterns")."""
        clock = self.order.release(mask)
        self.fences.update(dict.fromkeys(mask.lanes, clock))

    def atomic(self, address: Any, mask: Mask, dtype: str) -> tuple[Any, Any, int]:
        """The memory's bytes, the offsets of the active lanes (None outside of it) and the size of an atomic access.

        Whoever comes later to the same place has seen what a fence before this one covered.
        """
        size = byte_size(dtype)
        if type(address) is Pointer:
            offsets = self.global_index(address, size, mask, f"an atomic on {dtype}", write=True, atomic=True)
            memory = address.tensor.raw
        else:
            found = self.shared(address, size, mask, f"an atomic on {dtype}", write=True, atomic=True)
            memory, offsets = (found[0].memory.bytes, found[1]) if found else (None, None)
        if offsets is not None:
            self._meet_at(memory, offsets, mask)
        return memory, offsets, size

    def _meet_at(self, memory: Any, offsets: Any, mask: Mask) -> None:
        places = self.cluster.announced
        for lane, offset in zip(mask.lanes, np.broadcast_to(offsets, mask.count).tolist(), strict=True):
            key = id(memory), offset
            if key in places:
                self.order.acquire(mask, places[key])
            if lane in self.fences:
                places[key] = np.maximum(places[key], self.fences[lane]) if key in places else self.fences[lane].copy()

    def observe(self, mask: Mask, address: Any) -> None:
        """A load that acquires: the lanes have seen what was announced by an atomic or a store at these places."""
        memory = address.tensor.raw if type(address) is Pointer else self.target(address, mask)[0].memory.bytes
        offsets = np.asarray(address.offset if type(address) is Pointer else self.target(address, mask)[1])
        for offset in set((offsets[mask.bits] if offsets.ndim else offsets[None]).tolist()):
            if (id(memory), offset) in self.cluster.announced:
                self.order.acquire(mask, self.cluster.announced[id(memory), offset])

    # ------------------------------------------------------------------------------------------ barriers

    def mbarrier(self, address: Any, mask: Mask) -> MBarrier:
        """The mbarrier at an address. Raises `HaltError` when there is none."""
        block, offset = self.target(address, mask)
        barrier = block.mbarriers.get(int(offset))
        if barrier is None:
            self.finding("barrier-misuse", f"no mbarrier was initialised at byte {int(offset)} of shared memory")
            raise HaltError
        if not barrier.made_before(self, self.order.clock(mask.first)):
            message = f"{barrier.name} is used, and nothing orders its initialisation before that"
            self.finding("barrier-not-initialised", message, other=barrier.at)
        return barrier

    def make_mbarrier(self, address: int, count: int, mask: Mask) -> None:
        base = mbarrier_name(self.machine.program.sites[self.at].source)
        number = sum(b.name.startswith(f"{base}[") for b in self.block.mbarriers.values())
        self.block.mbarriers[address] = MBarrier(self.domain, f"{base}[{number}]", count, self, mask)
