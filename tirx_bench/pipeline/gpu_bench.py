"""Timing on the GPU: which implementations, over which copies, and whether they were still right afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tirx_bench.device.cuda import CudaDevice
from tirx_bench.hardware import card_of_device
from tirx_bench.model import FailedError, Peak, Timing, UsageError, Verification, call
from tirx_bench.peaks import measure_peak
from tirx_bench.pipeline.loading import Loaded, load_version
from tirx_bench.pipeline.request import SAME_CODE, Answer, Request
from tirx_bench.pipeline.trial import Trial
from tirx_bench.store import read_peak, write_peak
from tirx_bench.timing import measure
from tirx_bench.tools import profiler
from tirx_bench.verify import Case, verify

Step = Callable[[str], None]


def bench(request: Request, case: Case, loaded: Loaded, verification: Verification, device: CudaDevice, step: Step) -> Answer:
    """Time the kernel with what the action holds it against. `verification` has passed. Raises `WorkbenchError`."""
    _refuse(loaded)
    step("verifying what it is held against")
    trial = Trial(case, request.policy, device)
    trial.add_kernel(case.kernel.name, loaded.bind, trial.cases, loaded.library)
    owners = {case.kernel.name: trial.cases, **_add_others(request, trial, case, loaded, device)}
    peak = None
    if request.action == "bench":
        step("measuring the card's peak")
        peak = _peak(request, case, device)
    measured = measure(
        trial.calls, trial.policy, device, verification,
        before=trial.before, floor_us=_floor_us(case, device), progress=step,
    )  # fmt: skip
    timing, statuses = measured.timing, measured.statuses
    refused = [f"timing of {s.implementation}: {s.name}: {s.evidence}" for s in measured.refused]
    if timing is None:
        return Answer(device.describe(), verification, measured=peak, left_out=tuple(refused), statuses=statuses)
    step("checking the outputs of the timed calls")
    wrong = _wrong(trial, owners, timing)
    if kernel_wrong := wrong.get(case.kernel.name):
        reason = "timing: the outputs were wrong after the timed calls, on values that the kernel had not seen before"
        return Answer(device.describe(), kernel_wrong, left_out=(reason,), statuses=statuses)
    left_out = [*trial.left_out, *refused, *(f"{name}: its outputs were wrong after the timed calls" for name in wrong)]
    timing = _without(timing, wrong)
    kept = tuple(s for s in statuses if s.implementation not in wrong)
    operations = trial.operations(timing.implementations, measured.kernels)
    return Answer(device.describe(), verification, timing, peak, tuple(left_out), kept, operations)


def _refuse(loaded: Loaded) -> None:
    if loaded.artifact.instrumented:
        raise UsageError("the artifact is instrumented for IKET, so its time says nothing", "unset the TVM_IKET_* variables")
    if watching := profiler():
        raise UsageError(
            f"PROFILED: this process runs under {watching}, which changes every time",
            "`tirx-bench launch` is for profilers; time without one",
        )


def _add_others(request: Request, trial: Trial, case: Case, loaded: Loaded, device: CudaDevice) -> dict[str, list[Case]]:
    """Add what the kernel is held against; the copies of those that have their own."""
    if request.action == "self-test":
        twins = [c.twin(device, c.seed) for c in trial.cases]
        trial.add_kernel(SAME_CODE, loaded.bind, twins, loaded.library)
        return {SAME_CODE: twins}
    if request.old is not None:
        old = load_version(request.old, request.workload, device)
        twins = [c.twin(device, c.seed) for c in trial.cases]
        before = verify(twins[0], lambda buffers: old.bind(buffers)(), device)
        if not before.passed:
            raise FailedError(f"{request.old_name} does not give what {case.kernel.name}'s reference does, so there is no ratio")
        trial.add_kernel(request.old_name, old.bind, twins, old.library)
        return {request.old_name: twins}
    for name, baseline in case.kernel.baselines.items():
        if request.vs is None or request.vs == name:
            trial.add_baseline(name, baseline)
    return {}


def _wrong(trial: Trial, owners: dict[str, list[Case]], timing: Timing) -> dict[str, Verification]:
    """The implementations whose outputs are not right any more. A race may show only under load."""
    wrong = {}
    timed = [i for i in trial.implementations if i.name in timing.implementations]
    for i in sorted(timed, key=lambda i: i.name in owners):  # baselines first: afterwards the inputs hold other values
        checked = trial.check_kernel(i, owners[i.name]) if i.name in owners else trial.check_baseline(i)
        if not checked.passed:
            wrong[i.name] = checked
    return wrong


def _without(timing: Timing, wrong: dict[str, Verification]) -> Timing:
    return replace(
        timing,
        samples=tuple(s for s in timing.samples if s.implementation not in wrong),
        untraced=tuple(s for s in timing.untraced if s.implementation not in wrong),
    )


def _floor_us(case: Case, device: CudaDevice) -> float | None:
    """The least time that the card's data sheet allows; None where the card or the work is not known."""
    card = card_of_device(device.name)
    if card is None or case.kernel.work is None:
        return None
    work = call(case.kernel.work, case.params)
    peak = card.peak(work.dtype)
    return peak.floor_us(work) if peak else None


def _peak(request: Request, case: Case, device: CudaDevice) -> Peak | None:
    if case.kernel.work is None:
        return None
    dtype = call(case.kernel.work, case.params).dtype
    kept = read_peak(Path(request.peaks), device.uuid, dtype)
    if kept is None:
        kept = measure_peak(device, dtype)
        write_peak(Path(request.peaks), device.uuid, dtype, kept)
    return kept
