"""Conversions and approximations on registers: PTX ISA 9.7.10.24 (cvt), 9.7.3 (ex2, rcp and others)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import WARP, Mask, Slot, varies

PAIRS: dict[str, Any] = {"bf16x2": ml_dtypes.bfloat16, "f16x2": np.float16}
HALF_NAN = 0x7FFF  # what cvt makes of any NaN, in either format


@op("ptx.cvt_bf16x2_f32", "ptx.cvt_f16x2_f32", section="9.7.10.24")
def pack(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b: Any) -> None:
    """Two floats to halves of a word: the first is the upper one."""
    wide = np.empty((2, WARP), np.float32)
    wide[0], wide[1] = b, a
    bits = _halves(wide, PAIRS[mods["dtype"]], mods)
    word = bits[1] << 16 | bits[0]
    d.write(word if varies(a) or varies(b) else int(word[0]), mask)


def _halves(wide: Any, kind: Any, mods: Any) -> Any:
    """The bits of floats rounded to 16 bits."""
    if mods["relu"]:
        wide = np.where(wide <= 0, np.float32(0), wide)  # -0 becomes 0, NaN stays
    if mods["rnd"] == "rz":
        rounded = _toward_zero(wide, kind)
    else:
        rounded = wide.astype(kind)
    if mods["satfinite"]:
        most = np.asarray(ml_dtypes.finfo(kind).max, np.float32)
        rounded = np.where(np.isinf(rounded), np.copysign(most, wide).astype(kind), rounded)
    bits = rounded.view(np.uint16).astype(np.int64)
    missing = np.isnan(wide)
    return np.where(missing, HALF_NAN, bits) if missing.any() else bits


def _toward_zero(wide: Any, kind: Any) -> Any:
    near = wide.astype(kind)
    away = np.abs(near.astype(np.float32)) > np.abs(wide)
    bits = near.view(np.uint16)
    return np.where(away, bits - 1, bits).astype(np.uint16).view(kind)


APPROXIMATIONS: dict[str, Any] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "rcp": lambda x: np.float32(1) / x, "sqrt": np.sqrt,
    "rsqrt": lambda x: np.float32(1) / np.sqrt(x), "tanh": np.tanh,
}  # fmt: skip


def _approximation(name: str) -> Any:
    def approximate(s: Strand, mask: Mask, mods: Any, d: Slot, value: Any) -> None:
        with np.errstate(all="ignore"):
            given = np.asarray(value, np.float32)
            if mods.get("ftz"):
                given = np.where(np.abs(given) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), given), given)
            found = APPROXIMATIONS[name](given).astype(np.float32)
        d.write(found if found.ndim else found[()], mask)

    return approximate


for _name in APPROXIMATIONS:
    op(f"ptx.{_name}", section="9.7.3")(_approximation(_name))
