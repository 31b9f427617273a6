"""Verify, once or deeply, and keep what failed as a case that can be tried again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tirx_bench.model import (
    CONDITIONS,
    DEEP,
    Deep,
    FailedError,
    FailingCase,
    Finding,
    Record,
    Verification,
    VerifyPolicy,
    WorkbenchError,
    Workload,
)
from tirx_bench.pipeline.child import GpuProcess
from tirx_bench.pipeline.plan import Job, Plan, Progress, need_device, plan, quiet
from tirx_bench.pipeline.request import Answer
from tirx_bench.pipeline.sanitizing import TOOLS, sanitize
from tirx_bench.pipeline.steps import launchable, merged, request_of
from tirx_bench.store import read_case, write_case
from tirx_bench.verify.shapes import boundary_workloads

SERIAL = CONDITIONS[-1]
AT_BOUNDARIES = VerifyPolicy(seeds=1, fills=DEEP.fills[:3])
ONE_BY_ONE = VerifyPolicy(seeds=1, conditions=(SERIAL,))


def verify_job(
    job: Job, progress: Progress = quiet, deep: bool = False, done: set[str] | None = None
) -> tuple[Record, Path | None]:
    """The record, and the case that failed, if one did. A fault or a hang is raised, and names its case.

    `deep`: more seeds, all kinds of inputs, disturbances, shapes at the tile boundaries, every launch waited for,
    baselines, and compute-sanitizer. Shapes whose labels are in `done` are not tried again, and it gets those that were.
    """
    job = replace(job, checks=DEEP) if deep else job
    planned = plan(job)
    need_device(planned, "verify")
    with GpuProcess(job.device, serial=SERIAL in job.checks.conditions) as process:
        record = launchable(planned, progress)
        record = merged(record, planned, _ask(record, planned, process, deep, progress))
        found = record.verification
        assert found is not None
        if not deep or not found.passed:
            return record, None if found.passed else _keep(planned, found)
        shapes, path = _at_boundaries(planned, process, progress, set() if done is None else done)
    serial, kept = _one_by_one(record, planned, progress)
    record = replace(record, deep=replace(shapes, serial=serial))
    return (_sanitized(record, planned, list(shapes.shapes)[-1], progress) if shapes.shapes else record), path or kept


def replay_job(path: Path, job: Job) -> Job:
    """`job` with everything that the case in the file says. Raises `UsageError` when it is no case."""
    case = read_case(path)
    params = ",".join(f"{name}={value}" for name, value in case.workload.params.items())
    tunables = tuple(f"{name}={value}" for name, value in case.tunables.items())
    return replace(job, spec=case.spec, workload=params, tunables=tunables, arch=case.arch, compiler=case.compiler,
                   flags=case.flags, policy=replace(job.policy, seed=case.seed), checks=case.checks)  # fmt: skip


def _ask(record: Record, planned: Plan, process: GpuProcess, baselines: bool, progress: Progress) -> Answer:
    """What the GPU process finds. A fault or a hang is kept as a case."""
    request = replace(request_of(record, planned, "verify"), baselines=baselines)
    try:
        return process.perform(request, planned.job.timeout_s, progress)
    except FailedError as error:
        path = write_case(_case(planned, planned.job.checks, planned.job.policy.seed, error.message), planned.job.out)
        error.hint = f"again: tirx-bench verify --case {path}" + (f"; {error.hint}" if error.hint else "")
        raise


def _keep(planned: Plan, found: Verification) -> Path:
    """The one launch that failed, as a case."""
    checks = VerifyPolicy(seeds=1, fills=(found.kind,), conditions=(found.condition,), repeats=planned.job.checks.repeats)
    return write_case(_case(planned, checks, found.seed, why(found)), planned.job.out)


def why(found: Verification) -> str:
    """Why a verification failed, in one line."""
    if found.accepted:
        return f"the tolerance accepts a known wrong output: {', '.join(found.accepted)}"
    bad = next(o for o in found.outputs if not o.passed)
    return f"{bad.name} {bad.problem or f'has {bad.wrong_elements} wrong elements'}"


def _case(planned: Plan, checks: VerifyPolicy, seed: int, found: str) -> FailingCase:
    job = planned.job
    return FailingCase(planned.entry.spec, planned.workload, planned.tunables, planned.arch, job.compiler, job.flags, seed,
                       checks, found)  # fmt: skip


# ----------------------------------------------------------------------------------------------- deeper


def _at_boundaries(planned: Plan, process: GpuProcess, progress: Progress, done: set[str]) -> tuple[Deep, Path | None]:
    """Shapes around the tile boundaries, all of them unless one faults or hangs, and the first case that failed."""
    verified: dict[str, Verification] = {}
    path = None
    shapes = boundary_workloads(planned.kernel, planned.workload, planned.tunables)
    for workload in (w for w in shapes if w.label not in done):
        shape = _of(planned, workload, AT_BOUNDARIES)
        label = workload.label
        done.add(label)
        try:
            progress(label)
            answer = _ask(launchable(shape, quiet), shape, process, False, quiet)
        except FailedError as error:
            return Deep(verified, {label: f"{error.message} ({error.hint})" if error.hint else error.message}), path
        assert answer.verification is not None
        verified[label] = answer.verification
        if not answer.verification.passed:
            path = path or _keep(shape, answer.verification)
    return Deep(verified), path


def _of(planned: Plan, workload: Workload, checks: VerifyPolicy) -> Plan:
    return replace(planned, workload=workload, job=replace(planned.job, checks=checks))


def _sanitized(record: Record, planned: Plan, label: str, progress: Progress) -> Record:
    """With what compute-sanitizer says about a launch on the shape, which is small: it watches every instruction."""
    shape = plan(replace(planned.job, workload=label))
    try:
        found, _ = sanitize(shape, launchable(shape, quiet), progress=progress)
    except WorkbenchError as error:
        return replace(record, left_out=(*record.left_out, f"compute-sanitizer: {error.message}"))
    return replace(record, sanitizer=found or (Finding("sanitizer", "note", f"{', '.join(TOOLS)} of {label} found nothing"),))


def _one_by_one(record: Record, planned: Plan, progress: Progress) -> tuple[Verification | None, Path | None]:
    """With every launch waited for, so that nothing overlaps: what depends on an overlap fails or hangs."""
    serial = _of(planned, planned.workload, ONE_BY_ONE)
    progress("launching one by one")
    with GpuProcess(planned.job.device, serial=True) as process:
        found = _ask(record, serial, process, True, progress).verification
    return found, None if found is None or found.passed else _keep(serial, found)
