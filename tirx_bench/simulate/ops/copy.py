"""Asynchronous copies: PTX ISA 9.7.10.28, "cp.async.bulk", its tensor form, and their completion."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_bench.simulate.capture import UnsupportedError
from tirx_bench.simulate.copies import (
    BulkCopy,
    arrive_on,
    arrived,
    count_stores,
    groups_of,
    inside,
    into_shared,
    load_box,
    store_box,
)
from tirx_bench.simulate.layouts import CHUNK
from tirx_bench.simulate.machine import Block, Strand
from tirx_bench.simulate.memory import OFFSET, Tensor
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.shadow import Access
from tirx_bench.simulate.values import Mask, uniform


def _once(s: Strand, mask: Mask, what: str) -> None:
    if mask.count != 1:
        s.warp.finding("issued-by-many", f"{mask.count} threads issue {what}; elect one")


def _whole(value: Any, mask: Mask) -> int:
    return int(uniform(value, mask))


def _targets(s: Strand, mask: Mask, address: int, cta_mask: tuple[Any, ...]) -> list[tuple[Block, int]]:
    """The blocks that a copy goes to, by the address of its destination or the mask of a multicast."""
    block, offset = s.warp.target(address, mask)
    if not cta_mask:
        return [(block, int(offset))]
    wanted = _whole(cta_mask[0], mask)
    first = block.rank - block.rank % len(s.warp.cluster.blocks)
    return [(b, int(offset)) for b in s.warp.cluster.blocks if wanted >> (b.rank - first) & 1]


@op("ptx.cp_async_bulk_tensor_g2s_cluster", "ptx.cp_async_bulk_tensor_g2s_cta", section="9.7.10.28.5.2", yields=True)
def load_tensor(s: Strand, mask: Mask, mods: Any, dst_mem: Any, tmap: Any, coords: Any, mbar: Any, cta_mask: Any = ()) -> None:
    warp = s.warp
    _once(s, mask, "a tensor copy")
    at = tuple(_whole(c, mask) for c in coords)
    targets = _targets(s, mask, _whole(dst_mem, mask), cta_mask)
    barrier_at = _whole(mbar, mask) & OFFSET
    clock = warp.order.release(mask)
    found = []
    for block, _ in targets:
        barrier = block.mbarriers.get(barrier_at)
        found.append((block, barrier if barrier is not None else warp.mbarrier(_whole(mbar, mask), mask)))
    for _ in range(mask.count):
        load_box(warp, warp.machine.view(tmap), at, clock, targets[0][1], found)


@op("ptx.cp_async_bulk_tensor_s2g", section="9.7.10.28.5.2")
def store_tensor(s: Strand, mask: Mask, mods: Any, tmap: Any, coords: Any, src_mem: Any) -> None:
    _once(s, mask, "a tensor store")
    at = tuple(_whole(c, mask) for c in coords)
    clock = s.warp.order.release(mask)
    for lane in mask.lanes:
        store_box(s.warp, s.warp.machine.view(tmap), at, clock, _whole(src_mem, mask), lane)


def _fits(s: Strand, address: int, start: int, count: int, tensor: Tensor, what: str) -> bool:
    """Whether a run of bytes may be copied: aligned at both ends, and inside of the tensor."""
    if address % CHUNK or start % CHUNK or count % CHUNK:
        s.warp.finding("misaligned", f"{what} of {count} bytes: addresses and size are to be multiples of {CHUNK}")
        return False
    if start < 0 or start + count > len(tensor.raw):
        s.warp.finding("out-of-bounds", f"{what} of {count} bytes at byte {start} of {tensor.name}, which has {len(tensor.raw)}")
        return False
    return True


@op("ptx.cp_async_bulk_g2s_cluster", "ptx.cp_async_bulk_g2s_cta", section="9.7.10.28.4.1", yields=True)
def load_bytes(s: Strand, mask: Mask, dst_mem: Any, src_mem: Any, size: Any, mbar: Any, cta_mask: Any = ()) -> None:
    warp, count, tensor = s.warp, _whole(size, mask), src_mem.tensor
    _once(s, mask, "a bulk copy")
    targets = _targets(s, mask, _whole(dst_mem, mask), cta_mask)
    start = _whole(src_mem.offset, mask)
    if not _fits(s, targets[0][1], start, count, tensor, "a bulk copy"):
        return
    chunks = (targets[0][1] + np.arange(0, count, CHUNK)) // CHUNK
    clock = warp.order.release(mask)
    fits = []
    for block, _ in targets:
        barrier = block.mbarriers.get(_whole(mbar, mask) & OFFSET) or warp.mbarrier(_whole(mbar, mask), mask)
        arrive_on(barrier, warp, clock)
        if inside(warp, block, chunks, "the copy"):
            into_shared(warp, block, barrier, chunks, clock, "the copy")
            fits.append((block, barrier))
            if tensor.shadow is not None:
                read = Access(barrier.agent, barrier.phase + 1, 0, warp.at, clock, True)
                elements = np.arange(start // tensor.size, (start + count) // tensor.size)
                warp.judge(tensor.shadow.read(elements, read), "the copy", tensor)

    def land() -> None:
        data = tensor.raw[start : start + count].copy().view(np.complex128)
        for block, barrier in fits:
            arrived(block, barrier, chunks, data, count)

    warp.cluster.launch("copy", land)


@op("ptx.cp_async_bulk_s2g", section="9.7.10.28.4.1")
def store_bytes(s: Strand, mask: Mask, dst_mem: Any, src_mem: Any, size: Any, byte_mask: Any = ()) -> None:
    warp, count, address, tensor = s.warp, _whole(size, mask), _whole(src_mem, mask), dst_mem.tensor
    _once(s, mask, "a bulk store")
    if byte_mask:
        raise UnsupportedError("a bulk store with a byte mask")
    start = _whole(dst_mem.offset, mask)
    if not _fits(s, address, start, count, tensor, "a bulk store"):
        return
    block, groups = warp.block, groups_of(warp, mask.first)
    chunks = (address + np.arange(0, count, CHUNK)) // CHUNK
    if not inside(warp, block, chunks, "the store"):
        return
    copy = BulkCopy(warp.at, len(groups.committed) + 1)
    groups.open.append(copy)
    access = Access(groups.agent, copy.epoch, 0, warp.at, warp.order.release(mask), True)
    elements = np.arange(start // tensor.size, (start + count) // tensor.size)
    if block.memory.shadow is not None:
        warp.judge(block.memory.shadow.read(chunks, access), "the store")
    if tensor.shadow is not None:
        warp.judge(tensor.shadow.write(elements, access), "the store", tensor)
    count_stores(tensor, elements)

    def go() -> None:
        tensor.raw[start : start + count] = block.memory.bytes[address : address + count]
        copy.done = True
        groups.changes += 1

    warp.cluster.launch("store", go)


@op("ptx.cp_async_bulk_commit_group", section="9.7.10.28.6.1")
def commit(s: Strand, mask: Mask) -> None:
    for lane in mask.lanes:
        if lane in s.warp.bulk:
            groups = s.warp.bulk[lane]
            groups.committed.append(groups.open)
            groups.open = []


@op("ptx.cp_async_bulk_wait_group", section="9.7.10.28.6.2", blocking=True)
def wait(s: Strand, mask: Mask, group: Any) -> bool:
    for lane in mask.lanes:
        groups = s.warp.bulk.get(lane)
        if groups is None:
            continue
        through = len(groups.committed) - int(group)
        if through > 0:
            if groups.pending_before(through):
                return s.wait(groups)
            groups.waited = max(groups.waited, through)
            s.warp.order.reach(mask, groups.agent, through)
    return True


@op("ptx.prefetch", "ptx.cp_async_bulk_prefetch", "ptx.cp_async_bulk_tensor_prefetch", section="9.7.10.16", inert=True)
def prefetch(s: Strand, mask: Mask, addr: Any) -> None:
    """A hint to the caches."""
