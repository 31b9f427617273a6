"""Timing on the GPU: which implementations, over which copies, and whether they were still right afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from tirx_bench.device.cuda import CudaDevice
from tirx_bench.hardware import card_of_device
from tirx_bench.model import FailedError, Peak, Timing, UsageError, Verification, VerifyPolicy, call
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
    _add_others(request, trial, case, loaded, device)
    peak = None
    if request.action == "bench":
        step("measuring the card's peak")
        peak = _peak(request, case, device)
    measured = measure(
        trial.calls, trial.policy, device, verification,
        before=trial.before, started=trial.poison, floor_us=_floor_us(case, device), progress=step,
    )  # fmt: skip
    timing, statuses = measured.timing, measured.statuses
    refused = [f"timing of {s.implementation}: {s.name}: {s.evidence}" for s in measured.refused]
    if timing is None:
        return Answer(device.describe(), verification, measured=peak, left_out=tuple(refused), statuses=statuses)
    step("checking the outputs of the timed calls")
    wrong = _wrong(trial, timing)
    if case.kernel.name in wrong:
        found, when = wrong[case.kernel.name]
        return Answer(device.describe(), found, left_out=(f"timing: the outputs were wrong {when}",), statuses=statuses)
    out = {name: f"its outputs were wrong {when}" for name, (_, when) in wrong.items()} | _remembering(trial, timing, wrong)
    left_out = [*trial.left_out, *refused, *(f"{name}: {why}" for name, why in out.items())]
    timing = _without(timing, out)
    kept = tuple(s for s in statuses if s.implementation not in out)
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


def _add_others(request: Request, trial: Trial, case: Case, loaded: Loaded, device: CudaDevice) -> None:
    """Add what the kernel is held against; other code gets memory of its own."""
    if request.action == "self-test":
        trial.add_kernel(SAME_CODE, loaded.bind, [c.twin(device, c.seed) for c in trial.cases], loaded.library)
    elif request.old is not None:
        old = load_version(request.old, request.workload, device)
        twins = [c.twin(device, c.seed) for c in trial.cases]
        before = verify(twins[0], lambda buffers: old.bind(buffers)(), device, VerifyPolicy(seeds=1))
        if not before.passed:
            raise FailedError(f"{request.old_name} does not give what {case.kernel.name}'s reference does, so there is no ratio")
        trial.add_kernel(request.old_name, old.bind, twins, old.library)
    else:
        for name, baseline in case.kernel.baselines.items():
            if request.vs is None or request.vs == name:
                trial.add_baseline(name, baseline)


def _wrong(trial: Trial, timing: Timing) -> dict[str, tuple[Verification, str]]:
    """The implementations whose outputs are not right any more, and when. A race may show only under load."""
    wrong = {}
    timed = [i for i in trial.implementations if i.name in timing.implementations]
    for i in timed:  # before the inputs get other values; arguments in place have been reset since
        if not i.cases[0].kernel.inplace and not (left := trial.left(i)).passed:
            wrong[i.name] = left, "as the timed calls left them"
    for i in timed:
        if i.name not in wrong and not (checked := trial.check(i)).passed:
            wrong[i.name] = checked, "after the timed calls, on values that it had not seen"
    return wrong


def _remembering(trial: Trial, timing: Timing, wrong: Collection[str]) -> dict[str, str]:
    """What the kernel is held against and does not compute again what it has computed before, and how that shows."""
    others = [i for i in trial.implementations[1:] if i.name in timing.implementations and i.name not in wrong]
    return {i.name: f"it does other work on values that it has not seen: {why}" for i in others if (why := trial.other_work(i))}


def _without(timing: Timing, wrong: Collection[str]) -> Timing:
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
