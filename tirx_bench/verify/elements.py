"""Outputs against what is expected, element by element."""

from __future__ import annotations

import math
from typing import Any

from tirx_bench.device import Device
from tirx_bench.model import (
    ROUNDOFF,
    SMALLEST,
    Bound,
    OutputCheck,
    RoundingBound,
    Shape,
    Tolerance,
    Verification,
    call,
    owner_of,
)
from tirx_bench.ops import sqrt, where
from tirx_bench.verify.case import Buffers, Case

# Rounding to nearest errs evenly within half a unit of the last place, whose rms is 1/sqrt(3) = 0.577 of it, and the bound is
# no less than that half. More than this, over so many elements of random numbers, is no rounding.
NORM_SHARE = 0.65
NORM_ELEMENTS = 1024
NEAREST_FACTOR = 1.25  # where an output has few distinct values, rounding may be as far off as it can in all of them
RANDOM = ("normal", "uniform")
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}  # PTX converts to these with .satfinite alone: more becomes this


def compare(case: Case, outputs: Buffers, device: Device) -> Verification:
    """Every element of every output, and the frames around the case's memory."""
    declared = call(case.kernel.outputs, case.params)
    tolerance = case.kernel.tolerance_for(case.params)
    checks = []
    for name, (shape, dtype) in declared.items():
        if (actual := outputs.get(name)) is None:
            checks.append(failed(name, tuple(shape), dtype, tolerance, "is missing"))
        elif problem := _form(actual, case.expected[name], tuple(shape), dtype, device):
            checks.append(failed(name, tuple(actual.shape), device.dtype_of(actual), tolerance, problem))
        else:
            checks.append(check(case, name, actual, device))
    return Verification((*checks, *_broken_frames(case, device)), case.seed, case.fill, case.reference, kind=case.kind)


def failed(name: str, shape: Shape, dtype: str, tolerance: Bound, problem: str) -> OutputCheck:
    """A check that failed before any element was looked at."""
    return OutputCheck(name, shape, dtype, None, None, None, (), None, None, 0, tolerance, problem)


def _form(actual: Any, expected: Any, shape: Shape, dtype: str, device: Device) -> str:
    if tuple(actual.shape) != shape or device.dtype_of(actual) != dtype:
        return f"is {device.dtype_of(actual)} {tuple(actual.shape)} instead of {dtype} {shape}"
    if tuple(expected.shape) != shape:
        return f"has the shape {shape} and its reference {tuple(expected.shape)}"
    return "" if math.prod(shape) else "has no elements, so nothing was checked"


def _broken_frames(case: Case, device: Device) -> list[OutputCheck]:
    """A failed check of every array around which something was written."""
    checks, tolerance = [], case.kernel.tolerance_for(case.params)
    for name, frame in case.frames.items():
        before, behind = device.broken(frame)
        places = [f"{count} bytes {where}" for count, where in ((before, "in front of it"), (behind, "behind it")) if count]
        if places:
            array = case.buffers[name.removeprefix("in place ")]
            problem = f"had {' and '.join(places)} written over"
            checks.append(failed(name, tuple(array.shape), device.dtype_of(array), tolerance, problem))
    return checks


def bound_of(case: Case, name: str, size: Any, dtype: str, tolerance: Bound) -> Any:
    """How far each element may be off, given |r|."""
    if isinstance(tolerance, Tolerance):
        return tolerance.atol + tolerance.rtol * size
    bound = ROUNDOFF.get(dtype, 0.0) * size + SMALLEST.get(dtype, 0.0)
    return bound + tolerance.c * tolerance.eps_acc * case.magnitude[name] if tolerance.steps else bound


def check(case: Case, name: str, actual: Any, device: Device) -> OutputCheck:
    """Every element of one output, which has the form of the one that is expected."""
    tolerance = case.kernel.tolerance_for(case.params)
    y, r, dtype = device.widen(actual), case.expected[name], device.dtype_of(actual)
    rounded = device.rounded(r, dtype)
    bound = bound_of(case, name, abs(r), dtype, tolerance)
    special = ~((abs(rounded) < math.inf) & (bound < math.inf))  # where y must be that very number, and errors mean nothing
    size, error, bound = (where(special, 0, values) for values in (abs(r), abs(y - r), bound))
    alike = _alike(y, rounded) | _saturated(y, r, LARGEST.get(dtype, math.inf))
    excess = where(special, where(alike, -math.inf, math.inf), error - bound)
    wrong = ~(excess <= 0)  # a NaN is wrong
    rank = excess if bool(wrong.any()) else where(bound > 0, error / where(bound > 0, bound, 1), 0)
    shape = tuple(y.shape)
    index = _unravel(int(where(rank == rank, rank, math.inf).argmax()), shape)
    relative = where(size > 0, error / where(size > 0, size, 1), 0)
    norm, rms = (float(sqrt((values * values).mean())) for values in (size, error))
    return OutputCheck(
        name=name,
        shape=shape,
        dtype=dtype,
        max_abs_error=_finite(float(error.max())),
        max_rel_error=_finite(float(relative.max())),
        rms_rel_error=_finite(rms / norm) if 0 < norm < math.inf else None,
        worst_index=index,
        worst_actual=_finite(float(y[index])),
        worst_expected=_finite(float(r[index])),
        wrong_elements=int(wrong.sum()),
        tolerance=tolerance,
        problem=_invalid(case, r) or _norm_problem(case, error, bound, where(special, 0, abs(rounded - r)), tolerance),
        bound_share=None if bool(special[index]) else _share(float(error[index]), float(bound[index])),
        owner=owner_of(index, shape, case.kernel.tiles_for(case.params).get(name, ())),
    )


def _alike(y: Any, r: Any) -> Any:
    """Where both are NaN, or the same infinity."""
    return (y == r) | ((y != y) & (r != r))


def _saturated(y: Any, r: Any, largest: float) -> Any:
    """Where r is out of the format's range and y the number next to it."""
    return (abs(r) > largest) & (abs(y) == largest) & ((y > 0) == (r > 0))


def _invalid(case: Case, r: Any) -> str:
    if case.kind != "non-finite" and not bool((abs(r) < math.inf).all()):
        return "the reference is not finite: the case is invalid"
    return ""


def _norm_problem(case: Case, error: Any, bound: Any, nearest: Any, tolerance: Bound) -> str:
    """What is wrong with the errors as a whole when each alone is within its bound. `nearest` is what rounding r alone makes."""
    if not isinstance(tolerance, RoundingBound) or case.kind not in RANDOM or math.prod(tuple(error.shape)) < NORM_ELEMENTS:
        return ""
    found, granted, least = (float(sqrt((values * values).mean())) for values in (error, bound, nearest))
    share = _share(found, granted)
    if share is None or share <= NORM_SHARE or found <= NEAREST_FACTOR * least:
        return ""
    return f"has an rms error of {share:.2f} of its bound, and rounding to nearest stays below {NORM_SHARE:g}"


def _share(error: float, bound: float) -> float | None:
    return _finite(error / bound) if bound else (0.0 if error == 0 else None)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _unravel(flat: int, shape: Shape) -> Shape:
    index: list[int] = []
    for extent in reversed(shape):
        flat, position = divmod(flat, extent)
        index.insert(0, position)
    return tuple(index)
