"""Exchange between the lanes of a warp: PTX ISA 9.7.10.6 (shfl.sync), 9.7.15.8 to 9.7.15.15 (vote, match, redux, elect)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import LANES, WARP, Mask, Slot, larger, smaller, spread, uniform, varies


def _members(s: Strand, mask: Mask, membermask: Any, what: str) -> None:
    """All threads named in the mask are to take part, and to name themselves."""
    wanted = int(uniform(membermask, mask)) & 0xFFFFFFFF
    present = sum(1 << lane for lane in mask.lanes)
    if wanted != present:
        s.warp.finding("membermask", f"{what} names the lanes {wanted:#010x} and is run by {present:#010x}")


def _only(mask: Mask) -> Any:
    """1 in the first active lane."""
    return np.equal(LANES, mask.first).astype(np.int64)


@op("cuda.elect_sync", section="9.7.15.15", value=True)
def elect(s: Strand, mask: Mask) -> Any:
    _members(s, mask, 0xFFFFFFFF, "elect.sync")
    return _only(mask)


@op("ptx.elect_sync", section="9.7.15.15")
def elect_into(s: Strand, mask: Mask, d: Slot | None, p: Slot | None, membermask: Any) -> None:
    _members(s, mask, membermask, "elect.sync")
    if d is not None:
        d.write(mask.first, mask)
    if p is not None:
        p.write(_only(mask), mask)


def _source(mode: str, b: Any, width: int) -> Any:
    """The lane that each one reads from; its own where that is outside of its part of the warp."""
    base, lane = LANES // width * width, LANES % width
    shift = spread(b)
    target = {"idx": shift % width, "up": lane - shift, "down": lane + shift, "bfly": lane ^ shift}[mode]
    return np.where((target >= 0) & (target < width), base + target, LANES)


def _exchanged(s: Strand, mask: Mask, value: Any, source: Any) -> Any:
    if not varies(value):
        return value
    silent = ~mask.bits[source]
    if (silent & mask.bits).any():
        s.warp.finding("shuffle-inactive", "a shuffle reads from a lane that does not take part")
    found = value[source]
    return found[mask.first].item() if len(set(source.tolist())) == 1 and found.dtype.kind in "iu" else found


def _shuffle(mode: str) -> Any:
    def shuffle(s: Strand, mask: Mask, membermask: Any, value: Any, b: Any, width: Any) -> Any:
        _members(s, mask, membermask, "a shuffle")
        return _exchanged(s, mask, value, _source(mode, b, int(uniform(width, mask))))

    return shuffle


op("cuda.__shfl_sync", section="9.7.10.6", value=True)(_shuffle("idx"))
op("cuda.__shfl_up_sync", section="9.7.10.6", value=True)(_shuffle("up"))
op("cuda.__shfl_down_sync", section="9.7.10.6", value=True)(_shuffle("down"))
op("cuda.__shfl_xor_sync", section="9.7.10.6", value=True)(_shuffle("bfly"))


@op("ptx.shfl_sync", section="9.7.10.6")
def shuffle_into(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b: Any, c: Any, membermask: Any) -> None:
    _members(s, mask, membermask, "shfl.sync")
    segment = int(uniform(c, mask)) >> 8 & 31
    d.write(_exchanged(s, mask, a, _source(mods["mode"], b, WARP - segment)), mask)


@op("cuda.warp_reduce", section="9.7.10.6: a butterfly of shuffles", value=True)
def reduce(s: Strand, mask: Mask, mods: Any, value: Any, width: Any) -> Any:
    _members(s, mask, 0xFFFFFFFF, "a reduction over the warp")
    combine = {"sum": lambda a, b: a + b, "max": larger, "min": smaller}[mods[0]]
    found, step = spread(value).copy(), int(width) // 2
    while step:
        found = combine(found, found[LANES ^ step])
        step //= 2
    return found


@op("ptx.vote_sync", "cuda.any_sync", section="9.7.15.9")
def vote(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, membermask: Any) -> None:
    _members(s, mask, membermask, "vote.sync")
    holds = spread(a).astype(bool)[mask.bits]
    found = {"all": holds.all(), "any": holds.any(), "uni": holds.all() or not holds.any()}[mods["mode"]]
    d.write(int(found), mask)


@op("ptx.vote_sync_ballot", section="9.7.15.9")
def ballot(s: Strand, mask: Mask, d: Slot, a: Any, membermask: Any) -> None:
    _members(s, mask, membermask, "vote.sync.ballot")
    holds = spread(a).astype(bool) & mask.bits
    d.write(int((holds * (1 << LANES.astype(np.int64))).sum()), mask)


REDUCTIONS: dict[str, Any] = {
    "add": sum, "min": min, "max": max, "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip


@op("ptx.redux_sync", "ptx.redux_sync_bitwise", section="9.7.15.12")
def redux(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, membermask: Any) -> None:
    _members(s, mask, membermask, "redux.sync")
    given = [int(v) for v in spread(a)[mask.bits]]
    found = int(REDUCTIONS[mods["op"]](given)) & 0xFFFFFFFF
    signed = mods["type"] == "s32" and found >= 1 << 31
    d.write(found - (1 << 32) if signed else found, mask)
