"""How far an output may be from its reference, and who wrote which part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirx_bench.model.errors import UsageError

Shape = tuple[int, ...]

# Bits of the significand, and the smallest subnormal number (IEEE 754; OCP 8-bit Floating Point Specification 1.0).
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
ROUNDOFF = {name: 2.0**-bits for name, bits in BITS.items()}
SMALLEST = {
    "float64": 0.0, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float8_e4m3fn": 2.0**-9,
    "float8_e5m2": 2.0**-16,
}  # fmt: skip
LARGEST_C = 4.0


@dataclass(frozen=True)
class Tolerance:
    """Every element must satisfy ``|y - r| <= atol + rtol * |r|``, whatever the sizes of the terms were."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        return f"|y - r| <= {self.atol:g} + {self.rtol:g} |r|, flat, every element"


@dataclass(frozen=True)
class RoundingBound:
    """Every element must satisfy ``|y - r| <= c * eps_acc * s + eps_out * |r|``, s being the kernel's `magnitude`.

    `steps` additions in a row round the accumulator, by `unit` of its size each: 2^-24 for FP32 that rounds to nearest,
    2^-23 for the tensor core, which truncates, once for every 16 products of 16-bit inputs (Khattak and Mikaitis,
    "Accurate Models of NVIDIA Tensor Cores", 2025). eps_acc = unit * sqrt(steps), since rounding errors of either sign add
    up as their root (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019): the sum is within
    c of that but with probability 2 exp(-c^2 / 2), and that is for partial sums as large as s. Those of mixed signs
    are smaller by the root of the steps left, those of one sign by 3 on average, so that c = 4 is at least 12 standard
    deviations. Truncation shifts a sum of one sign by 0.18 steps * unit * s, which stays below 4 sqrt(steps) up to
    490 steps. eps_out is the unit roundoff of the output's dtype, which is rounded to once; none for integers.
    The rms error over an output must also be below the rms bound times `NORM_SHARE`: see `verify`.
    """

    steps: int = 0
    unit: float = 2.0**-23
    c: float = LARGEST_C

    def __post_init__(self) -> None:
        if not 0 < self.c <= LARGEST_C:
            raise UsageError(f"a RoundingBound with c = {self.c:g}: c is above 0 and at most {LARGEST_C:g}",
                             "count the steps that round; a larger c would accept wrong sums")  # fmt: skip
        if self.steps < 0 or not 0 < self.unit <= 2.0**-3:
            raise UsageError(f"a RoundingBound with {self.steps} steps of {self.unit:g} cannot be")

    @property
    def eps_acc(self) -> float:
        return float(self.unit * self.steps**0.5)

    def __str__(self) -> str:
        accumulated = f"{self.c:g} * {self.eps_acc:.3g} sum|a||b| + " if self.steps else ""
        return f"|y - r| <= {accumulated}eps_out |r|, every element"


@dataclass(frozen=True)
class Tile:
    """The part of an output, or of the tile around it, that one `owner` writes: `shape` elements."""

    owner: str
    shape: Shape


def owner_of(index: Shape, shape: Shape, tiles: Sequence[Tile]) -> str:
    """Which tile of each level an element is in, such as ``CTA tile [3, 5], consumer warpgroup [1]``.

    A direction in which a level does not divide the one around it is left out.
    """
    parts = []
    for tile in tiles:
        divided = [i for i, extent in enumerate(tile.shape) if extent < shape[i]] or [0]
        parts.append(f"{tile.owner} {[index[i] // tile.shape[i] for i in divided]}")
        index = tuple(i % extent for i, extent in zip(index, tile.shape, strict=True))
        shape = tile.shape
    return ", ".join(parts)
