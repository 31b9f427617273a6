"""`simulate`: a kernel on the CPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tirx_bench.cli.commands import attempts, jobs_of
from tirx_bench.cli.emit import emit, error_plain
from tirx_bench.model import Simulation, UsageError, WorkbenchError, failing
from tirx_bench.serial import to_plain

if TYPE_CHECKING:
    from tirx_bench.pipeline import Job
    from tirx_bench.pipeline.simulating import Asked


def do_simulate(arguments: argparse.Namespace) -> int:
    """A workload that fails does not stop the next; the exit code is the worst."""
    from tirx_bench.pipeline.simulating import simulate_job
    from tirx_bench.render import simulation_page

    code, plain, jobs, asked = 0, [], jobs_of(arguments), _asked(arguments)

    def act(job: Job, progress: Callable[[str], None]) -> tuple[str, Simulation]:
        return simulate_job(job, asked, progress)

    for number, done in enumerate(attempts(jobs, act)):
        if isinstance(done, WorkbenchError):
            code = max(code, done.exit_code)
            plain.append(error_plain(done))
            continue
        kernel, found = done
        code = max(code, int(not found.passed or failing(found.findings, arguments.strict)))
        plain.append({"kernel": kernel, **to_plain(found), "passed": found.passed, "findings": to_plain(found.findings)})
        if not arguments.json:
            print(("\n" if number else "") + simulation_page(kernel, found, arguments.explain))
    if arguments.json:
        emit(plain if len(jobs) > 1 else plain[0])
    return code


def _asked(arguments: argparse.Namespace) -> Asked:
    from tirx_bench.pipeline.simulating import Asked

    asked = Asked(strict=arguments.strict_fences)
    if arguments.schedules is not None:
        if arguments.schedules < 0:
            raise UsageError(f"{arguments.schedules} schedules are none", "--schedules 0 or more")
        asked = replace(asked, seeds=arguments.schedules)
    if arguments.replay is not None:
        try:
            choices = tuple(int(number) for number in arguments.replay.split(","))
        except ValueError:
            raise UsageError(f"{arguments.replay!r} are no choices", "numbers with commas between them: --replay 0,2,1") from None
        asked = replace(asked, choices=choices)
    return asked
