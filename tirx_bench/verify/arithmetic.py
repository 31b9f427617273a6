"""What a reference computes in the place of ``@``, and numbers of fewer bits. Only operators, so that any device does."""

from __future__ import annotations

from typing import Any

from tirx_bench.device import Device, Product
from tirx_bench.model import BITS

# FP32 sums of up to so many terms are good enough to judge others by: rounding to nearest, their error is a sixth or less
# of what a `RoundingBound` grants a tensor core's, at any length, and from here on it is taken out altogether.
LONG_SUM = 1024
MMA_TERMS = 16  # products of 16-bit numbers that one instruction adds up
TF32_BITS = 11


def exact(device: Device) -> Product:
    """FP32, and FP64 for long sums; FP64 stays."""

    def product(left: Any, right: Any) -> Any:
        long = left.shape[-1] > LONG_SUM and "float64" not in (device.dtype_of(left), device.dtype_of(right))
        return device.matmul64(left, right) if long else left @ right

    return product


def without_last_terms(device: Device) -> Product:
    """The last terms of every sum left out; nothing where there are no others."""

    def product(left: Any, right: Any) -> Any:
        terms = left.shape[-1]
        kept = terms - MMA_TERMS if terms > MMA_TERMS else terms
        return exact(device)(*_terms(left, right, slice(kept)))

    return product


def accumulated_in(dtype: str, device: Device) -> Product:
    """The sum rounded to `dtype` after every instruction's terms."""

    def product(left: Any, right: Any) -> Any:
        total: Any = 0
        for k in range(0, left.shape[-1], MMA_TERMS):
            part, of_right = _terms(left, right, slice(k, k + MMA_TERMS))
            total = device.rounded(total + part @ of_right, dtype)
        return total

    return product


def _terms(left: Any, right: Any, terms: slice) -> tuple[Any, Any]:
    """The factors of some of the terms; `right` is a vector or matrices."""
    return left[..., terms], right[terms] if len(right.shape) == 1 else right[..., terms, :]


def one_bit_less(wide: Any, dtype: str) -> Any:
    """Rounded to TF32 if FP32, else to one bit of significand less than `dtype` has, by Veltkamp's splitting.

    FP64 keeps FP32's bits. `wide` is in FP32, or in FP64 if `dtype` is.
    """
    bits = {"float64": BITS["float32"], "float32": TF32_BITS}.get(dtype, BITS[dtype] - 1)
    held = BITS["float64" if dtype == "float64" else "float32"]
    scaled = wide * (2.0 ** (held - bits) + 1)
    return scaled - (scaled - wide)
