"""Launches against the reference: right on every input and under every condition, or why not. The device is an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tirx_bench.device import Device
from tirx_bench.model import CONDITIONS, FILLS, Attempt, NothingRanError, Verification, VerifyPolicy
from tirx_bench.verify.case import Buffers, Case, baseline_outputs, prepare, refill, restore_inputs
from tirx_bench.verify.controls import controls
from tirx_bench.verify.elements import compare, failed

__all__ = ["Buffers", "Case", "baseline_outputs", "compare", "prepare", "refill", "restore_inputs", "verify"]

Launch = Callable[[Buffers], Any]
QUICK = VerifyPolicy()


def verify(case: Case, launch: Launch, device: Device, policy: VerifyPolicy = QUICK) -> Verification:
    """Everything that `policy` asks for, ending at the first failure. The case is of the policy's first kind of inputs.

    Every launch gets poisoned outputs and must leave its inputs, and the memory around everything, as they are. The errors
    are those of the first launch. The case holds the last seed's values afterwards. Raises `FailedError` when a kernel faulted.
    """
    under = partial(_under, case, launch, device)
    found = under(policy.conditions[0], policy.repeats, case.seed)
    for condition in policy.conditions[1:]:
        found = _joined(found, partial(under, condition, policy.repeats, case.seed))
    if found.passed and case.kind == FILLS[0]:
        found = replace(found, controls=controls(case, device))
    for seed in range(case.seed + 1, case.seed + policy.seeds):
        found = _joined(found, partial(_of_seed, seed, case, launch, device))
    for kind in policy.fills[1:]:
        found = _joined(found, partial(_of_kind, kind, case, launch, device))
    return found


def _joined(before: Verification, attempt: Callable[[], Verification | str]) -> Verification:
    """What was found before with another attempt's outcome; what failed stays, and nothing is tried after it."""
    if not before.passed:
        return before
    found = attempt()
    if isinstance(found, str):
        return replace(before, skipped=(*before.skipped, found))
    if not found.passed:
        return replace(found, controls=before.controls, tried=before.tried, skipped=before.skipped)
    return replace(before, tried=before.tried + found.tried, repeats=before.repeats and found.repeats)


def _of_seed(seed: int, case: Case, launch: Launch, device: Device) -> Verification:
    """Other values in the same memory, where what a kernel kept of the first is wrong."""
    refill(case, device, seed)
    return _under(case, launch, device, CONDITIONS[0], 1, seed)


def _of_kind(kind: str, case: Case, launch: Launch, device: Device) -> Verification | str:
    try:
        other = prepare(case.kernel, case.params, device, case.seed, kind)
    except NothingRanError as reason:
        return reason.message
    return _under(other, launch, device, CONDITIONS[0], 1, case.seed)


def _under(case: Case, launch: Launch, device: Device, condition: str, repeats: int, seed: int) -> Verification:
    """A launch under a condition, and `repeats` more on the same inputs, which are to give the same bits."""
    same = None
    with device.under(condition) as disturb:
        found = _once(case, launch, device, disturb)
        first = {name: device.copy(array) for name, array in case.outputs.items()}
        for _ in range(repeats):
            if found.passed:
                again = _once(case, launch, device, disturb)
                same = same is not False and all(device.same_bits(case.outputs[name], array) for name, array in first.items())
                found = found if again.passed else again
    share = max((o.bound_share or 0.0 for o in found.outputs), default=0.0)
    tried = (Attempt(case.fill, seed, condition, 1 + repeats, share),) if found.passed else ()
    return replace(found, seed=seed, condition=condition, repeats=same, tried=tried)


def _once(case: Case, launch: Launch, device: Device, disturb: Callable[[], Any]) -> Verification:
    _poison(case, device)
    before = {name: device.copy(array) for name, array in case.inputs.items()}
    disturb()
    launch(case.buffers)
    device.synchronize()  # a launch alone does not say that a kernel faulted
    found = compare(case, case.outputs, device)
    tolerance = case.kernel.tolerance_for(case.params)
    problem = "is an input that the launch changed, and not declared in place"
    changed = tuple(
        failed(name, tuple(case.inputs[name].shape), device.dtype_of(case.inputs[name]), tolerance, problem)
        for name in restore_inputs(case, before, device)
    )
    return replace(found, outputs=found.outputs + changed)


def _poison(case: Case, device: Device) -> None:
    """Outputs as if nobody had written them, and in-place arguments with their first values.

    The workspace keeps what the launch before left, as it would between a user's calls.
    """
    case.poison(case.outputs, device)
    case.reset()
