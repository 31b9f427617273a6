"""Values of a warp: a scalar where its lanes agree, an array of 32 where they may not, and who is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

WARP = 32
LANES = np.arange(WARP)
FLOATS: dict[str, Any] = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
INTEGERS: dict[str, Any] = {name: getattr(np, name) for name in BITS}


class Mask:
    """Active lanes. Equal masks are one object, so `is` compares them."""

    known: dict[bytes, Mask] = {}
    bits: Any
    lanes: list[int]
    count: int
    first: int

    def __new__(cls, bits: Any) -> Mask:
        key = bits.tobytes()
        if key not in cls.known:
            mask = super().__new__(cls)
            mask.bits = bits
            mask.lanes = np.flatnonzero(bits).tolist()
            mask.count, mask.first = len(mask.lanes), mask.lanes[0]
            cls.known[key] = mask
        return cls.known[key]


FULL = Mask(np.ones(WARP, bool))


class Slot:
    """A register as an operand: element `index` of a thread-local array."""

    __slots__ = ("index", "registers")

    def __init__(self, registers: Any, index: Any):
        self.registers, self.index = registers, index

    def write(self, value: Any, mask: Mask) -> None:
        self.registers.store(self.index, value, mask)


def numpy_kind(dtype: str) -> Any:
    """The numpy type of a TVM dtype. Raises KeyError on one that has none here."""
    return np.bool_ if dtype == "bool" else FLOATS.get(dtype) or INTEGERS[dtype]


def byte_size(dtype: str) -> int:
    return int(np.dtype(numpy_kind(dtype)).itemsize)


def varies(value: Any) -> bool:
    return type(value) is np.ndarray


def spread(value: Any) -> Any:
    """As an array of 32."""
    return value if type(value) is np.ndarray else np.broadcast_to(value, WARP)


def uniform(value: Any, mask: Mask) -> Any:
    """What the first active lane has: for operands that an instruction takes once for a warp or for one thread."""
    return value[mask.first].item() if type(value) is np.ndarray else value


def agree(value: Any, mask: Mask) -> bool:
    """Whether the active lanes have one value."""
    return type(value) is not np.ndarray or bool((value[mask.bits] == value[mask.first]).all())


def split(condition: Any, mask: Mask) -> tuple[Mask | None, Mask | None]:
    """The active lanes where it holds, and where it does not; None for nobody."""
    if type(condition) is not np.ndarray:
        return (mask, None) if condition else (None, mask)
    holds = condition.astype(bool)
    yes, no = mask.bits & holds, mask.bits & ~holds
    return (Mask(yes) if yes.any() else None), (Mask(no) if no.any() else None)


def choose(condition: Any, yes: Callable[[Mask], Any], no: Callable[[Mask], Any], mask: Mask) -> Any:
    """`condition ? yes : no`: each side is evaluated by the lanes that take it, as in C."""
    takes, leaves = split(condition, mask)
    if takes is None or leaves is None:
        return yes(mask) if leaves is None else no(mask)
    return np.where(takes.bits, yes(takes), no(leaves))


def wrapped(value: Any, bits: int, signed: bool) -> Any:
    """An integer as a register of so many bits holds it. Lanes of 64 bits wrap by themselves."""
    if type(value) is np.ndarray and bits == 64:
        return value
    value = value & ((1 << bits) - 1)
    if not signed:
        return value
    half = 1 << (bits - 1)
    return (value ^ half) - half


def quotient(a: Any, b: Any) -> Any:
    """C's division of integers: toward zero."""
    if type(a) is np.ndarray or type(b) is np.ndarray:
        safe = np.where(b == 0, 1, b)
        return np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe))
    return (a // b if (a >= 0) == (b >= 0) else -(-a // b)) if b else 0


def remainder(a: Any, b: Any) -> Any:
    return a - b * quotient(a, b)


def larger(a: Any, b: Any) -> Any:
    """C's fmax: a NaN gives way to a number."""
    return np.fmax(a, b) if _float(a) or type(a) is np.ndarray or type(b) is np.ndarray else max(a, b)


def smaller(a: Any, b: Any) -> Any:
    return np.fmin(a, b) if _float(a) or type(a) is np.ndarray or type(b) is np.ndarray else min(a, b)


def _float(value: Any) -> bool:
    return isinstance(value, np.floating | float) or getattr(value, "dtype", np.dtype(np.int64)).kind not in "iub"


def cast(value: Any, dtype: str) -> Any:
    """C's conversion to `dtype`: floats are rounded to the nearest, and go to integers toward zero, within range."""
    if dtype == "bool":
        return value != 0
    if dtype in FLOATS:
        kind = FLOATS[dtype]
        return value.astype(kind) if type(value) is np.ndarray else kind(value)
    bits, signed = BITS[dtype], not dtype.startswith("u")
    if _float(value):
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        wide = np.trunc(np.nan_to_num(np.asarray(value, np.float64), nan=0.0, posinf=float(high), neginf=float(low)))
        found = np.clip(wide, low, high)
        return found.astype(np.int64) if type(value) is np.ndarray else int(found)
    whole = value.astype(np.int64) if type(value) is np.ndarray else int(value)
    return wrapped(whole, bits, signed)


def reinterpreted(value: Any, source: str, target: str) -> Any:
    """The same bits as another type of the same size."""
    raw = np.asarray(value).astype(numpy_kind(source)).view(numpy_kind(target))
    if raw.dtype.kind in "iu":
        return raw.astype(np.int64) if raw.ndim else int(raw)
    return raw if raw.ndim else raw[()]
