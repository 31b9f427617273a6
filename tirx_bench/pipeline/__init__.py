"""The one place that orders steps: find, lint, compile, then verify and time on the GPU, and record."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tirx_bench.catalog import Entry, find
from tirx_bench.compare import noise_floor
from tirx_bench.compile import build_functions, check_request, compile_functions, load_tvm
from tirx_bench.device import absent, present_arch
from tirx_bench.hardware import Card, capability, card_of_device, find_card
from tirx_bench.lint import lint
from tirx_bench.model import (
    Artifact,
    FailedError,
    Finding,
    Kernel,
    MissingError,
    Params,
    Peak,
    Record,
    TimingPolicy,
    UsageError,
    Value,
    Work,
    Workload,
    call,
    unknown,
)
from tirx_bench.pipeline.child import GpuProcess
from tirx_bench.pipeline.request import SAME_CODE, Action, Answer, Request
from tirx_bench.sass import artifact_mix
from tirx_bench.store import read_noise_floor, write_noise_floor, write_record
from tirx_bench.tools.environment import command_line, repository, software

Progress = Callable[[str], None]
DEFAULT_OUT = Path("build/tirx")
LONGEST_TIMEOUT_S = 1e6  # select takes no infinite one


def _quiet(text: str) -> None:
    del text


@dataclass(frozen=True)
class Job:
    """What a person asked for. `workload` is a label or ``m=..,n=..``; `tunables` are the texts of --param."""

    spec: str
    workload: str | None = None
    arch: str | None = None
    tunables: tuple[str, ...] = ()
    compiler: str = "nvcc"
    flags: tuple[str, ...] = ()
    out: Path = DEFAULT_OUT
    card: str | None = None
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    timeout_s: float = 60.0
    vs: str | None = None  # a baseline that the verdict is about


@dataclass(frozen=True)
class Plan:
    """A job whose names are resolved and whose request is accepted."""

    job: Job
    entry: Entry
    kernel: Kernel
    workload: Workload
    tunables: dict[str, Value]
    arch: str

    @property
    def params(self) -> Params:
        return self.kernel.params(self.workload, self.tunables)


def plan(job: Job) -> Plan:
    """Resolve the names of a job. Raises `UsageError` for anything that can be refused before TVM is loaded."""
    entry = find(job.spec)
    kernel = entry.kernel
    assert kernel is not None  # find raises otherwise
    workload = parse_workload(kernel, job.workload)
    tunables = _parse_pairs(job.tunables, kernel.tunables, f"tunable of {kernel.name}")
    arch = job.arch or _default_arch(kernel)
    check_request(kernel, workload, tunables, arch, job.compiler)
    find_card(job.card, arch)
    if job.vs is not None and job.vs not in kernel.baselines:
        raise unknown(f"baseline of {kernel.name}", job.vs, kernel.baselines)
    if not 0 < job.timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(f"a timeout of {job.timeout_s:g} s is not one", f"between 0 and {LONGEST_TIMEOUT_S:g} s")
    return Plan(job, entry, kernel, workload, tunables, arch)


def parse_workload(kernel: Kernel, text: str | None) -> Workload:
    """A label of the kernel, or ``m=64,k=128`` over the first workload's parameters; None is the first workload."""
    if text is None:
        return kernel.workloads[0]
    if "=" not in text:
        return kernel.find_workload(text)
    given = _parse_pairs(tuple(text.split(",")), kernel.workloads[0].params, f"parameter of {kernel.name}")
    params = {**kernel.workloads[0].params, **given}
    return Workload(",".join(f"{k}={v}" for k, v in params.items()), params)


def _parse_pairs(pairs: tuple[str, ...], known: Params, kind: str) -> dict[str, Value]:
    parsed: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.strip().partition("=")
        if not equals:
            raise UsageError(f"{pair!r} is not NAME=VALUE")
        if name not in known:
            raise unknown(kind, name, known)
        parsed[name] = _parse_value(name, text, type(known[name]))
    return parsed


def _parse_value(name: str, text: str, kind: type[Any]) -> Value:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"
    try:
        value: Value = kind(text)
    except ValueError as error:
        raise UsageError(f"{name} is a {kind.__name__}, not {text!r}") from error
    return value


def _default_arch(kernel: Kernel) -> str:
    """The kernel's architecture for the device here, else its first."""
    here = present_arch()
    return next((a for a in kernel.archs if here and capability(a) == here), kernel.archs[0])


# ----------------------------------------------------------------------------------------------- steps


def lint_job(job: Job) -> tuple[Finding, ...]:
    planned = plan(job)
    load_tvm()
    return lint(build_functions(planned.kernel, planned.params))


def compile_job(job: Job, progress: Progress = _quiet) -> Record:
    """Lint and compile. The record holds no numerics and no times, and is not written."""
    return _compiled(plan(job), progress)


def _compiled(planned: Plan, progress: Progress) -> Record:
    kernel, job = planned.kernel, planned.job
    progress("building")
    load_tvm()
    functions = build_functions(kernel, planned.params)
    progress("linting")
    findings = lint(functions)
    progress("compiling")
    artifact = compile_functions(
        functions, kernel, planned.workload, arch=planned.arch, out=job.out, tunables=planned.tunables,
        compiler=job.compiler, flags=job.flags,
    )  # fmt: skip
    work = call(kernel.work, planned.params) if kernel.work else None
    return Record(
        kernel=kernel.name,
        workload=planned.workload,
        command=command_line(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        work=work,
        theoretical=_data_sheet(find_card(job.card, planned.arch), work),
        artifact=artifact,
        instructions=artifact_mix(artifact),
        environment={**software(), **repository(Path(planned.entry.path))},
        lint=findings,
    )


def _data_sheet(card: Card | None, work: Work | None) -> Peak | None:
    return card.peak(work.dtype) if card and work else None


def why_not_here(arch: str) -> str:
    """Why code for `arch` cannot be launched on this machine; empty if it can."""
    if reason := absent():
        return reason
    here = present_arch()
    return "" if here == capability(arch) else f"this machine's device is sm_{here} and the kernel was compiled for {arch}"


def _errors(artifact: Artifact) -> str:
    """The findings that would fail a launch or make it wait for ever."""
    return "; ".join(f.message for f in artifact.findings if f.severity == "error")


def gpu_job(job: Job, action: Action, progress: Progress = _quiet) -> Record:
    """Compile, then `action` on the GPU. Raises `MissingError` without a device for it, before it compiles."""
    planned = plan(job)
    if reason := why_not_here(planned.arch):
        raise MissingError(f"{action} needs a GPU and {reason}", "`tirx-bench run` does everything that needs none")
    with GpuProcess() as process:
        record = _compiled(planned, progress)
        if errors := _errors(record.artifact):
            raise FailedError(f"{planned.kernel.name} cannot be launched: {errors}")
        return _with_answer(record, planned, action, process, progress)


def run_job(job: Job, progress: Progress = _quiet) -> tuple[Record, Path]:
    """Everything that this machine can do, and the record's path. What it cannot is in `left_out` with the reason."""
    planned = plan(job)
    reason = why_not_here(planned.arch)
    with contextlib.nullcontext() if reason else GpuProcess() as process:
        record = _compiled(planned, progress)
        reason = reason or _errors(record.artifact)
        if process and not reason:
            record = _with_answer(record, planned, "bench", process, progress)
        else:
            record = replace(record, left_out=(f"numerics and timing: {reason}",))
    return record, write_record(record, job.out)


def bench_job(job: Job, progress: Progress = _quiet) -> tuple[Record, Path]:
    record = gpu_job(job, "bench", progress)
    return record, write_record(record, job.out)


def self_test_job(job: Job, progress: Progress = _quiet) -> tuple[Record, Path]:
    """Time the kernel against itself (A/A) and keep what that shows as this card's noise floor."""
    record = gpu_job(job, "self-test", progress)
    if record.timing:
        floor = noise_floor(record.timing, record.kernel, SAME_CODE)
        write_noise_floor(job.out, str(record.environment["gpu_uuid"]), job.policy, floor)
        record = replace(record, noise_floor=floor)
    return record, write_record(record, job.out)


def _with_answer(record: Record, planned: Plan, action: Action, process: GpuProcess, progress: Progress) -> Record:
    answer = process.perform(_request(record, planned, action), planned.job.timeout_s, progress)
    return _merge(record, planned, answer)


def _request(record: Record, planned: Plan, action: Action) -> Request:
    return Request(
        action=action, spec=planned.entry.spec, workload=planned.workload, tunables=planned.tunables,
        artifact=record.artifact.folder, policy=planned.job.policy, peaks=str(planned.job.out.absolute()),
    )  # fmt: skip


def _merge(record: Record, planned: Plan, answer: Answer) -> Record:
    card = card_of_device(str(answer.environment.get("gpu")))
    theoretical = _data_sheet(card, record.work) if card and not planned.job.card else record.theoretical
    left_out = list(answer.left_out)
    if answer.verification and not answer.verification.passed and not answer.timing:
        left_out = left_out or ["timing: nothing is timed that did not pass verification"]
    return replace(
        record,
        environment={**record.environment, **answer.environment},
        verification=answer.verification,
        timing=answer.timing,
        measured=answer.measured,
        theoretical=theoretical,
        left_out=tuple(left_out),
        noise_floor=read_noise_floor(planned.job.out, str(answer.environment.get("gpu_uuid")), planned.job.policy),
    )
