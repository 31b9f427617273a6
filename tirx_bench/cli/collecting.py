"""`collect`: a checker on a launch of a kernel, and what its reports say."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tirx_bench.cli.commands import attempts, jobs_of
from tirx_bench.cli.emit import emit, error_plain
from tirx_bench.model import WorkbenchError, failing
from tirx_bench.serial import to_plain

if TYPE_CHECKING:
    from tirx_bench.pipeline import Job
    from tirx_bench.pipeline.sanitizing import Sanitized


def do_collect(arguments: argparse.Namespace) -> int:
    """A workload that fails does not stop the next; the exit code is the worst."""
    from tirx_bench.pipeline.sanitizing import TOOLS, sanitizer_job

    if arguments.dry_run:
        return _show_commands(arguments)
    code, plain, jobs = 0, [], jobs_of(arguments)

    def act(job: Job, progress: Callable[[str], None]) -> Sanitized:
        return sanitizer_job(job, arguments.tool or TOOLS, progress)

    for number, found in enumerate(attempts(jobs, act)):
        if isinstance(found, WorkbenchError):
            code = max(code, found.exit_code)
            plain.append(error_plain(found))
            continue
        code = max(code, int(failing(found.findings, arguments.strict)))
        plain.append(to_plain(found))
        if not arguments.json:
            print(("\n" if number else "") + _page(found))
    if arguments.json:
        emit(plain if len(jobs) > 1 else plain[0])
    return code


def _page(found: Sanitized) -> str:
    from tirx_bench.render import findings

    head = f"{found.kernel} {found.workload}: {', '.join(found.tools)}"
    rows = [f"report       {path}" for path in found.reports] + [f"artifact     {found.artifact}"]
    return "\n".join([head, "", findings(found.findings) or "no findings", "", *rows])


def _show_commands(arguments: argparse.Namespace) -> int:
    from tirx_bench.pipeline.sanitizing import ENVIRONMENT, TOOLS, sanitizer_checks

    checks = [check for job in jobs_of(arguments) for check in sanitizer_checks(job, arguments.tool or TOOLS)]
    if arguments.json:
        plain: list[dict[str, Any]] = [
            {"tool": check.tool, "environment": ENVIRONMENT, "argv": check.argv, "report": str(check.report)} for check in checks
        ]
        return emit(plain)
    print("\n".join(check.shell for check in checks))
    return 0
