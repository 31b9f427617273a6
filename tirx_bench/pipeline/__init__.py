"""The one place that orders steps: find, lint, compile, then verify and time on the GPU, and record."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from tirx_bench.compare import noise_floor
from tirx_bench.compile import build_functions, load_tvm
from tirx_bench.lint import lint
from tirx_bench.model import Finding, Record, WorkbenchError
from tirx_bench.pipeline.child import GpuProcess
from tirx_bench.pipeline.plan import DEFAULT_OUT, Job, Plan, Progress, need_device, parse_workload, plan, quiet, why_not_here
from tirx_bench.pipeline.request import SAME_CODE, Action
from tirx_bench.pipeline.steps import compiled, launch_errors, launchable, merged, request_of
from tirx_bench.store import write_noise_floor, write_record

__all__ = [
    "DEFAULT_OUT",
    "Job",
    "bench_job",
    "compile_job",
    "gpu_job",
    "lint_job",
    "parse_workload",
    "plan",
    "run_job",
    "self_test_job",
]


def lint_job(job: Job) -> tuple[Finding, ...]:
    planned = plan(job)
    load_tvm()
    return lint(build_functions(planned.kernel, planned.params))


def compile_job(job: Job, progress: Progress = quiet) -> Record:
    """Lint and compile. The record holds no numerics and no times, and is not written."""
    return compiled(plan(job), progress)


def gpu_job(job: Job, action: Action, progress: Progress = quiet) -> Record:
    """Compile, then `action` on the GPU. Raises `MissingError` without a device for it, before it compiles."""
    planned = plan(job)
    need_device(planned, action)
    with GpuProcess(job.device) as process:
        record = launchable(planned, progress)
        return _with_answer(record, planned, action, process, progress)


def run_job(job: Job, progress: Progress = quiet) -> tuple[Record, Path]:
    """Everything that this machine can do, and the record's path. What it cannot is in `left_out` with the reason."""
    planned = plan(job)
    reason = why_not_here(planned.arch, job.device)
    with contextlib.nullcontext() if reason else GpuProcess(job.device) as process:
        record = _simulated(compiled(planned, progress), planned, progress)
        reason = reason or launch_errors(record.artifact) or _would_hang(record)
        if process and not reason:
            record = _with_answer(record, planned, "bench", process, progress)
        else:
            record = replace(record, left_out=(*record.left_out, f"numerics and timing: {reason}"))
    return record, write_record(record, job.out)


def _simulated(record: Record, planned: Plan, progress: Progress) -> Record:
    """With what the simulator finds on a small shape, where it can run the kernel."""
    from tirx_bench.pipeline.simulating import simulated

    if not planned.job.simulate:
        return record
    try:
        _, found = simulated(replace(planned, job=replace(planned.job, workload=None)), progress=progress)
    except WorkbenchError as error:  # it has no reference, say, or an instruction that is not modelled
        return replace(record, left_out=(*record.left_out, f"simulation: {error.message}"))
    return replace(record, simulation=found)


def _would_hang(record: Record) -> str:
    """Why nothing is launched: a deadlock that the simulator found."""
    stuck = [f for f in record.simulation.findings if f.rule == "deadlock"] if record.simulation else []
    return f"the simulator found a deadlock, {stuck[0].message}; --no-simulate launches it all the same" if stuck else ""


def bench_job(job: Job, progress: Progress = quiet) -> tuple[Record, Path]:
    record = gpu_job(job, "bench", progress)
    return record, write_record(record, job.out)


def self_test_job(job: Job, progress: Progress = quiet) -> tuple[Record, Path]:
    """Time the kernel against itself (A/A) and keep what that shows as this card's noise floor."""
    record = gpu_job(job, "self-test", progress)
    if record.timing:
        floor = noise_floor(record, SAME_CODE)
        write_noise_floor(job.out, str(record.environment["gpu_uuid"]), job.policy, floor)
        record = replace(record, noise_floor=floor)
    return record, write_record(record, job.out)


def _with_answer(record: Record, planned: Plan, action: Action, process: GpuProcess, progress: Progress) -> Record:
    answer = process.perform(request_of(record, planned, action), planned.job.timeout_s, progress)
    return merged(record, planned, answer)
