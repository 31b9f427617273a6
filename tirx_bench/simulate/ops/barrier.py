"""Barriers of a warp, of a block and of a cluster: PTX ISA 9.7.15.1 to 9.7.15.4."""

from __future__ import annotations

from typing import Any

from tirx_bench.simulate.barriers import NAMED_BARRIERS, Meeting
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import WARP, Mask, uniform


def _meet(s: Strand, mask: Mask, meeting: Meeting, expected: int) -> bool:
    """Arrive at once, then wait until all have come."""
    warp = s.warp
    joined = warp.joined.get(id(s))
    if joined is None:
        joined = warp.joined[id(s)] = meeting, meeting.join(warp, mask, expected)
    if not meeting.passed(warp, mask, joined[1]):
        return s.wait(meeting)
    del warp.joined[id(s)]
    return True


def _named(s: Strand, mask: Mask, number: Any) -> Meeting:
    which = int(uniform(number, mask))
    if not 0 <= which < NAMED_BARRIERS:
        s.warp.finding("barrier-misuse", f"barrier {which}: there are {NAMED_BARRIERS}, from 0")
    return s.warp.block.named[which % NAMED_BARRIERS]


def _threads(s: Strand) -> int:
    return -(-s.warp.block.threads // WARP) * WARP


@op("cuda.cta_sync", section="9.7.15.1", blocking=True)
def block(s: Strand, mask: Mask) -> bool:
    return _meet(s, mask, s.warp.block.named[0], _threads(s))


@op("cuda.warpgroup_sync", section="9.7.15.1", blocking=True)
def warpgroup(s: Strand, mask: Mask, number: Any) -> bool:
    return _meet(s, mask, _named(s, mask, number), 4 * WARP)


@op("ptx.bar_sync", "ptx.barrier_sync", section="9.7.15.1", blocking=True)
def sync(s: Strand, mask: Mask, a: Any) -> bool:
    return _meet(s, mask, _named(s, mask, a), _threads(s))


@op("ptx.bar_sync_count", "ptx.barrier_sync_count", section="9.7.15.1", blocking=True)
def sync_some(s: Strand, mask: Mask, a: Any, b: Any) -> bool:
    count = int(uniform(b, mask))
    if count % WARP:
        s.warp.finding("barrier-misuse", f"a barrier of {count} threads, which is no multiple of {WARP}")
    return _meet(s, mask, _named(s, mask, a), count)


@op("ptx.bar_arrive", "ptx.barrier_arrive", section="9.7.15.1", yields=True)
def arrive(s: Strand, mask: Mask, a: Any, b: Any) -> None:
    _named(s, mask, a).join(s.warp, mask, int(uniform(b, mask)))


@op("cuda.warp_sync", section="9.7.15.2")
def warp(s: Strand, mask: Mask) -> None:
    s.warp.order.synchronise(mask)


@op("ptx.bar_warp_sync", section="9.7.15.2")
def warp_of(s: Strand, mask: Mask, membermask: Any) -> None:
    if not int(uniform(membermask, mask)) >> mask.first & 1:
        s.warp.finding("barrier-misuse", "a thread that runs bar.warp.sync is not in its membermask")
    s.warp.order.synchronise(mask)


def _everybody(s: Strand) -> int:
    return len(s.warp.cluster.warps) * WARP


@op("cuda.cluster_sync", section="9.7.15.3", blocking=True)
def cluster(s: Strand, mask: Mask) -> bool:
    return _meet(s, mask, s.warp.cluster.meeting, _everybody(s))


@op("ptx.barrier_cluster_arrive", section="9.7.15.3", yields=True)
def cluster_arrive(s: Strand, mask: Mask, mods: Any) -> None:
    meeting = s.warp.cluster.meeting
    if mods["sem"] == "relaxed":
        s.warp.finding("relaxed-cluster-arrive", "barrier.cluster.arrive.relaxed orders no memory accesses")
    s.warp.joined[id(s)] = meeting, meeting.join(s.warp, mask, _everybody(s))


@op("ptx.barrier_cluster_wait", section="9.7.15.3", blocking=True)
def cluster_wait(s: Strand, mask: Mask) -> bool:
    if id(s) not in s.warp.joined:
        s.warp.finding("barrier-misuse", "barrier.cluster.wait without an arrive before it")
        return True
    return _meet(s, mask, s.warp.cluster.meeting, _everybody(s))
