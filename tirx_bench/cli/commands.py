"""The commands: each calls one function and emits what it gives. Returns the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirx_bench.cli.emit import Progress, emit, error_plain, print_text, report
from tirx_bench.model import Record, Timing, TimingPolicy, UsageError, WorkbenchError, failing, unknown
from tirx_bench.serial import to_plain

if TYPE_CHECKING:
    from tirx_bench.pipeline import Job

VERDICT_CODES = {"slower": 1, "inconclusive": 4}
QUICK = TimingPolicy(warmup_ms=10, repeat_ms=40, rounds=4)


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

    found = [f for job in _jobs(arguments) for f in pipeline.lint_job(job)]
    if arguments.json:
        emit(found)
    else:
        print(findings(found) or "no findings")
    return int(failing(found, arguments.strict))


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

    if arguments.self_test and arguments.vs:
        raise UsageError("--self-test times the kernel against itself, so there is no --vs")
    return _each(arguments, pipeline.self_test_job if arguments.self_test else pipeline.bench_job)


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
        return emit(artifact) if arguments.json else print_text(artifact_page(artifact))
    record = store.read_record(path)
    return emit(record) if arguments.json else print_text(page(record) + f"\nrecord       {path}")


def do_compare(arguments: argparse.Namespace) -> int:
    from tirx_bench import store
    from tirx_bench.compare import compare
    from tirx_bench.render import comparison

    found = compare(store.read_record(arguments.old), store.read_record(arguments.new))
    if arguments.json:
        emit(found)
    else:
        print(comparison(found))
    return VERDICT_CODES.get(found.verdict, 0)


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
        vs=getattr(arguments, "vs", None),
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
            with Progress(f"{job.spec} {job.workload or ''}".strip()) as progress:
                record, path = act(job, progress)
        except WorkbenchError as error:
            if len(jobs) == 1:
                raise
            code = max(code, error.exit_code)
            plain.append(error_plain(error))
            report(error)
            continue
        code = max(code, int(record.failed(getattr(arguments, "strict", False))))
        plain.append({**to_plain(record), "path": str(path) if path else None})
        if not arguments.json:
            print(("\n" if number else "") + page(record) + (f"\nrecord       {path}" if path else ""))
        if job.vs and record.timing:
            code = max(code, _against(record, record.timing, job.vs, plain[-1], quiet=arguments.json))
    if arguments.json:
        emit(plain if len(jobs) > 1 else plain[0])
    return code


def _against(record: Record, timing: Timing, baseline: str, plain: dict[str, Any], quiet: bool) -> int:
    """The verdict against a baseline, into `plain` or printed; its exit code."""
    from tirx_bench.compare import against
    from tirx_bench.render import comparison

    try:
        found = against(timing, record.kernel, baseline, record.noise_floor)
    except WorkbenchError as error:  # the record above is complete all the same
        report(error)
        return error.exit_code
    plain["vs"] = to_plain(found)
    if not quiet:
        print(f"\n{record.kernel} against {baseline}: {comparison(found)}")
    return VERDICT_CODES.get(found.verdict, 0)
