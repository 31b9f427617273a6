"""The command line: parse, call one function, emit. Loads neither tvm, torch, triton, scipy nor matplotlib."""

from __future__ import annotations

import argparse
import errno
import gc
import json
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tirx_bench import __version__
from tirx_bench.model import CACHES, TIMERS, FailedError, Record, TimingPolicy, UsageError, WorkbenchError, unknown
from tirx_bench.serial import to_plain

if TYPE_CHECKING:
    from tirx_bench.pipeline import Job

INTERRUPTED = 130
QUICK = TimingPolicy(warmup_ms=10, repeat_ms=30, rounds=3)


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest names on an unknown command and this program's way of failing."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # argparse hands a command's unknown options up to the program's parser, which does not know the near ones.
        parsed, extra = super().parse_known_args(args, namespace)
        if extra and extra[0].startswith("-"):
            raise unknown(f"option of {self.prog}", extra[0].partition("=")[0], self._option_string_actions)
        if extra:
            raise UsageError(f"{self.prog} has no use for {' '.join(extra)!r}", f"{self.prog} --help")
        return parsed, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown(action.dest, str(value), map(str, action.choices))


def parser() -> Parser:
    # No abbreviations: a new option must not change what an old script's means.
    main = Parser(prog="tirx-bench", description="A development workbench for TVM/TIRx GPU kernels.", allow_abbrev=False)
    main.add_argument("--version", action="version", version=__version__)
    commands = main.add_subparsers(dest="command", metavar="command", required=True, parser_class=Parser)
    for name, (_, text, options) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.add_argument("--json", action="store_true", help="the same values as JSON")
        for add in options:
            add(sub)
    return main


# --------------------------------------------------------------------------------------------- options


def _kernel(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("kernel", help="a name from `list`, a path to a .py file, or either with :name")
    sub.add_argument(
        "--workload",
        action="append",
        metavar="LABEL|m=..,n=..",
        help="a label, or parameters over the first workload's; again for more; `all`",
    )
    sub.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a tunable of the kernel, such as bn=128")
    sub.add_argument("--arch", help="such as sm_90a; default: the device's, else the kernel's first")
    _out(sub)


def _out(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--out", type=Path, help="the folder for artifacts and records (default build/tirx)")


def _compiling(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--compiler", default="nvcc", help="nvcc (default) or nvrtc")
    sub.add_argument("--flag", action="append", default=[], metavar="X", help="one more compiler option, as --flag=-G")
    sub.add_argument(
        "--card", help="the card whose data-sheet peaks give the floor (default: this one, else H200 SXM for sm_90a)"
    )
    sub.add_argument("--strict", action="store_true", help="warnings fail too")


def _gpu(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="kill the GPU process after so long without progress"
    )
    sub.add_argument("--seed", type=int, default=0, help="of the inputs")


def _timing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--timer", default="event", help=f"{', '.join(TIMERS)} (default event)")
    sub.add_argument("--cache", default="cold", help=f"{', '.join(CACHES)} (default cold)")
    sub.add_argument("--rounds", type=int, help="rounds of alternating order")
    sub.add_argument("--quick", action="store_true", help="an edit loop of seconds: fewer rounds and calls")


def _records(count: str) -> Callable[[argparse.ArgumentParser], None]:
    def add(sub: argparse.ArgumentParser) -> None:
        if count == "two":
            sub.add_argument("old", type=Path)
            sub.add_argument("new", type=Path)
        else:
            sub.add_argument("path", type=Path, nargs="?", help="a record or an artifact folder (default: the last record)")
            _out(sub)

    return add


def _doctor(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("about", nargs="?", metavar="command", help="exit 3 if this command cannot work here")


# -------------------------------------------------------------------------------------------- commands


def do_list(arguments: argparse.Namespace) -> int:
    from tirx_bench import catalog

    entries = catalog.entries()
    if arguments.json:
        return _emit([_entry_plain(e) for e in entries])
    from tirx_bench.render import listing

    rows = [["kernel", "architectures", "workloads"]]
    for e in entries:
        if e.kernel is None:
            rows.append([e.name, "cannot be loaded", e.error])
        else:
            rows.append([e.name, " ".join(e.kernel.archs), " ".join(w.label for w in e.kernel.workloads)])
    print(listing(rows))
    return 0


def _entry_plain(entry: Any) -> dict[str, Any]:
    kernel = entry.kernel
    detail = {"error": entry.error} if kernel is None else {
        "archs": kernel.archs, "workloads": {w.label: w.params for w in kernel.workloads}, "tunables": kernel.tunables,
        "constraints": {c.rule: c.reason for c in kernel.constraints}, "baselines": list(kernel.baselines),
    }  # fmt: skip
    return {"name": entry.name, "path": entry.path, **detail}


def do_doctor(arguments: argparse.Namespace) -> int:
    from tirx_bench import doctor
    from tirx_bench.render import listing

    rows = doctor.examine()
    works = {command: [row.name for row in doctor.missing(command, rows)] for command in doctor.NEEDS}
    if arguments.about:
        doctor.require(arguments.about, rows)
    if arguments.json:
        return _emit({"rows": rows, "missing": works})
    print(listing([[row.name, "found" if row.found else "-", row.version, row.detail] for row in rows]))
    print(f"\nworks here: {', '.join(c for c, lacking in works.items() if not lacking)}")
    for command, lacking in works.items():
        if lacking:
            print(f"does not: {command} ({', '.join(lacking)} missing)")
    return 0


def do_lint(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline
    from tirx_bench.render import findings

    found = [f for job in _jobs(arguments) for f in pipeline.lint_job(job)]
    if arguments.json:
        _emit(found)
    else:
        print(findings(found) or "no findings")
    bad = ("error", "warning") if arguments.strict else ("error",)
    return int(any(f.severity in bad for f in found))


def _strict(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--strict", action="store_true", help="warnings fail too")


def do_compile(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, lambda job, progress: (pipeline.compile_job(job, progress), None))


def do_verify(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, lambda job, progress: (pipeline.gpu_job(job, "verify", progress), None))


def do_launch(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, lambda job, progress: (pipeline.gpu_job(job, "launch", progress), None))


def do_bench(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, pipeline.bench_job)


def do_run(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, pipeline.run_job)


def do_show(arguments: argparse.Namespace) -> int:
    from tirx_bench import store
    from tirx_bench.compile import read
    from tirx_bench.pipeline import DEFAULT_OUT
    from tirx_bench.render import artifact_page, page

    path = arguments.path
    if path is None:
        out = arguments.out or DEFAULT_OUT
        kept = store.records(out)
        if not kept:
            raise UsageError(f"there is no record under {out}/records", "`tirx-bench run KERNEL` writes one")
        path = kept[-1]
    if path.is_dir():
        artifact = read(path)
        return _emit(artifact) if arguments.json else _print(artifact_page(artifact))
    record = store.read_record(path)
    return _emit(record) if arguments.json else _print(page(record) + f"\nrecord       {path}")


def do_compare(arguments: argparse.Namespace) -> int:
    from tirx_bench import store
    from tirx_bench.compare import compare
    from tirx_bench.render import comparison

    found = compare(store.read_record(arguments.old), store.read_record(arguments.new))
    if arguments.json:
        _emit(found)
    else:
        print(comparison(found))
    return {"slower": 1, "inconclusive": 4}.get(found.verdict, 0)


def _jobs(arguments: argparse.Namespace) -> list[Job]:
    """One job per workload that was asked for."""
    from tirx_bench.catalog import find
    from tirx_bench.pipeline import DEFAULT_OUT, Job

    labels: list[str | None] = arguments.workload or [None]
    if labels == ["all"]:
        kernel = find(arguments.kernel).kernel
        labels = [w.label for w in kernel.workloads] if kernel else []
    job = Job(
        spec=arguments.kernel,
        arch=arguments.arch,
        tunables=tuple(arguments.param),
        out=arguments.out or DEFAULT_OUT,
        policy=_policy(arguments),
        compiler=getattr(arguments, "compiler", "nvcc"),
        flags=tuple(getattr(arguments, "flag", ())),
        card=getattr(arguments, "card", None),
        timeout_s=getattr(arguments, "timeout", 60.0),
    )
    return [replace(job, workload=label) for label in labels]


def _policy(arguments: argparse.Namespace) -> TimingPolicy:
    policy = QUICK if getattr(arguments, "quick", False) else TimingPolicy()
    changes = {
        name: value for name in ("timer", "cache", "rounds", "seed") if (value := getattr(arguments, name, None)) is not None
    }
    return replace(policy, **changes)


def _each(arguments: argparse.Namespace, act: Callable[[Job, Callable[[str], None]], tuple[Record, Path | None]]) -> int:
    """Do a job per workload. A workload that fails does not stop the next; the exit code is the worst."""
    from tirx_bench.render import page

    code, plain = 0, []
    jobs = _jobs(arguments)
    for number, job in enumerate(jobs):
        try:
            with _Progress(f"{job.spec} {job.workload or ''}".strip()) as progress:
                record, path = act(job, progress)
        except WorkbenchError as error:
            if len(jobs) == 1:
                raise
            code = max(code, error.exit_code)
            plain.append(_error_plain(error))
            _report(error)
            continue
        code = max(code, int(record.failed(getattr(arguments, "strict", False))))
        if arguments.json:
            plain.append({**to_plain(record), "path": str(path) if path else None})
        else:
            print(("\n" if number else "") + page(record) + (f"\nrecord       {path}" if path else ""))
    if arguments.json:
        _emit(plain if len(jobs) > 1 else plain[0])
    return code


class _Progress:
    """The current step on one line of a terminal; nothing in a pipe."""

    def __init__(self, name: str):
        self.name = name
        self.shown = sys.stderr.isatty()

    def __enter__(self) -> Callable[[str], None]:
        return self._show

    def _show(self, step: str) -> None:
        if self.shown:
            print(f"\r\x1b[K{self.name}: {step}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _print(text: str) -> int:
    print(text)
    return 0


def _emit(value: Any) -> int:
    print(json.dumps(to_plain(value), indent=1))
    return 0


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, tuple[Callable[[argparse.ArgumentParser], None], ...]]] = {
    "list": (do_list, "the reference kernels and their workloads", ()),
    "doctor": (do_doctor, "what is installed and which commands work", (_doctor,)),
    "lint": (do_lint, "check a kernel's IKET annotations", (_kernel, _strict)),
    "compile": (do_compile, "lint and compile; needs no GPU", (_kernel, _compiling)),
    "verify": (do_verify, "compare every output with an FP32 reference on the GPU", (_kernel, _compiling, _gpu)),
    "bench": (do_bench, "verify, then time against the baselines on the GPU", (_kernel, _compiling, _gpu, _timing)),
    "run": (do_run, "everything that this machine can do, and a record", (_kernel, _compiling, _gpu, _timing)),
    "launch": (
        do_launch,
        "one operation between cudaProfilerStart and Stop, for a profiler",
        (_kernel, _compiling, _gpu),
    ),
    "show": (do_show, "a record or an artifact again", (_records("one"),)),
    "compare": (do_compare, "two records: faster, slower, same or inconclusive", (_records("two"),)),
}


# ---------------------------------------------------------------------------------------------- ending


def main(argv: Sequence[str] | None = None) -> int:
    as_json = "--json" in (sys.argv[1:] if argv is None else argv)

    def work() -> int:
        arguments = parser().parse_args(argv)
        return COMMANDS[arguments.command][0](arguments)

    return guarded(work, as_json)


def guarded(work: Callable[[], int], as_json: bool) -> int:
    """Run `work` and turn what it raises into one message and the exit code. Anything unforeseen is a bug of ours."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that half-written folders and the GPU process do not stay
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _terminated)
    try:
        try:
            code = work()
        except WorkbenchError as error:
            if as_json:
                print(json.dumps(_error_plain(error), indent=1))
            _report(error)
            code = error.exit_code
        if sys.stdout is not None:  # as under `>&-`
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader went away, as `head` does
        sys.stdout = None
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            sys.stdout = None  # it may hold text that cannot be written
            full = UsageError(f"cannot write {error.filename or 'the output'}: {error.strerror}", "make room there")
            _report(full)
            return full.exit_code
        traceback.print_exc()
        print("\nthis is a bug of tirx-bench, not of your kernel; please report it with the lines above", file=sys.stderr)
        return FailedError.exit_code


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _error_plain(error: WorkbenchError) -> dict[str, Any]:
    return {
        "error": {
            "kind": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
    }


def _report(error: WorkbenchError) -> None:
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"next: {error.hint}", file=sys.stderr)


def console() -> NoReturn:
    gc.disable()  # a command is short, and collecting costs it 0.2 s while TVM loads
    sys.exit(main())
