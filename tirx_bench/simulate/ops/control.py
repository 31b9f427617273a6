"""What steers a kernel: registers, dependent launches, sleeping, and annotations."""

from __future__ import annotations

from typing import Any

from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import WARP, Mask


@op("ptx.setmaxnreg", section="9.7.21.5", blocking=True)
def set_registers(s: Strand, mask: Mask, mods: Any, nreg: Any) -> bool:
    warp, count, pool = s.warp, int(nreg), s.warp.block.pool
    warp.aligned(mask, "setmaxnreg")
    if count % 8 or not 24 <= count <= 256:
        warp.finding("register-pool", f"setmaxnreg takes a multiple of 8 from 24 to 256, not {count}")
    more = (count - warp.registers) * WARP
    if (mods["action"] == "inc") != (more >= 0):
        warp.finding("register-pool", f"setmaxnreg.{mods['action']} to {count} registers, from {warp.registers}")
    if mods["action"] == "inc" and more > pool.free:
        return s.wait(pool)
    pool.free -= more
    pool.changes += 1
    warp.registers = count
    return True


@op("ptx.griddepcontrol", section="9.7.15.14", inert=True)
def dependent_launch(s: Strand, mask: Mask) -> None:
    """One launch has no other to depend on."""


@op("cuda.nano_sleep", "ptx.nanosleep", section="9.7.21.1", inert=True)
def sleep(s: Strand, mask: Mask, time: Any) -> None:
    """Time passes as the schedule has it."""
