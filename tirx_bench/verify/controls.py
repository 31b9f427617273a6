"""Known wrong outputs, made from the reference and never from the tolerance, which the tolerance must reject."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tirx_bench.device import Device, Product
from tirx_bench.model import BITS, ROUNDOFF, SMALLEST, Control, Shape, call
from tirx_bench.ops import sqrt
from tirx_bench.verify.arithmetic import accumulated_in, exact, one_bit_less, without_last_terms
from tirx_bench.verify.case import Buffers, Case, referred, widened
from tirx_bench.verify.elements import check

SHIFT = 0.02  # of its row's rms
TILE = 64  # elements each way, where the kernel declares none
FEW = 64  # elements, which may be right by chance when their sums are wrong


class Skipped(Exception):
    """The case cannot tell the control's outputs from right ones; the text says why."""


def controls(case: Case, device: Device) -> tuple[Control, ...]:
    """What the kernel's tolerance makes of each control, on the values that the case holds."""
    return tuple(_control(name, make, case, device) for name, make in CONTROLS.items())


def _control(name: str, make: Callable[[Case, Device], Buffers], case: Case, device: Device) -> Control:
    declared = call(case.kernel.outputs, case.params)
    try:
        made = make(case, device)
    except Skipped as reason:
        return Control(name, "skipped", str(reason))
    rejected = False
    for output, (_, dtype) in declared.items():
        if not _shows(made[output], case.expected[output], dtype, device):
            continue
        if _accepted(case, output, device.rounded(made[output], dtype), device):
            return Control(name, "accepted", f"as {output}")
        rejected = True
    return Control(name, "rejected") if rejected else Control(name, "skipped", "it gives what is expected, but for rounding")


def _shows(made: Any, expected: Any, dtype: str, device: Device) -> bool:
    """Whether an element differs by more than rounding both values to the output's dtype would excuse."""
    rounding = ROUNDOFF.get(dtype, 0.0) * abs(expected) + SMALLEST.get(dtype, 0.0)
    differs = device.rounded(made, dtype) != device.rounded(expected, dtype)  # zeros of either sign are alike
    return bool((differs & ~(abs(made - expected) <= 2 * rounding)).any())


def _accepted(case: Case, output: str, wrong: Any, device: Device) -> bool:
    array = device.copy(case.outputs[output])
    array[...] = wrong
    return check(case, output, array, device).passed


# ------------------------------------------------------------------------------------------------ outputs


def _changed(change: Callable[[str, Any], None], case: Case, device: Device) -> Buffers:
    """Copies of what is expected, each changed; `Skipped` if all were."""
    made = {name: device.copy(array) for name, array in case.expected.items()}
    reasons = []
    for name, array in made.items():
        try:
            change(name, array)
        except Skipped as reason:
            reasons.append(reason)
    if len(reasons) == len(made):
        raise reasons[0]
    return made


def _zeros(case: Case, device: Device) -> Buffers:
    return {name: 0 * array for name, array in case.expected.items()}


def _tile_missing(case: Case, device: Device) -> Buffers:
    def change(name: str, array: Any) -> None:
        tile = _tile(case, name)
        array[tuple(_part(n // t // 2, t) for n, t in zip(array.shape, tile, strict=True))] = 0

    return _changed(change, case, device)


def _tiles_swapped(case: Case, device: Device) -> Buffers:
    def change(name: str, array: Any) -> None:
        tile = _tile(case, name)
        axis = next((i for i in reversed(range(len(tile))) if array.shape[i] >= 2 * tile[i]), None)
        if axis is None:
            raise Skipped("there are no two whole tiles")
        first = [_part(0, t) for t in tile]
        second = [*first]
        second[axis] = _part(1, tile[axis])
        kept = device.copy(array[tuple(first)])
        array[tuple(first)] = array[tuple(second)]
        array[tuple(second)] = kept

    return _changed(change, case, device)


def _tile(case: Case, name: str) -> Shape:
    shape = tuple(case.expected[name].shape)
    declared = case.kernel.tiles_for(case.params).get(name)
    return declared[0].shape if declared else tuple(min(extent, TILE) for extent in shape)


def _part(number: int, extent: int) -> slice:
    return slice(number * extent, (number + 1) * extent)


def _element_off(case: Case, device: Device) -> Buffers:
    """Short rows count as one."""
    _need_many(case)

    def change(name: str, array: Any) -> None:
        rows = array.reshape(-1, array.shape[-1] if array.shape and array.shape[-1] >= FEW else math.prod(tuple(array.shape)))
        row = rows[len(rows) // 2]
        rms = float(sqrt((row * row).mean()))
        column = int(abs(abs(row) - rms).argmin())  # a typical element
        row[column] += SHIFT * rms

    return _changed(change, case, device)


def _need_many(case: Case) -> None:
    if (most := max(math.prod(tuple(array.shape)) for array in case.expected.values())) < FEW:
        raise Skipped(f"{most} elements are too few to tell")


# ------------------------------------------------------------------------------------------------- inputs


def _with_product(product: Product, case: Case, device: Device) -> Buffers:
    _need_many(case)
    used = []

    def noted(left: Any, right: Any) -> Any:
        used.append(True)
        return product(left, right)

    found = referred(case.kernel, case.params, widened(case.inputs, device), noted, device)
    if not used:
        raise Skipped("the reference multiplies no matrices by @")
    return found


def _last_terms_dropped(case: Case, device: Device) -> Buffers:
    return _with_product(without_last_terms(device), case, device)


def _accumulated_narrow(case: Case, device: Device) -> Buffers:
    dtypes = [dtype for array in case.inputs.values() if BITS.get(dtype := device.dtype_of(array), 24) < BITS["float32"]]
    if not dtypes:
        raise Skipped("no input is narrower than the accumulator")
    return _with_product(accumulated_in(max(dtypes, key=lambda dtype: BITS[dtype]), device), case, device)


def _inputs_rounded(case: Case, device: Device) -> Buffers:
    _need_many(case)
    wide = widened(case.inputs, device)
    floats = {name for name, array in case.inputs.items() if device.dtype_of(array) in BITS}
    if not floats:
        raise Skipped("no input is a floating-point number")
    rounded = {n: one_bit_less(a, device.dtype_of(case.inputs[n])) if n in floats else a for n, a in wide.items()}
    return referred(case.kernel, case.params, rounded, exact(device), device)


CONTROLS: dict[str, Callable[[Case, Device], Buffers]] = {
    "zeros": _zeros,
    "one tile missing": _tile_missing,
    "two tiles swapped": _tiles_swapped,
    "the last 16 terms of every sum dropped": _last_terms_dropped,
    "sums kept in the input's dtype": _accumulated_narrow,
    "inputs of one bit less": _inputs_rounded,
    "one element off by 2 % of its row's rms": _element_off,
}
