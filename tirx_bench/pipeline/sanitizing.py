"""compute-sanitizer on `tirx-bench launch`, one run for each of its tools, and what they found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirx_bench.collect.sanitizer import (
    ENVIRONMENT,
    FOUND,
    RECORDS,
    TOOLS,
    Check,
    check_of,
    collect,
    known_tools,
    need_sanitizer,
)
from tirx_bench.model import FailedError, Finding, Record, failing
from tirx_bench.pipeline.plan import Job, Plan, Progress, need_device, plan, quiet
from tirx_bench.pipeline.steps import compiled, launchable
from tirx_bench.reports.sanitizer import findings, read
from tirx_bench.store import file_label
from tirx_bench.tools import Completed, TimedOutError

__all__ = ["ENVIRONMENT", "TIMEOUT_S", "TOOLS", "Sanitized", "sanitize", "sanitizer_checks", "sanitizer_job"]

TIMEOUT_S = 300.0
START_S = 60.0  # torch, TVM and the tool itself, before the kernel's own limit counts


@dataclass(frozen=True)
class Sanitized:
    """What the tools found out about one workload. `reports` are the files, of those that left one."""

    kernel: str
    workload: str
    artifact: str
    tools: tuple[str, ...]
    findings: tuple[Finding, ...]
    reports: tuple[str, ...]


def sanitizer_job(job: Job, tools: Sequence[str] = TOOLS, progress: Progress = quiet) -> Sanitized:
    """Compile, then run every tool. `job.timeout_s` is for each. Raises as `sanitize` does, and `MissingError` without a GPU."""
    planned, tools = plan(job), known_tools(tools)
    need_device(planned, "collect")
    need_sanitizer()
    record = launchable(planned, progress)
    found, reports = sanitize(planned, record, tools, progress, job.timeout_s)
    folder = record.artifact.folder
    return Sanitized(record.kernel, planned.workload.label, folder, tuple(tools), found, tuple(map(str, reports)))


def sanitizer_checks(job: Job, tools: Sequence[str] = TOOLS, progress: Progress = quiet) -> tuple[Check, ...]:
    """What `sanitizer_job` would run. It compiles, because the names of the functions are part of it, and needs no GPU."""
    planned, tools = plan(job), known_tools(tools)
    return _checks(planned, compiled(planned, progress), tools, job.timeout_s)


def sanitize(
    planned: Plan,
    record: Record,
    tools: Sequence[str] = TOOLS,
    progress: Progress = quiet,
    timeout_s: float = TIMEOUT_S,
) -> tuple[tuple[Finding, ...], tuple[Path, ...]]:
    """What the tools find in a launch of the compiled `record`, and their reports.

    A tool that does not end in time is an error-level finding. Raises `MissingError` without compute-sanitizer, and
    `FailedError` when a tool gives no answer, unless one before it has found errors, which may be why.
    """
    need_sanitizer()
    checks = _checks(planned, record, tools, timeout_s)
    found: list[Finding] = []
    for number, check in enumerate(checks, 1):
        progress(f"{check.tool} ({number} of {len(checks)})")
        try:
            found += _found(check, record, timeout_s)
        except FailedError as error:
            if not failing(found):
                raise
            found.append(Finding("sanitizer-failed", "warning", error.message, witness=(error.hint,) if error.hint else ()))
    return tuple(found), tuple(check.report for check in checks if check.report.exists())


def _checks(planned: Plan, record: Record, tools: Sequence[str], timeout_s: float) -> tuple[Check, ...]:
    artifact = record.artifact
    name = f"{file_label(artifact.kernel)}-{Path(artifact.folder).name}"
    folder = planned.job.out.absolute() / "reports"
    functions = [resources.function for resources in artifact.resources]
    program = _launch(planned, timeout_s)
    return tuple(check_of(tool, folder / f"{name}-{tool}.xml", functions, program) for tool in tools)


def _launch(planned: Plan, timeout_s: float) -> list[str]:
    """`tirx-bench launch` of the same code on the same inputs."""
    job = planned.job
    return [
        sys.executable, "-m", "tirx_bench", "launch", planned.entry.spec, "--workload", planned.workload.label,
        *(part for name, value in planned.tunables.items() for part in ("--param", f"{name}={value}")),
        "--arch", planned.arch, "--compiler", job.compiler, *(f"--flag={flag}" for flag in job.flags),
        "--seed", str(job.policy.seed), "--device", str(job.device), "--timeout", f"{timeout_s:g}",
        "--out", str(job.out.absolute()),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------- one tool


def _found(check: Check, record: Record, timeout_s: float) -> tuple[Finding, ...]:
    try:
        done = collect(check, timeout_s + START_S)
    except TimedOutError:
        return (_timed_out(check, timeout_s),)
    said = _error(done)
    failed = bool(said) or done.returncode not in (FOUND, int(failing(record.lint)))  # `launch` exits 1 for a lint error
    try:
        faults = read(check.report)
    except FailedError:
        if not failed:
            raise
        faults = ()
    functions = [resources.function for resources in record.artifact.resources]
    found = findings(faults, check.tool, functions, Path(record.artifact.folder, "kernel.cu"))
    if f"within {timeout_s:g} s and was killed" in said:
        return (*found, _timed_out(check, timeout_s))
    if not found and (failed or (done.returncode == FOUND and not faults)):
        raise _no_answer(check, done, said)
    return (*found, _at_the_limit(check)) if len(faults) >= RECORDS else found


def _error(done: Completed) -> str:
    """The error that `launch` ended with, and its next step; empty if it did not fail."""
    _, marker, said = ("\n" + done.stderr).rpartition("\nerror: ")
    return said.strip() if marker else ""


def _timed_out(check: Check, timeout_s: float) -> Finding:
    message = f"{check.tool} did not end within {timeout_s:g} s: the kernel hangs, or it is too much work for this tool"
    return Finding("sanitizer-timeout", "error", message, witness=("a smaller --workload may end; --timeout raises the limit",))


def _no_answer(check: Check, done: Completed, said: str) -> FailedError:
    if said:
        message, _, hint = said.partition("\nnext: ")
        return FailedError(f"{check.tool} gave no answer, because the launch failed: {message}", hint)
    why = f"it ended with status {done.returncode} and {check.report} names no error of the kernel"
    tail = "\n".join(done.output.strip().splitlines()[-12:])
    hint = "`tirx-bench launch` with the same options says whether it is the tool"
    return FailedError(f"{check.tool} gave no answer: {why}; its last lines:\n{tail or '(none)'}", hint)


def _at_the_limit(check: Check) -> Finding:
    return Finding(check.tool, "note", f"the report ends at its limit of {RECORDS} records; there may be more behind it")
