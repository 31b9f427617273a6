"""compute-sanitizer around another program: one tool a run, and the report that it leaves."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tirx_bench.model import UsageError, unknown
from tirx_bench.tools import Completed, find_tool, need_tool, run

PROGRAM = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOUND = 77  # the status of a run that found errors
RECORDS = 1000  # kept of a run; at the default of 100, the threads of one block can hide every place but the first
# torch cuts its arrays out of large allocations, which hides an access that leaves one for the next.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
OPTIONS = {
    # 1 MiB behind every allocation: a row or a tile too far stays outside of the next one.
    # A CUDA call that fails afterwards is told by the program itself.
    "memcheck": ("--padding", str(1 << 20), "--report-api-errors", "no"),
}


@dataclass(frozen=True)
class Check:
    """One run of one tool: the whole command line, and the file that its report goes to."""

    tool: str
    report: Path
    argv: tuple[str, ...]

    @property
    def shell(self) -> str:
        return shlex.join(["env", *(f"{name}={value}" for name, value in ENVIRONMENT.items()), *self.argv])


def known_tools(names: Sequence[str]) -> tuple[str, ...]:
    """Each name once. Raises `UsageError` on one that is no tool of compute-sanitizer."""
    for name in names:
        if name not in TOOLS:
            raise unknown(f"tool of {PROGRAM}", name, TOOLS)
    return tuple(dict.fromkeys(names))


def need_sanitizer() -> None:
    need_tool(PROGRAM, "it comes with the CUDA toolkit, in the package cuda-sanitizer")


def check_of(tool: str, report: Path, functions: Sequence[str], program: Sequence[str]) -> Check:
    """How `tool` watches the device functions of these names in `program`."""
    # initcheck has to see every write, and what wrote the inputs are other functions.
    watched = () if tool == "initcheck" else functions
    # No --launch-count: it counts launches of functions that the filter leaves out (of 9 counted, 3 were of the named one).
    options = [part for name in watched for part in ("--kernel-name", f"kernel_name={name}")]
    argv = [
        str(find_tool(PROGRAM) or PROGRAM), "--tool", tool, "--target-processes", "all", "--error-exitcode", str(FOUND),
        "--show-backtrace", "device", "--print-limit", str(RECORDS), *OPTIONS.get(tool, ()), *options,
        "--xml", "--save", str(report).replace("%", "%%"), *program,  # %p would be a process id
    ]  # fmt: skip
    return Check(tool, report, tuple(argv))


def collect(check: Check, timeout_s: float) -> Completed:
    """Run it. Raises `TimedOutError` when it was killed, with all that it had started; then there may be no report."""
    try:
        check.report.parent.mkdir(parents=True, exist_ok=True)
        check.report.unlink(missing_ok=True)  # an earlier one must not be taken for this run's
    except OSError as error:
        raise UsageError(f"cannot write {check.report}: {error.strerror}", "choose another folder with --out") from error
    return run(check.argv, env=ENVIRONMENT, timeout_s=timeout_s)
