"""Matrices between registers and shared memory, and mma.sync: PTX ISA 9.7.16.5."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tirx_bench.simulate.capture import UnsupportedError
from tirx_bench.simulate.clocks import COLLECTIVE
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import Mask, Slot, spread

ROW = 16  # bytes of a row of 8 halves


def _rows(s: Strand, mask: Mask, address: Any, matrices: int, what: str, write: bool) -> Any:
    """The byte offsets of the rows of 8 x 8 matrices, from the addresses that lanes 0 to 8 n - 1 give; None when wrong."""
    warp = s.warp
    warp.aligned(mask, what)
    block, offsets = warp.target(spread(address)[: 8 * matrices], mask)
    memory = block.memory
    if (offsets % ROW).any():
        warp.finding("misaligned", f"the rows of {what} are to start at multiples of {ROW} bytes")
        return None
    if offsets.min() < 0 or offsets.max() + ROW > memory.size:
        warp.finding("out-of-bounds", f"{what} reaches outside of the {memory.size} bytes of shared memory")
        return None
    if memory.shadow is not None:
        for _, access in warp.access(COLLECTIVE, mask):
            found = memory.shadow.write(offsets // ROW, access) if write else memory.shadow.read(offsets // ROW, access)
            warp.judge(found, what)
    return memory.bytes, offsets[:, None] + np.arange(ROW)


@op("ptx.stmatrix", section="9.7.16.5.16", unit=lambda mods, call: ROW)
def store(s: Strand, mask: Mask, mods: Any, p: Any, r: tuple[Any, ...]) -> None:
    found = _rows(s, mask, p, len(r), "stmatrix", write=True)
    if found is None:
        return
    memory, at = found
    words = np.stack([spread(word) for word in r]).astype(np.uint32)  # (matrices, lanes): lane = row, pair of columns
    halves = np.ascontiguousarray(words).view(np.uint16).reshape(len(r), 8, 8)
    if mods["trans"]:
        halves = np.ascontiguousarray(halves.transpose(0, 2, 1))
    memory[at] = halves.reshape(len(r) * 8, 8).view(np.uint8)


@op("ptx.ldmatrix", section="9.7.16.5.15", unit=lambda mods, call: ROW)
def load(s: Strand, mask: Mask, mods: Any, r: tuple[Slot, ...], p: Any) -> None:
    found = _rows(s, mask, p, len(r), "ldmatrix", write=False)
    if found is None:
        return
    memory, at = found
    halves = memory[at].view(np.uint16).reshape(len(r), 8, 8)
    if mods["trans"]:
        halves = np.ascontiguousarray(halves.transpose(0, 2, 1))
    words = halves.reshape(len(r), 64).view(np.uint32).astype(np.int64)
    for slot, word in zip(r, words, strict=True):
        slot.write(word, mask)


KINDS: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


@op("ptx.mma", section="9.7.16.5.14")
def multiply(s: Strand, mask: Mask, mods: Any, d: tuple[Slot, ...], a: Any, b: Any, c: Any) -> None:
    """m16n8k16 and m16n8k8 of 16-bit inputs into FP32, with the fragments of 9.7.16.5.8."""
    shape, kind = mods["shape"], KINDS.get(mods["atype"])
    if shape not in ("m16n8k16", "m16n8k8") or kind is None:
        raise UnsupportedError(f"mma.sync {shape} of {mods['atype']}")
    s.warp.aligned(mask, "mma.sync")
    deep = len(a) // 2  # halves of 8 columns of K
    words = np.stack([spread(word) for word in a]).astype(np.uint32)  # register = k half, row half
    rows = np.ascontiguousarray(words.reshape(deep, 2, 8, 4).transpose(1, 2, 0, 3)).reshape(16, 4 * deep).view(kind)
    words = np.stack([spread(word) for word in b]).astype(np.uint32)  # register = k half; lane = column, pair of K
    columns = np.ascontiguousarray(words.reshape(deep, 8, 4).transpose(1, 0, 2)).reshape(8, 4 * deep).view(kind)
    added = np.stack([spread(value) for value in c]).astype(np.float32).reshape(2, 2, 8, 4).transpose(0, 2, 3, 1).reshape(16, 8)
    product = rows.astype(np.float32) @ columns.astype(np.float32).T + added
    for register, value in enumerate(product.reshape(2, 8, 4, 2).transpose(0, 3, 1, 2).reshape(4, 32)):
        d[register].write(value, mask)
