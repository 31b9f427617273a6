"""mbarrier: PTX ISA 9.7.15.16, "Parallel Synchronization and Communication Instructions: mbarrier"."""

from __future__ import annotations

from typing import Any

from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import Mask, Slot, agree, spread, uniform, varies


@op("ptx.mbarrier_init", section="9.7.15.16.9")
def init(s: Strand, mask: Mask, addr: Any, count: Any) -> None:
    if mask.count != 1 and agree(addr, mask):
        s.warp.finding("barrier-misuse", f"{mask.count} threads initialise one mbarrier")
    for lane in mask.lanes:
        s.warp.make_mbarrier(int(spread(addr)[lane]), int(spread(count)[lane]), mask)
        if not varies(addr):
            return


def _arrive(s: Strand, mask: Mask, address: Any, count: Any, expected: Any = 0) -> None:
    """Every active lane arrives by itself."""
    warp = s.warp
    if not varies(address):
        groups = {int(address): (mask.count, sum(int(spread(count)[lane]) for lane in mask.lanes), expected)}
    else:
        groups = {}
        for lane in mask.lanes:
            n, arrivals, _ = groups.get(int(address[lane]), (0, 0, 0))
            groups[int(address[lane])] = (n + 1, arrivals + int(spread(count)[lane]), expected)
    clock = warp.order.release(mask)
    for where, (lanes, arrivals, announced) in groups.items():
        block, _ = warp.target(where, mask)
        if block is not warp.block:
            block.touched_by[warp.order.agent] = (warp.order.now - 1, warp.at, warp)
        warp.mbarrier(where, mask).arrive(warp, clock, arrivals, int(uniform(announced, mask)) * lanes)


@op("ptx.mbarrier_arrive", section="9.7.15.16.13", yields=True)
def arrive(s: Strand, mask: Mask, addr: Any, count: Any) -> None:
    _arrive(s, mask, addr, count)


@op("ptx.mbarrier_arrive_nocount", section="9.7.15.16.13", yields=True)
def arrive_once(s: Strand, mask: Mask, addr: Any) -> None:
    _arrive(s, mask, addr, 1)


@op("ptx.mbarrier_arrive_expect_tx", section="9.7.15.16.13")
def arrive_expecting(s: Strand, mask: Mask, addr: Any, tx_count: Any) -> None:
    _arrive(s, mask, addr, 1, tx_count)


@op("ptx.mbarrier_expect_tx", section="9.7.15.16.11")
def expect(s: Strand, mask: Mask, addr: Any, tx_count: Any) -> None:
    barrier = s.warp.mbarrier(uniform(addr, mask), mask)
    barrier.bytes += int(uniform(tx_count, mask)) * mask.count
    barrier.changes += 1


def _test(s: Strand, mask: Mask, address: Any, parity: Any) -> bool:
    """Whether the phase is over; then the lanes have seen what happened before it ended. Otherwise they wait."""
    warp = s.warp
    barrier = warp.mbarrier(uniform(address, mask), mask)
    asked = uniform(parity, mask)
    if asked not in (0, 1):
        warp.finding("barrier-misuse", f"{barrier.name} is waited for with parity {asked}, which is neither 0 nor 1")
    if not barrier.completed(int(asked) & 1):
        return s.wait(barrier)
    if barrier.phase:
        warp.order.acquire(mask, barrier.clock)
        warp.order.reach(mask, barrier.agent, barrier.phase)
        barrier.observed = max(barrier.observed, barrier.phase)
    return True


@op("cuda.mbarrier_wait", "cuda.mbarrier_wait_acquire_cluster", section="9.7.15.16.16", blocking=True)
def wait(s: Strand, mask: Mask, addr: Any, parity: Any) -> bool:
    return _test(s, mask, addr, parity)


@op("ptx.mbarrier_try_wait_parity", "ptx.mbarrier_test_wait_parity", section="9.7.15.16.16", polls=True)
def try_wait(s: Strand, mask: Mask, wait_complete: Slot, addr: Any, phase: Any) -> None:
    wait_complete.write(int(_test(s, mask, addr, phase)), mask)
    s.waits = None


@op("ptx.mbarrier_inval", section="9.7.15.16.10")
def invalidate(s: Strand, mask: Mask, addr: Any) -> None:
    s.warp.mbarrier(uniform(addr, mask), mask)
    s.warp.block.mbarriers.pop(int(uniform(addr, mask)), None)
