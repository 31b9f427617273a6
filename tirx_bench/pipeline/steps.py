"""The steps between a plan and a record: compile here, ask the GPU process, put the answer in."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from tirx_bench.compile import build_functions, compile_functions, load_tvm
from tirx_bench.hardware import Card, card_of_device, find_card
from tirx_bench.lint import lint
from tirx_bench.model import Artifact, FailedError, Peak, Record, Work, call
from tirx_bench.pipeline.plan import Plan, Progress
from tirx_bench.pipeline.request import Action, Answer, Request, Version
from tirx_bench.sass import artifact_mix
from tirx_bench.store import read_noise_floor
from tirx_bench.tools.environment import command_line, repository, software


def compiled(planned: Plan, progress: Progress) -> Record:
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


def launch_errors(artifact: Artifact) -> str:
    """The findings that would fail a launch or make it wait for ever."""
    return "; ".join(f.message for f in artifact.findings if f.severity == "error")


def launchable(planned: Plan, progress: Progress) -> Record:
    """Compiled. Raises `FailedError` when a launch of it would fail or never return."""
    record = compiled(planned, progress)
    if errors := launch_errors(record.artifact):
        raise FailedError(f"{planned.job.spec} cannot be launched: {errors}")
    return record


def request_of(record: Record, planned: Plan, action: Action) -> Request:
    return Request(
        action=action, version=version_of(record, planned), workload=planned.workload, policy=planned.job.policy,
        peaks=str(planned.job.out.absolute()), vs=planned.job.vs, checks=planned.job.checks,
    )  # fmt: skip


def version_of(record: Record, planned: Plan) -> Version:
    return Version(planned.entry.spec, planned.tunables, record.artifact.folder)


def merged(record: Record, planned: Plan, answer: Answer) -> Record:
    card = card_of_device(str(answer.environment.get("gpu")))
    theoretical = _data_sheet(card, record.work) if card and not planned.job.card else record.theoretical
    left_out = [*record.left_out, *answer.left_out]
    if answer.verification and not answer.verification.passed and not answer.timing:
        left_out = left_out if answer.left_out else [*left_out, "timing: nothing is timed that did not pass verification"]
    return replace(
        record,
        environment={**record.environment, **answer.environment},
        verification=answer.verification,
        timing=answer.timing,
        measured=answer.measured,
        theoretical=theoretical,
        left_out=tuple(left_out),
        statuses=answer.statuses,
        operations=answer.operations,
        noise_floor=read_noise_floor(planned.job.out, str(answer.environment.get("gpu_uuid")), planned.job.policy),
    )
