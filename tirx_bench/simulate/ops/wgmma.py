"""wgmma: PTX ISA 9.7.17, "Asynchronous Warpgroup Level Matrix Instructions"."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tirx_bench.simulate.capture import UnsupportedError
from tirx_bench.simulate.layouts import CHUNK, LayoutError, encoded, k_major_chunks, mn_major_chunks
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.shadow import Access
from tirx_bench.simulate.tensor_core import Wgmma
from tirx_bench.simulate.values import Mask, Slot, spread, uniform
from tirx_bench.simulate.warp import Warp

KINDS: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@op("cuda.wgmma_encode_matrix_descriptor", section="9.7.17.5.1.2.2")
def encode(s: Strand, mask: Mask, desc: Slot, addr: Any, ldo: Any, sdo: Any, swizzle: Any) -> None:
    desc.write(encoded(int(uniform(addr, mask)), int(ldo), int(sdo), int(swizzle)), mask)


@op("cuda.wgmma_noop_barrier", section="none: an empty asm statement that keeps a register in place", inert=True)
def keep(s: Strand, mask: Mask, reg: Any) -> None:
    """Nothing for the device to do."""


@op("ptx.wgmma_fence", section="9.7.17.7.1")
def fence(s: Strand, mask: Mask) -> None:
    s.warp.aligned(mask, "wgmma.fence")
    for registers in s.warp.accumulators:
        registers.touched = False


@op("ptx.wgmma_commit_group", section="9.7.17.7.2")
def commit(s: Strand, mask: Mask) -> None:
    s.warp.aligned(mask, "wgmma.commit_group")
    s.warp.wgmma.commits.append(s.warp.wgmma.issued)


@op("ptx.wgmma_wait_group", section="9.7.17.7.3", blocking=True, yields=True)
def wait(s: Strand, mask: Mask, group: Any) -> bool:
    warp = s.warp
    progress, issued = warp.wgmma, warp.warpgroup
    through = len(progress.commits) - int(group)
    if through <= 0:
        return True
    progress.wanted = progress.commits[through - 1]
    if issued.done < progress.wanted:
        return s.wait(issued)
    progress.waited = max(progress.waited, through)
    warp.order.reach(mask, issued.agent, through)
    for registers in warp.accumulators:
        registers.pending = {first: w for first, w in registers.pending.items() if w.group >= progress.waited}
    return True


def _issue(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b_desc: Any, scale_d: Any, signs: int,
           trans_a: int = 0, trans_b: int = 0) -> None:  # fmt: skip
    warp = s.warp
    warp.aligned(mask, "wgmma.mma_async")
    registers, first = d.registers, d.index
    if registers.touched:
        warp.finding("missing-wgmma-fence", f"registers of {registers.name} were accessed after the last wgmma.fence")
    group, number = warp.warpgroup, warp.wgmma.issued
    warp.wgmma.issued += 1
    from_registers = isinstance(a, tuple)
    key = (None if from_registers else uniform(a, mask), uniform(b_desc, mask), bool(uniform(scale_d, mask)), warp.at)
    issued = group.issued.get(number)
    if issued is None:
        n = int(mods["shape"].split("n")[1].split("k")[0])
        issued = group.issued[number] = Wgmma(
            key, warp.at, number, len(warp.wgmma.commits), n, KINDS[mods["atype"]], signs < 0, key[2], first
        )
    elif issued.key != key:
        message = "the warps of a warpgroup issue different wgmma: another descriptor, scale or instruction"
        warp.finding("warpgroup-mismatch", message, other=issued.at)
    clock = warp.order.release(mask)
    issued.clock = clock if issued.clock is None else np.minimum(issued.clock, clock)
    issued.accumulators[warp.in_warpgroup] = registers
    if from_registers:
        issued.a_registers[warp.in_warpgroup] = np.stack([spread(word) for word in a])
    registers.issued(first, issued.n // (4 if mods["dtype"] == "f16" else 2), issued)
    if issued.complete:
        _start(warp, issued, key, mods, trans_a, trans_b)


def _start(warp: Warp, issued: Wgmma, key: tuple[Any, ...], mods: Any, trans_a: int, trans_b: int) -> None:
    """All four warps have issued it: it may read its operands from now on, until somebody waits for its group."""
    try:
        issued.a_by_k, issued.b_by_k = bool(trans_a), bool(trans_b)
        if not issued.a_registers:
            issued.a_chunks = (mn_major_chunks if trans_a else k_major_chunks)(int(key[0]), 64)
        issued.b_chunks = (mn_major_chunks if trans_b else k_major_chunks)(int(key[1]), issued.n)
    except LayoutError as error:
        raise UnsupportedError(str(error)) from error
    memory = warp.block.memory
    for chunks, what in ((issued.a_chunks, "operand A of wgmma"), (issued.b_chunks, "operand B of wgmma")):
        if chunks is None:
            continue
        if chunks.max() >= memory.size // CHUNK:
            warp.finding("out-of-bounds", f"{what} reaches outside of the {memory.size} bytes of shared memory")
            return
        if memory.shadow is not None:
            access = Access(warp.warpgroup.agent, issued.group + 1, 0, warp.at, issued.clock, True)
            warp.judge(memory.shadow.read(chunks, access), what)
    if "wgmma" in warp.machine.schedule.early and warp.warpgroup.ready(issued.number + 1):
        warp.warpgroup.run(issued.number + 1)


@op("ptx.wgmma_bf16_ss", "ptx.wgmma_f16_ss", "ptx.wgmma_f16_f16acc_ss", section="9.7.17.5.2")
def half(s: Strand, mask: Mask, mods: Any, d: Any, a_desc: Any, b_desc: Any, scale_d: Any, scale_a: Any, scale_b: Any,
         trans_a: Any, trans_b: Any) -> None:  # fmt: skip
    _issue(s, mask, mods, d, a_desc, b_desc, scale_d, int(scale_a) * int(scale_b), int(trans_a), int(trans_b))


@op("ptx.wgmma_bf16_rs", "ptx.wgmma_f16_rs", "ptx.wgmma_f16_f16acc_rs", section="9.7.17.5.2")
def half_from_registers(s: Strand, mask: Mask, mods: Any, d: Any, a: Any, b_desc: Any, scale_d: Any, scale_a: Any,
                        scale_b: Any, trans_b: Any) -> None:  # fmt: skip
    _issue(s, mask, mods, d, a, b_desc, scale_d, int(scale_a) * int(scale_b), 0, int(trans_b))


@op("ptx.wgmma_tf32_ss", "ptx.wgmma_fp8_ss", "ptx.wgmma_fp8_f16acc_ss", section="9.7.17.5.2")
def other(s: Strand, mask: Mask, mods: Any, d: Any, a_desc: Any, b_desc: Any, scale_d: Any, scale_a: Any, scale_b: Any) -> None:
    _issue(s, mask, mods, d, a_desc, b_desc, scale_d, int(scale_a) * int(scale_b))


@op("ptx.wgmma_tf32_rs", "ptx.wgmma_fp8_rs", "ptx.wgmma_fp8_f16acc_rs", section="9.7.17.5.2")
def other_from_registers(s: Strand, mask: Mask, mods: Any, d: Any, a: Any, b_desc: Any, scale_d: Any, scale_a: Any,
                         scale_b: Any) -> None:  # fmt: skip
    _issue(s, mask, mods, d, a, b_desc, scale_d, int(scale_a) * int(scale_b))
