"""The commands: each calls one function and emits what it gives. Returns the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tirx_bench.cli.emit import Progress, emit, error_plain, print_text, report
from tirx_bench.model import NothingRanError, Record, TimingPolicy, UsageError, VerifyPolicy, WorkbenchError, failing, unknown
from tirx_bench.serial import to_plain

if TYPE_CHECKING:
    from tirx_bench.compare import Comparison
    from tirx_bench.pipeline import Job

T = TypeVar("T")
VERDICT_CODES = {"slower": 1, "inconclusive": 4}
QUICK = TimingPolicy(warmup_ms=10, settle_s=0, block_ms=10, rounds=4, max_rounds=4)


def do_list(arguments: argparse.Namespace) -> int:
    from tirx_bench import catalog

    if arguments.package not in (None, "tirx_kernels"):
        raise unknown("package", arguments.package, ["tirx_kernels"])
    entries = catalog.package_entries() if arguments.package else catalog.entries()
    if arguments.json:
        return emit([_entry_plain(e) for e in entries])
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
        return emit({"rows": rows, "missing": works})
    print(listing([[row.name, "found" if row.found else "-", row.version, row.detail] for row in rows]))
    print(f"\nworks here: {', '.join(c for c, lacking in works.items() if not lacking)}")
    for command, lacking in works.items():
        if lacking:
            print(f"does not: {command} ({', '.join(lacking)} missing)")
    return 0


def do_lint(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline
    from tirx_bench.render import findings

    found = [f for job in jobs_of(arguments) for f in pipeline.lint_job(job)]
    if arguments.json:
        emit(found)
    else:
        print(findings(found) or "no findings")
    return int(failing(found, arguments.strict))


def do_compile(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, lambda job, progress: (pipeline.compile_job(job, progress), None))


def do_verify(arguments: argparse.Namespace) -> int:
    from tirx_bench.pipeline.verifying import replay_job, verify_job

    if (arguments.kernel is None) == (arguments.case is None):
        raise UsageError("verify takes a kernel or a --case", "tirx-bench verify gemm")
    done: set[str] = set()

    def act(job: Job, progress: Callable[[str], None]) -> tuple[Record, Path | None]:
        if arguments.case:
            job = replay_job(arguments.case, job)
        return verify_job(job, progress, arguments.deep, done)

    return _each(arguments, act, kept="case")


def do_launch(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    return _each(arguments, lambda job, progress: (pipeline.gpu_job(job, "launch", progress), None))


def do_bench(arguments: argparse.Namespace) -> int:
    from tirx_bench import pipeline

    modes = [name for name in ("self_test", "first_call", "vs") if getattr(arguments, name)]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join('--' + m.replace('_', '-') for m in modes)} are different measurements", "one at a time")
    if arguments.first_call:
        return _first_call(arguments)
    return _each(arguments, pipeline.self_test_job if arguments.self_test else pipeline.bench_job, against=arguments.vs)


def _first_call(arguments: argparse.Namespace) -> int:
    from tirx_bench.pipeline.first_call import first_call_job
    from tirx_bench.render import first_call

    if arguments.flag or arguments.compiler != "nvcc":
        raise UsageError("the first call is that of a plain build", "without --compiler and --flag")
    found = []
    for job in jobs_of(arguments):
        with Progress(f"{job.spec} {job.workload or ''}".strip()) as progress:
            found.append(first_call_job(job, progress))
    if arguments.json:
        return emit(found if len(found) > 1 else found[0])
    return print_text("\n\n".join(map(first_call, found)))


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
        if arguments.html:
            raise UsageError(f"{path} is an artifact, and a page shows a record", "tirx-bench show RECORD --html FILE")
        artifact = read(path)
        return emit(artifact) if arguments.json else print_text(artifact_page(artifact))
    record = store.read_record(path)
    if arguments.html:
        return _write_html(record, arguments.html)
    return emit(record) if arguments.json else print_text(page(record) + f"\nrecord       {path}")


def _write_html(record: Record, path: Path) -> int:
    from tirx_bench.render.html import record_html

    try:
        path.write_text(record_html(record), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return print_text(str(path))


def do_compare(arguments: argparse.Namespace) -> int:
    from tirx_bench import store
    from tirx_bench.compare import compare
    from tirx_bench.render import comparison

    kinds = {text.endswith(".json") for text in (arguments.old, arguments.new)}
    if len(kinds) > 1:
        raise UsageError(f"{arguments.old} and {arguments.new} are not of one kind", "two records (.json), or two kernels")
    if kinds == {False}:
        return _compare_kernels(arguments)
    found = compare(store.read_record(Path(arguments.old)), store.read_record(Path(arguments.new)))
    if arguments.json:
        emit(found)
    else:
        print(comparison(found))
    return VERDICT_CODES.get(found.verdict, 0)


def _compare_kernels(arguments: argparse.Namespace) -> int:
    from tirx_bench.pipeline.versus import old_name, versus_job

    def act(job: Job, progress: Callable[[str], None]) -> tuple[Record, Path]:
        return versus_job(arguments.old, job, arguments.fresh, progress)

    arguments.kernel = arguments.new
    return _each(arguments, act, against=old_name(arguments.old))


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """One job per workload that was asked for."""
    from tirx_bench.catalog import find
    from tirx_bench.pipeline import DEFAULT_OUT, Job

    every = arguments.command == "verify" and arguments.kernel  # a pass is one of all workloads
    labels: list[str | None] = arguments.workload or (["all"] if every else [None])
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
        vs=getattr(arguments, "vs", None),
        device=getattr(arguments, "device", 0),
        simulate=not getattr(arguments, "no_simulate", False),
        checks=VerifyPolicy() if getattr(arguments, "seeds", None) is None else VerifyPolicy(seeds=arguments.seeds),
    )
    return [replace(job, workload=label) for label in labels]


def attempts(jobs: list[Job], act: Callable[[Job, Callable[[str], None]], T]) -> Iterator[T | WorkbenchError]:
    """What `act` gives for each job in turn, or the error that it raised, which is told. The error of an only job is raised."""
    for job in jobs:
        found: T | WorkbenchError
        try:
            with Progress(f"{job.spec} {job.workload or ''}".strip()) as progress:
                found = act(job, progress)
        except WorkbenchError as error:
            if len(jobs) == 1:
                raise
            report(error)
            found = error
        yield found


def _policy(arguments: argparse.Namespace) -> TimingPolicy:
    policy = QUICK if getattr(arguments, "quick", False) else TimingPolicy()
    names = ("timer", "cache", "flush", "calls", "gate", "rounds", "precision", "seed")
    fields = {**dict(zip(names, names, strict=True)), "max_time_s": "max_time", "cooldown_s": "cooldown", "max_rounds": "rounds"}
    given = {field: value for field, name in fields.items() if (value := getattr(arguments, name, None)) is not None}
    return replace(policy, **given)


def _each(
    arguments: argparse.Namespace,
    act: Callable[[Job, Callable[[str], None]], tuple[Record, Path | None]],
    against: str | None = None,
    kept: str = "record",
) -> int:
    """Do a job per workload, with a verdict against an implementation if one is named. `kept` says what the paths are.

    A workload that fails does not stop the next; the exit code is the worst.
    """
    from tirx_bench.render import page

    code, plain, jobs = 0, [], jobs_of(arguments)
    verdicts: dict[str, tuple[Comparison, dict[str, Any]]] = {}
    for number, done in enumerate(attempts(jobs, act)):
        if isinstance(done, WorkbenchError):
            code = max(code, done.exit_code)
            plain.append(error_plain(done))
            continue
        record, path = done
        failed = int(record.failed(getattr(arguments, "strict", False)))
        untimed = arguments.command in ("bench", "compare") and record.timing is None
        code = max(code, failed or (NothingRanError.exit_code if untimed else 0))
        plain.append({**to_plain(record), "path": str(path) if path else None})
        if not arguments.json:
            print(("\n" if number else "") + page(record) + (f"\n{kept:<13}{path}" if path else ""))
        if against and record.timing:
            found = _against(record, against)
            code = max(code, found.exit_code if isinstance(found, WorkbenchError) else 0)
            verdicts |= {} if isinstance(found, WorkbenchError) else {record.workload.label: (found, plain[-1])}
    code = max(code, _verdicts(verdicts, f"{arguments.kernel} against {against}", arguments.json))
    if arguments.json:
        emit(plain if len(jobs) > 1 else plain[0])
    return code


def _against(record: Record, baseline: str) -> Comparison | WorkbenchError:
    from tirx_bench.compare import against

    try:
        return against(record, baseline)
    except WorkbenchError as error:  # the record is complete all the same
        report(error)
        return error


def _verdicts(found: dict[str, tuple[Comparison, dict[str, Any]]], title: str, as_json: bool) -> int:
    """Print the verdict of every workload, or put it into its JSON; the exit code of the worst."""
    from tirx_bench.compare import together
    from tirx_bench.render import comparison, verdicts

    held = together({label: c for label, (c, _) in found.items()})
    for label, c in held.items():
        found[label][1]["vs"] = to_plain(c)
        if not as_json and len(held) == 1:
            print(f"\n{title}: {comparison(c)}")
    if not as_json and len(held) > 1:
        print(f"\n{title}, p adjusted by Holm for {len(held)} workloads\n{verdicts(held)}")
    return max((VERDICT_CODES.get(c.verdict, 0) for c in held.values()), default=0)
