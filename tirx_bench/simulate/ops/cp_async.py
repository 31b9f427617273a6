"""Copies of elements: PTX ISA 9.7.10.25, "cp.async", its groups and its arrival on an mbarrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_bench.simulate.clocks import ORDERED
from tirx_bench.simulate.element_copies import chosen, copies_of
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.memory import Pointer
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.shadow import Access
from tirx_bench.simulate.values import WARP, Mask, split


def _size(mods: list[str], call: Any) -> int:
    """The bytes of one copy, an immediate."""
    return int([a for a in call.args if type(a).__name__ == "IntImm"][-1])


@op("ptx.cp_async_ca", "ptx.cp_async_cg", section="9.7.10.25.3.1", unit=_size)
def copy(s: Strand, mask: Mask, dst_mem: Any, src_mem: Any, cp_size: Any) -> None:
    _copy(s, mask, dst_mem, src_mem, int(cp_size), int(cp_size))


@op("ptx.cp_async_ca_src_size", "ptx.cp_async_cg_src_size", section="9.7.10.25.3.1", unit=_size)
def copy_some(s: Strand, mask: Mask, dst_mem: Any, src_mem: Any, cp_size: Any, src_size: Any) -> None:
    """The bytes beyond `src_size` are zeros, and are not read."""
    _copy(s, mask, dst_mem, src_mem, int(cp_size), src_size)


def _copy(s: Strand, mask: Mask, target: Any, source: Pointer, size: int, read: Any) -> None:
    warp, lanes = s.warp, mask.lanes
    block, offsets = warp.target(target, mask)
    into, start, count = chosen(offsets, lanes), chosen(source.offset, lanes), chosen(read, lanes)
    if (into % size).any() or (start % size).any():
        warp.finding("misaligned", f"cp.async of {size} bytes: both addresses are to be multiples of that")
        return
    if into.min() < 0 or into.max() + size > block.memory.size:
        warp.finding("out-of-bounds", f"cp.async reaches outside of the {block.memory.size} bytes of shared memory")
        return
    reading, _ = split(np.asarray(read) > 0 if np.ndim(read) else bool(read), mask)
    if reading is not None and warp.global_index(source, 1, reading, "cp.async", write=False) is None:
        return
    threads = [copies_of(warp, lane) for lane in lanes]
    for thread in threads:
        thread.issued += 1
        thread.pending.add(thread.issued)
    numbers = [thread.issued for thread in threads]
    if block.memory.shadow is not None:
        clock = warp.order.release(mask)
        access = Access(np.array([t.agent for t in threads]), np.array(numbers), 0, warp.at, clock)  # type: ignore[arg-type]
        index = block.memory.elements(into, size)
        warp.judge(block.memory.shadow.write(index, access), "cp.async")
        block.memory.shadow.flying[index] += 1
    raw, memory = source.tensor.raw, block.memory

    def land() -> None:
        for at, of, n in zip(into.tolist(), start.tolist(), count.tolist(), strict=True):
            memory.bytes[at : at + size] = 0
            memory.bytes[at : at + n] = raw[of : of + n]
        if memory.shadow is not None:
            memory.shadow.flying[index] -= 1
        for thread, number in zip(threads, numbers, strict=True):
            thread.landed(number)

    warp.cluster.launch("copy", land)


@op("ptx.cp_async_commit_group", section="9.7.10.25.3.2")
def commit(s: Strand, mask: Mask) -> None:
    for lane in mask.lanes:
        thread = copies_of(s.warp, lane)
        thread.commits.append(thread.issued)


def _wait(s: Strand, mask: Mask, lane: int, through: int) -> bool:
    thread = copies_of(s.warp, lane)
    if not thread.through(through):
        return s.wait(thread)
    return True


def _seen(s: Strand, lane: int, through: int) -> None:
    one = np.zeros(WARP, bool)
    one[lane] = True
    s.warp.order.reach(Mask(one), copies_of(s.warp, lane).agent, through, generic=True)


@op("ptx.cp_async_wait_group", section="9.7.10.25.3.3", blocking=True)
def wait(s: Strand, mask: Mask, group: Any) -> bool:
    wanted = {}
    for lane in mask.lanes:
        commits = copies_of(s.warp, lane).commits
        wanted[lane] = commits[-1 - int(group)] if len(commits) > int(group) else 0
    return _wait_for(s, mask, wanted)


@op("ptx.cp_async_wait_all", section="9.7.10.25.3.3", blocking=True)
def wait_all(s: Strand, mask: Mask) -> bool:
    return _wait_for(s, mask, {lane: copies_of(s.warp, lane).issued for lane in mask.lanes})


def _wait_for(s: Strand, mask: Mask, wanted: dict[int, int]) -> bool:
    if not all(_wait(s, mask, lane, through) for lane, through in wanted.items()):
        return False
    for lane, through in wanted.items():
        _seen(s, lane, through)
    return True


@op("ptx.cp_async_mbarrier_arrive", section="9.7.15.16.14")
def arrive(s: Strand, mask: Mask, mods: Any, addr: Any) -> None:
    """Each thread arrives when its copies so far have landed; without .noinc the arrival is one more than was expected."""
    warp = s.warp
    for lane, address in zip(mask.lanes, chosen(addr, mask.lanes).tolist(), strict=True):
        barrier = warp.mbarrier(address, mask)
        thread = copies_of(warp, lane)
        if not mods["noinc"]:
            barrier.pending += 1
        clock = warp.order.release(mask)
        clock[ORDERED, thread.agent] = max(clock[ORDERED, thread.agent], thread.issued)
        thread.when_all_landed(lambda barrier=barrier, clock=clock: barrier.arrive(warp, clock, 1))  # type: ignore[misc]
