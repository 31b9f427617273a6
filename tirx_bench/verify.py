"""Artifact and inputs to a verification against the FP32 reference. The device is an argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tirx_bench.device import Device
from tirx_bench.model import Kernel, OutputCheck, Params, Tolerance, UsageError, Verification, call
from tirx_bench.ops import sqrt, where

Buffers = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One problem on the device: inputs, outputs and workspace by name, and what the outputs should be, in FP32."""

    kernel: Kernel
    params: Params
    seed: int
    fill: str
    inputs: Buffers
    outputs: Buffers
    workspace: Buffers
    working: Buffers  # copies of the in-place arguments, which the kernel may change
    expected: Mapping[str, Any]
    reference: str

    @property
    def buffers(self) -> Buffers:
        """What a launch of the kernel gets."""
        return {**self.inputs, **self.outputs, **self.workspace, **self.working}

    def twin(self, device: Device) -> Case:
        """The same problem with outputs, workspace and in-place arguments of its own."""
        return prepare(self.kernel, self.params, device, self.seed)

    def reset(self) -> None:
        """Give the in-place arguments their first values again."""
        for name, array in self.working.items():
            array[...] = self.inputs[name]


def prepare(kernel: Kernel, params: Params, device: Device, seed: int) -> Case:
    """Seeded inputs, poisoned outputs and workspace, and the reference computed from the inputs as the kernel sees them."""
    rng = device.rng(seed)
    inputs = dict(call(kernel.inputs, {**params, "rng": rng}))
    fill = ", ".join(dict.fromkeys(rng.drawn))
    how = device.exact_reference()
    widened = {name: _widened_copy(array, device) for name, array in inputs.items()}
    expected = {name: device.widen(array) for name, array in call(kernel.reference, {**params, **widened}).items()}
    working = {name: device.copy(inputs[name]) for name in kernel.inplace}
    outputs = fresh(kernel.outputs, params, device)
    outputs |= {name: array for name, array in working.items() if name in outputs}
    if set(expected) != set(outputs):
        raise UsageError(f"{kernel.name}: reference gives {sorted(expected)} and outputs {sorted(outputs)}")
    workspace = fresh(kernel.workspace, params, device) if kernel.workspace else {}
    return Case(kernel, params, seed, fill, inputs, outputs, workspace, working, expected, how)


def _widened_copy(array: Any, device: Device) -> Any:
    """In FP32 and in memory of its own, so that a kernel that overwrites an input cannot change what is expected."""
    wide = device.widen(array)
    return device.copy(wide) if wide is array else wide


def fresh(shapes: Callable[..., Mapping[str, Any]], params: Params, device: Device) -> Buffers:
    """Poisoned arrays of the shapes and dtypes that `outputs` or `workspace` give."""
    return {name: device.poisoned(shape, dtype) for name, (shape, dtype) in call(shapes, params).items()}


def verify(case: Case, launch: Callable[[Buffers], Any], device: Device) -> Verification:
    """Launch once on the case's buffers and compare every element of every output."""
    launch(case.buffers)
    device.synchronize()
    return compare(case, case.outputs, device)


def compare(case: Case, outputs: Buffers, device: Device) -> Verification:
    declared = call(case.kernel.outputs, case.params)
    tolerance = case.kernel.tolerance_for(case.params)
    checks = []
    for name, (shape, dtype) in declared.items():
        if (actual := outputs.get(name)) is None:
            missing = OutputCheck(name, tuple(shape), dtype, None, None, None, (), None, None, 0, tolerance, "is missing")
            checks.append(missing)
            continue
        problem = _form(actual, tuple(shape), dtype, device)
        checks.append(_check(name, actual, case.expected[name], tolerance, device, problem))
    return Verification(tuple(checks), case.seed, case.fill, case.reference)


def _form(actual: Any, shape: tuple[int, ...], dtype: str, device: Device) -> str:
    if tuple(actual.shape) != shape or device.dtype_of(actual) != dtype:
        return f"is {device.dtype_of(actual)} {tuple(actual.shape)} instead of {dtype} {shape}"
    return "" if math.prod(shape) else "has no elements, so nothing was checked"


def _check(name: str, actual: Any, expected: Any, tolerance: Tolerance, device: Device, problem: str) -> OutputCheck:
    y, r = device.widen(actual), expected
    if not problem and tuple(r.shape) != tuple(y.shape):
        problem = f"has the shape {tuple(y.shape)} and its reference {tuple(r.shape)}"
    if problem:
        return OutputCheck(name, tuple(y.shape), device.dtype_of(actual), None, None, None, (), None, None, 0, tolerance, problem)
    if not bool((abs(r) < math.inf).all()):
        problem = "the reference is not finite: the case is invalid"
    error = abs(y - r)
    excess = error - (tolerance.atol + tolerance.rtol * abs(r))
    wrong = ~(excess <= 0)  # a NaN is wrong
    index = _unravel(int(where(excess == excess, excess, math.inf).argmax()), tuple(y.shape))
    size = abs(r)
    relative = where(size > 0, error / where(size > 0, size, 1), 0)
    norm = float(sqrt((r * r).mean()))
    rms = float(sqrt((error * error).mean()))
    return OutputCheck(
        name=name,
        shape=tuple(y.shape),
        dtype=device.dtype_of(actual),
        max_abs_error=_finite(float(error.max())),
        max_rel_error=_finite(float(relative.max())),
        rms_rel_error=_finite(rms / norm) if 0 < norm < math.inf else None,
        worst_index=index,
        worst_actual=_finite(float(y[index])),
        worst_expected=_finite(float(r[index])),
        wrong_elements=int(wrong.sum()),
        tolerance=tolerance,
        problem=problem,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for extent in reversed(shape):
        flat, position = divmod(flat, extent)
        index.insert(0, position)
    return tuple(index)
