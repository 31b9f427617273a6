"""Asynchronous copies between global and shared memory: boxes of tensors (TMA) and plain runs of bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_bench.simulate.barriers import MBarrier, Waitable
from tirx_bench.simulate.capture import TensorMap
from tirx_bench.simulate.clocks import FENCED, Clock
from tirx_bench.simulate.layouts import CHUNK, SPAN, box_chunks
from tirx_bench.simulate.memory import Tensor
from tirx_bench.simulate.shadow import Access
from tirx_bench.simulate.values import FLOATS, numpy_kind

if TYPE_CHECKING:
    from tirx_bench.simulate.machine import Block, Strand
    from tirx_bench.simulate.warp import Warp


class TensorView:
    """A tensor as a tensor map describes it, outermost dimension first."""

    def __init__(self, tensor_map: TensorMap, tensor: Tensor):
        self.map, self.tensor = tensor_map, tensor
        self.kind = np.dtype(numpy_kind(tensor_map.dtype))
        raw = tensor.raw[tensor_map.byte_offset :].view(_bits(self.kind))
        self.shape = tensor_map.dims[::-1]
        self.steps = (*(s // self.kind.itemsize for s in tensor_map.strides[::-1]), 1)  # in elements
        self.values = np.lib.stride_tricks.as_strided(raw, self.shape, tuple(s * self.kind.itemsize for s in self.steps))
        self.inner_bytes = tensor_map.box[0] * self.kind.itemsize
        self.rows = math.prod(tensor_map.box[1:])
        fill = np.nan if tensor_map.fill_nan and tensor_map.dtype in FLOATS else 0
        self.fill = np.array(fill).astype(self.kind).view(_bits(self.kind))[()]

    def clipped(self, coordinates: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part of the box inside of the tensor: where in the tensor, and where in the box."""
        inside, box = [], []
        for start, extent, size in zip(coordinates[::-1], self.map.box[::-1], self.shape, strict=True):
            low, high = max(start, 0), max(min(start + extent, size), max(start, 0))
            inside.append(slice(low, high))
            box.append(slice(low - start, high - start))
        return tuple(inside), tuple(box)

    def box_at(self, coordinates: tuple[int, ...]) -> Any:
        """The box, with what is outside of the tensor filled in, as rows of chunks."""
        box = np.full(self.map.box[::-1], self.fill)
        inside, part = self.clipped(coordinates)
        box[part] = self.values[inside]
        return box.reshape(self.rows, -1).view(np.uint8).reshape(self.rows, -1).view(np.complex128)

    def elements(self, coordinates: tuple[int, ...]) -> Any:
        """The tensor's elements under the box."""
        inside, _ = self.clipped(coordinates)
        numbers = np.array(self.map.byte_offset // self.kind.itemsize)
        for dimension, step in zip(inside, self.steps, strict=True):
            numbers = numbers[..., None] + np.arange(dimension.start, dimension.stop) * step
        return numbers.reshape(-1)


def _bits(kind: Any) -> Any:
    return np.dtype(f"u{kind.itemsize}")


@dataclass
class BulkCopy:
    """A bulk copy that reads shared memory; `agent` and `epoch` are how its reads are waited for."""

    at: int
    epoch: int
    done: bool = False


@dataclass
class BulkGroups(Waitable):
    """The bulk groups of one thread (PTX ISA, "cp.async.bulk.commit_group")."""

    agent: int
    open: list[BulkCopy] = field(default_factory=list)
    committed: list[list[BulkCopy]] = field(default_factory=list)
    waited: int = 0
    changes: int = 0

    @property
    def unread(self) -> BulkCopy | None:
        """A committed copy that the thread has not waited for."""
        return next((copy for group in self.committed[self.waited :] for copy in group), None)

    def pending_before(self, count: int) -> bool:
        return any(not copy.done for group in self.committed[self.waited : count] for copy in group)

    def waiting(self, strand: Strand) -> str:
        return "its bulk copies"


def groups_of(warp: Warp, lane: int) -> BulkGroups:
    if lane not in warp.bulk:
        warp.bulk[lane] = BulkGroups(warp.domain.agent("a cp.async.bulk.wait_group of the thread that issued it"))
    return warp.bulk[lane]


def arrive_on(barrier: MBarrier, warp: Warp, clock: Clock) -> None:
    """A copy is to complete on the barrier, in the asynchronous proxy."""
    if not barrier.made_before(warp, clock, FENCED):
        message = (
            f"a copy completes on {barrier.name}, and its initialisation is not visible to the asynchronous proxy: "
            "fence.mbarrier_init or fence.proxy.async after it"
        )
        warp.finding("missing-proxy-fence", message, other=barrier.at)
    barrier.copy_at = warp.at


def load_box(warp: Warp, view: TensorView, coordinates: tuple[int, ...], clock: Clock, address: int,
             targets: list[tuple[Block, MBarrier]]) -> None:  # fmt: skip
    """A box of a tensor into the shared memory of each of `targets`, completing on its barrier."""
    if not _aligned(warp, view, address, coordinates):
        return
    chunks = box_chunks(address, view.inner_bytes, view.rows, view.map.swizzle)
    fits = [(block, barrier) for block, barrier in targets if inside(warp, block, chunks, "the copy")]
    for block, barrier in fits:
        arrive_on(barrier, warp, clock)
        into_shared(warp, block, barrier, chunks, clock, "the copy")
    if view.tensor.shadow is not None:
        read = Access(targets[0][1].agent, targets[0][1].phase + 1, 0, warp.at, clock, True)
        warp.judge(view.tensor.shadow.read(view.elements(coordinates), read), "the copy", view.tensor)
    size = view.inner_bytes * view.rows

    def land() -> None:
        data = view.box_at(coordinates)
        for block, barrier in fits:
            arrived(block, barrier, chunks, data, size)

    warp.cluster.launch("copy", land)


def into_shared(warp: Warp, block: Block, barrier: MBarrier, chunks: Any, clock: Clock, what: str) -> None:
    """Check the writes of a copy that completes on the barrier's present phase."""
    if block.memory.shadow is not None:
        access = Access(barrier.agent, barrier.phase + 1, 0, warp.at, clock, True)
        warp.judge(block.memory.shadow.write(chunks, access), what)
        block.memory.shadow.flying[chunks] += 1


def arrived(block: Block, barrier: MBarrier, chunks: Any, data: Any, size: int) -> None:
    block.memory.chunks[chunks] = data
    if block.memory.shadow is not None:
        block.memory.shadow.flying[chunks] -= 1
    barrier.bytes -= size
    barrier.settle()


def store_box(warp: Warp, view: TensorView, coordinates: tuple[int, ...], clock: Clock, address: int, lane: int) -> None:
    """A box in shared memory into a tensor; what is outside of it is not written."""
    if not _aligned(warp, view, address, coordinates):
        return
    chunks = box_chunks(address, view.inner_bytes, view.rows, view.map.swizzle)
    if not inside(warp, warp.block, chunks, "the store"):
        return
    groups = groups_of(warp, lane)
    copy = BulkCopy(warp.at, len(groups.committed) + 1)
    groups.open.append(copy)
    access = Access(groups.agent, copy.epoch, 0, warp.at, clock, True)
    block, tensor = warp.block, view.tensor
    if block.memory.shadow is not None:
        warp.judge(block.memory.shadow.read(chunks, access), "the store")
    if tensor.shadow is not None:
        warp.judge(tensor.shadow.write(view.elements(coordinates), access), "the store", tensor)
    inside_tensor, part = view.clipped(coordinates)

    def go() -> None:
        rows = np.ascontiguousarray(block.memory.chunks[chunks]).view(view.values.dtype)
        view.values[inside_tensor] = rows.reshape(view.map.box[::-1])[part]
        copy.done = True
        groups.changes += 1

    count_stores(tensor, view.elements(coordinates))
    warp.cluster.launch("store", go)


def count_stores(tensor: Tensor, elements: Any) -> None:
    tensor.stored[elements] = np.minimum(tensor.stored[elements], 254) + 1


def inside(warp: Warp, block: Block, chunks: Any, what: str) -> bool:
    if chunks.min() >= 0 and chunks.max() < block.memory.size // CHUNK:
        return True
    warp.finding("out-of-bounds", f"{what} reaches outside of the {block.memory.size} bytes of the block's shared memory")
    return False


def _aligned(warp: Warp, view: TensorView, address: int, coordinates: tuple[int, ...]) -> bool:
    """PTX ISA, "cp.async.bulk.tensor": the shared address is a multiple of 128 bytes. And measured on an H200: an innermost
    coordinate that is not at a multiple of 16 bytes is an illegal instruction, inside of the tensor and outside."""
    if (start := coordinates[0] * view.kind.itemsize) % CHUNK:
        message = f"the innermost coordinate {coordinates[0]} is {start} bytes from the start, and no multiple of {CHUNK}"
        warp.finding("misaligned", f"{message}: the device traps (illegal instruction)")
        return False
    if address % 128:
        warp.finding("misaligned", "the shared memory of a tensor copy does not start at a multiple of 128 bytes")
        return False
    span = SPAN[view.map.swizzle]
    if view.map.swizzle and address % (span * 8):
        message = f"a box with the {span}-byte swizzle does not start at a multiple of {span * 8} bytes: its pattern is shifted"
        warp.finding("swizzle-phase", message)
    if view.map.swizzle and view.inner_bytes > span:
        warp.finding("tensor-map", f"rows of {view.inner_bytes} bytes are wider than the {span}-byte swizzle")
        return False
    return True
