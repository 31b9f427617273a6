"""Fences: PTX ISA 9.7.15.5, "membar, fence"."""

from __future__ import annotations

from typing import Any

from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import Mask


@op("ptx.fence_proxy", section="9.7.15.5")
def proxy(s: Strand, mask: Mask, mods: Any) -> None:
    if mods["proxykind"] == "async":
        s.warp.order.fence(mask, s.warp.machine.strict)


@op("ptx.fence_mbarrier_init", section="9.7.15.5")
def mbarrier_init(s: Strand, mask: Mask) -> None:
    """It makes initialised mbarriers visible to the asynchronous proxy; here as a fence.proxy.async of what the thread did."""
    s.warp.order.fence(mask, s.warp.machine.strict)


@op("ptx.fence", "cuda.thread_fence", section="9.7.15.5")
def memory(s: Strand, mask: Mask) -> None:
    """What the threads did and saw is ordered before what they announce by an atomic afterwards."""
    s.warp.fence(mask)
