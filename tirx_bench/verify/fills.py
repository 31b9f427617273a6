"""What stands in for a kernel's random normal inputs, each kind making another fault visible.

The kernel's own `inputs` draws them, so every kernel that draws from `rng.normal` gets all kinds without saying so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tirx_bench.device import Device, Rng
from tirx_bench.model import Shape

# Exponents of the largest and the smallest normal number, by dtype (IEEE 754; OCP 8-bit Floating Point Specification 1.0).
EXPONENTS = {
    "float64": (1023, -1022), "float32": (127, -126), "float16": (15, -14), "bfloat16": (127, -126), "float8_e4m3fn": (8, -6),
    "float8_e5m2": (15, -14),
}  # fmt: skip


class Filled:
    """An rng whose `normal` gives numbers of one kind of `FILLS`. `filled` says whether any array was of that kind."""

    def __init__(self, device: Device, seed: int, kind: str):
        self.rng: Rng = device.rng(seed)
        self.drawn, self.uniform, self.widen = self.rng.drawn, self.rng.uniform, device.widen
        self.kind, self.filled, self.number = kind, False, -1

    def normal(self, shape: Shape, dtype: str) -> Any:
        self.number += 1
        if self.kind == "uniform":
            self.filled = True
            return self.uniform(shape, dtype, -1, 1)
        array = self.rng.normal(shape, dtype)
        change = CHANGES.get(self.kind) if dtype in EXPONENTS else None  # integers stay as they are
        if text := change(array, self.number, self.widen(array), EXPONENTS[dtype]) if change else "":
            self.drawn[-1], self.filled = text, True
        return array


def _one_hot(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """A single one in every row of the first matrix, in another column each: the product shows where each row went."""
    if number or len(array.shape) < 2:
        return ""
    columns = array.shape[-1]
    rows = array.reshape(-1, columns)
    rows[...] = 0
    for row in range(min(columns, rows.shape[0])):
        rows[row::columns, (row + 3) % columns] = 1
    return "one-hot rows"


def _constant(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """1, 2, 1/2, 1, ...: a sum shows how many terms it had."""
    value = (1.0, 2.0, 0.5)[number % 3]
    array[...] = value
    return f"constant {value:g}"


def _large(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """So large that products of two and their sums stay in range."""
    array[...] = wide * 2.0 ** (exponents[0] // 4)
    return f"normal(0, 1) * 2^{exponents[0] // 4}"


def _tiny(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """So small that products of two stay normal numbers."""
    array[...] = wide * 2.0 ** -(-exponents[1] // 4)
    return f"normal(0, 1) * 2^-{-exponents[1] // 4}"


def _denormal(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """Of the first array only: products of two would vanish."""
    if number:
        return ""
    array[...] = wide * 2.0 ** (exponents[1] - 2)
    return f"normal(0, 1) * 2^{exponents[1] - 2}, mostly denormal"


def _not_finite(array: Any, number: int, wide: Any, exponents: tuple[int, int]) -> str:
    """One NaN and one infinity of each sign, far apart in the first array."""
    flat = array.reshape(-1)
    size = len(flat)
    if number or size < 4:
        return ""
    for place, value in ((size // 4, float("nan")), (size // 2, float("inf")), (size - size // 4, float("-inf"))):
        flat[place] = value
    return "normal(0, 1) with NaN, inf and -inf"


CHANGES: dict[str, Callable[[Any, int, Any, tuple[int, int]], str]] = {
    "one-hot": _one_hot, "constant": _constant, "large": _large, "tiny": _tiny, "denormal": _denormal, "non-finite": _not_finite,
}  # fmt: skip
