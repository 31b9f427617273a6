"""Artifact and inputs to a verification against the FP32 reference. The device is an argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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

    def twin(self, device: Device, seed: int) -> Case:
        """The same problem in memory of its own, with the values of `seed`."""
        return prepare(self.kernel, self.params, device, seed)

    def reset(self) -> None:
        """Give the in-place arguments their first values again."""
        for name, array in self.working.items():
            array[...] = self.inputs[name]


def prepare(kernel: Kernel, params: Params, device: Device, seed: int) -> Case:
    """Seeded inputs, poisoned outputs and workspace, and the reference computed from the inputs as the kernel sees them."""
    rng = device.rng(seed)
    inputs = dict(call(kernel.inputs, {**params, "rng": rng}))
    fill = ", ".join(dict.fromkeys(rng.drawn))
    if len(rng.drawn) < len(inputs):  # some of them were not drawn
        fill = "; ".join([*([fill] if fill else []), _moments(inputs, device)])
    how = device.exact_reference()
    widened = {name: _widened_copy(array, device) for name, array in inputs.items()}
    expected = {name: device.widen(array) for name, array in call(kernel.reference, {**params, **widened}).items()}
    working = in_place(kernel, inputs, device)
    outputs = fresh(kernel.outputs, params, device)
    outputs |= {name: array for name, array in working.items() if name in outputs}
    if set(expected) != set(outputs):
        raise UsageError(f"{kernel.name}: reference gives {sorted(expected)} and outputs {sorted(outputs)}")
    workspace = fresh(kernel.workspace, params, device) if kernel.workspace else {}
    return Case(kernel, params, seed, fill, inputs, outputs, workspace, working, expected, how)


def _moments(inputs: Buffers, device: Device) -> str:
    """What inputs hold that nothing was drawn for: zeros make another time than random numbers do."""
    wide = {name: device.widen(array) for name, array in inputs.items()}
    return ", ".join(f"{name} mean {float(w.mean()):.3g} sd {float(w.std()):.3g}" for name, w in wide.items())


def refill(case: Case, device: Device, seed: int) -> None:
    """Other values in the same memory, and what they should give: a kernel that remembers its answer is now wrong."""
    other = prepare(case.kernel, case.params, device, seed)
    for name, array in case.inputs.items():
        array[...] = other.inputs[name]
    assert isinstance(case.expected, dict)
    case.expected.update(other.expected)
    case.reset()


def _widened_copy(array: Any, device: Device) -> Any:
    """In FP32 and in memory of its own, so that a kernel that overwrites an input cannot change what is expected."""
    wide = device.widen(array)
    return device.copy(wide) if wide is array else wide


def fresh(shapes: Callable[..., Mapping[str, Any]], params: Params, device: Device) -> Buffers:
    """Poisoned arrays of the shapes and dtypes that `outputs` or `workspace` give."""
    return {name: device.poisoned(shape, dtype) for name, (shape, dtype) in call(shapes, params).items()}


def baseline_outputs(case: Case, device: Device) -> Buffers:
    """Memory of its own for another implementation: poisoned outputs, and in-place arguments with their first values."""
    return {**fresh(case.kernel.outputs, case.params, device), **in_place(case.kernel, case.inputs, device)}


def in_place(kernel: Kernel, inputs: Buffers, device: Device) -> Buffers:
    """Copies of the arguments that a launch may change."""
    return {name: device.copy(inputs[name]) for name in kernel.inplace}


def verify(case: Case, launch: Callable[[Buffers], Any], device: Device, seeds: int = 1) -> Verification:
    """Launch on the case's buffers with the inputs of each seed, compare every element of every output, and launch again.

    The inputs must stay as they were. Ends at the first seed that fails. The case holds the last seed's values afterwards.
    """
    repeats = True
    for seed in range(case.seed, case.seed + seeds):
        if seed != case.seed:
            refill(case, device, seed)
            _poison(case, device)
        found = replace(_verify_once(case, launch, device), seed=seed)
        if not found.passed:
            return found
        repeats = _repeats(case, launch, device) and repeats
    return replace(found, seed=case.seed, seeds=seeds, repeats=repeats)


def _repeats(case: Case, launch: Callable[[Buffers], Any], device: Device) -> bool:
    """Whether another launch on the same inputs gives the same bits. A race may not, nor does an order that varies."""
    first = {name: device.copy(array) for name, array in case.outputs.items()}
    _poison(case, device)
    _run(case, launch, device)
    return all(device.same_bits(case.outputs[name], array) for name, array in first.items())


def _poison(case: Case, device: Device) -> None:
    """Outputs as if nobody had written them, and in-place arguments with their first values."""
    device.poison(array for name, array in case.outputs.items() if name not in case.working)
    case.reset()


def _run(case: Case, launch: Callable[[Buffers], Any], device: Device) -> None:
    """Raises `FailedError` when a kernel faulted, which a launch alone does not say."""
    launch(case.buffers)
    device.synchronize()


def _verify_once(case: Case, launch: Callable[[Buffers], Any], device: Device) -> Verification:
    before = {name: device.copy(array) for name, array in case.inputs.items()}
    _run(case, launch, device)
    found = compare(case, case.outputs, device)
    changed = tuple(_changed(name, case, device) for name in restore_inputs(case, before, device))
    return replace(found, outputs=found.outputs + changed)


def restore_inputs(case: Case, before: Buffers, device: Device) -> list[str]:
    """The names of the inputs whose bits are not those of `before`; they have them again."""
    changed = [name for name, array in before.items() if not device.same_bits(case.inputs[name], array)]
    for name in changed:
        case.inputs[name][...] = before[name]
    return changed


def _changed(name: str, case: Case, device: Device) -> OutputCheck:
    """A failed check of an input that a launch changed without declaring it."""
    array, tolerance = case.inputs[name], case.kernel.tolerance_for(case.params)
    problem = "is an input that the launch changed, and not declared in place"
    return OutputCheck(name, tuple(array.shape), device.dtype_of(array), None, None, None, (), None, None, 0, tolerance, problem)


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
    size = abs(r)
    bound = tolerance.atol + tolerance.rtol * size
    if not bool((size < math.inf).all()):
        problem = "the reference is not finite: the case is invalid"
    elif bool((size > 0).any()) and bool((size <= bound).all()):
        problem = "the tolerance accepts zeros, so it proves nothing"
    error = abs(y - r)
    excess = error - bound
    wrong = ~(excess <= 0)  # a NaN is wrong
    index = _unravel(int(where(excess == excess, excess, math.inf).argmax()), tuple(y.shape))
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
