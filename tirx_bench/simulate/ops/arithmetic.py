"""Arithmetic that is spelled as instructions, in FP32 and rounded to the nearest: PTX ISA 9.7.3."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_bench.simulate.capture import UnsupportedError
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import Mask, Slot


def _plain(mods: Any, name: str) -> None:
    """Refuse what is not modelled: other types, roundings, flushing and saturation."""
    odd = [word for slot, word in mods.items() if word and (slot, word) not in (("type", "f32"), ("rnd", "rn"))]
    if mods["type"] != "f32" or odd:
        raise UnsupportedError(f"{name} with {', '.join(odd) or mods['type']}")


@op("ptx.add", section="9.7.3.3")
def add(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b: Any) -> None:
    _plain(mods, "add")
    d.write(np.float32(1) * a + b, mask)


@op("ptx.mul", section="9.7.3.5")
def multiply(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b: Any) -> None:
    _plain(mods, "mul")
    d.write(np.float32(1) * a * b, mask)


@op("ptx.fma", section="9.7.3.6")
def fused(s: Strand, mask: Mask, mods: Any, d: Slot, a: Any, b: Any, c: Any) -> None:
    """Rounded once: the product of two floats is exact in FP64, and the sum is so but for halfway cases."""
    _plain(mods, "fma")
    wide = np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)
    found = wide.astype(np.float32)
    d.write(found if found.ndim else found[()], mask)
