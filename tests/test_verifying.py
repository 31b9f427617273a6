"""Verify from the command to the case that failed: with GPU processes that a test answers for."""

from __future__ import annotations

import importlib
import json
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers_records import artifact, offline_record, verification

from tirx_bench.cli import main
from tirx_bench.model import (
    CONDITIONS,
    DEEP,
    FILLS,
    Attempt,
    Constraint,
    Control,
    FailedError,
    FailingCase,
    Finding,
    MissingError,
    Tile,
    UsageError,
    VerifyPolicy,
    Workload,
)  # fmt: skip
from tirx_bench.pipeline import verifying
from tirx_bench.pipeline.plan import Job
from tirx_bench.pipeline.request import Answer
from tirx_bench.render import page
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.store import read_case, write_case
from tirx_bench.verify.shapes import boundary_workloads

planning = importlib.import_module("tirx_bench.pipeline.plan")  # the package's `plan` is the function

FILE = """
from tirx_bench import Constraint, Kernel, Tile, Tolerance, Workload

KERNEL = Kernel(
    name="mine", archs=("sm_90a",), workloads=(Workload("one", {"m": 512, "n": 256}), Workload("two", {"m": 1024, "n": 256})),
    build=lambda m, n, bn: None, inputs=lambda m, n, rng: {}, outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda: {}, tolerance=Tolerance(0, 0), work=None, tunables={"bn": 64},
    tiles=lambda bn: {"c": (Tile("tile", (128, bn)),)}, constraints=(Constraint("n % 8 == 0", "rows of 16 bytes"),),
)
"""
PASSED = replace(verification(), tried=(Attempt("normal(0, 1)", 0, "alone", 2, 0.5),))
WRONG = replace(verification(wrong_elements=3), kind="one-hot", condition="beside a copy", seed=4)


class Processes:
    """GPU processes whose requests `answer` answers; `serials` says of each whether its launches waited."""

    def __init__(self, answer):
        self.answer, self.requests, self.serials = answer, [], []

    def __call__(self, device=0, serial=False):
        self.serials.append(serial)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def perform(self, request, timeout_s, progress):
        self.requests.append(request)
        return self.answer(request)


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """Verify the kernel of FILE where `answer` says what the GPU finds."""
    file, sanitized = tmp_path / "mine.py", []
    file.write_text(textwrap.dedent(FILE))
    monkeypatch.setattr(planning, "absent", lambda: "")
    monkeypatch.setattr(planning, "present_arch", lambda index: "90")
    monkeypatch.setattr(
        verifying, "launchable",
        lambda plan, progress: replace(offline_record(left_out=()), kernel="mine", workload=plan.workload, artifact=artifact()),
    )  # fmt: skip

    monkeypatch.setattr(verifying, "sanitize", lambda *_, **__: (tuple(sanitized), ()))

    def run(answer=lambda request: Answer({}, PASSED), deep=False, done=None, **job):
        processes = Processes(answer)
        monkeypatch.setattr(verifying, "GpuProcess", processes)
        asked = Job(str(file), out=tmp_path / "out", **job)
        return SimpleNamespace(
            found=verifying.verify_job(asked, deep=deep, done=done), requests=processes.requests, serials=processes.serials
        )

    run.file, run.out, run.sanitized = file, tmp_path / "out", sanitized
    return run


# ------------------------------------------------------------------------------------------------- once


def test_what_passes_is_a_record_without_a_case(verified):
    run = verified()
    record, path = run.found
    assert record.verification == PASSED and path is None and record.deep is None
    (request,) = run.requests
    assert (request.action, request.checks, request.baselines) == ("verify", VerifyPolicy(), False)
    assert run.serials == [False] and not verified.out.exists()


def test_what_fails_is_kept_as_the_one_launch_that_failed(verified):
    record, path = verified(lambda request: Answer({}, WRONG), tunables=("bn=128",), workload="m=64,n=8").found
    assert record.failed() and path.parent == verified.out / "cases"
    case = read_case(path)
    assert case.workload.params == {"m": 64, "n": 8} and case.tunables == {"bn": 128} and case.seed == 4
    assert case.checks == VerifyPolicy(seeds=1, fills=("one-hot",), conditions=("beside a copy",), repeats=1)
    assert case.found.endswith("has 3 wrong elements")


def test_a_case_asks_for_the_same_again(verified):
    _, path = verified(lambda request: Answer({}, WRONG), tunables=("bn=128",), workload="m=64,n=8").found
    job = verifying.replay_job(path, Job("", out=verified.out, timeout_s=7))
    assert (job.timeout_s, job.policy.seed, job.tunables, job.arch) == (7, 4, ("bn=128",), "sm_90a")
    planned = planning.plan(job)
    assert planned.params == {"m": 64, "n": 8, "bn": 128} and planned.job.checks == read_case(path).checks


def test_the_same_failure_is_one_case(verified):
    paths = {verified(lambda request: Answer({}, WRONG)).found[1] for _ in range(2)}
    assert len(paths) == 1 and len(list((verified.out / "cases").iterdir())) == 1


def test_a_fault_or_a_hang_is_raised_and_names_a_case_of_all_that_was_asked(verified):
    def faults(request):
        raise FailedError("a kernel faulted: illegal address", "look at it")

    with pytest.raises(FailedError, match="illegal address") as caught:
        verified(faults, checks=VerifyPolicy(seeds=3))
    (path,) = (verified.out / "cases").iterdir()
    assert caught.value.hint == f"again: tirx-bench verify --case {path}; look at it"
    assert read_case(path).checks == VerifyPolicy(seeds=3)


def test_what_cannot_be_asked_is_no_case(verified):
    def refuses(request):
        raise UsageError("the PrimFunc takes x")

    with pytest.raises(UsageError):
        verified(refuses)
    assert not verified.out.exists()


def test_a_tolerance_that_accepts_a_control_fails_and_says_which(verified):
    accepted = replace(PASSED, controls=(Control("zeros", "accepted", "as c"), Control("one tile missing", "rejected")))
    record, path = verified(lambda request: Answer({}, accepted)).found
    assert record.failed()
    assert read_case(path).found == "the tolerance accepts a known wrong output: zeros"
    assert "FAILED: the tolerance accepts zeros (as c)" in page(record)


# ------------------------------------------------------------------------------------------------- deep


def test_deep_asks_for_everything_then_for_shapes_and_then_for_launches_one_by_one(verified):
    run = verified(deep=True)
    first, *shapes, last = run.requests
    assert (first.checks, first.baselines) == (DEEP, True)
    assert {r.checks.fills for r in shapes} == {("normal", "uniform", "one-hot")} and not any(r.baselines for r in shapes)
    assert (last.checks.conditions, last.baselines, run.serials) == (("serial",), True, [False, True])
    record, path = run.found
    assert path is None and list(record.deep.shapes) == [r.workload.label for r in shapes] and record.deep.serial == PASSED
    assert not record.failed() and "one by one   passed, at most 0.5 of the bound" in page(record)


def test_what_failed_at_first_is_not_looked_at_deeper(verified):
    run = verified(lambda request: Answer({}, WRONG), deep=True)
    assert len(run.requests) == 1 and run.found[0].deep is None


def test_a_shape_that_is_wrong_does_not_stop_the_others_and_the_first_is_the_case(verified):
    def answer(request):
        return Answer({}, WRONG if request.workload.params["m"] in (127, 128) else PASSED)

    record, path = verified(answer, deep=True).found
    wrong = [label for label, found in record.deep.shapes.items() if not found.passed]
    assert len(wrong) >= 2 and record.failed() and read_case(path).workload.label == wrong[0]
    assert page(record).count("FAILED: ") == len(wrong)


def test_a_shape_that_hangs_ends_the_shapes_and_is_named(verified):
    def answer(request):
        if request.workload.params["m"] == 128:
            raise FailedError("the kernel did not return")
        return Answer({}, PASSED)

    record, _ = verified(answer, deep=True).found
    ((label, text),) = record.deep.problems.items()
    assert "m=128" in label and "did not return (again: tirx-bench verify --case" in text
    assert record.failed() and record.deep.serial == PASSED


def test_shapes_that_were_tried_are_not_tried_again(verified):
    done: set[str] = set()
    first, second = (len(verified(deep=True, done=done).requests) for _ in range(2))
    assert first > second == 2 and done


def test_a_case_of_launches_one_by_one_is_replayed_so(verified):
    assert verified(checks=VerifyPolicy(conditions=("serial",))).serials == [True]


def test_sanitizers_look_at_the_largest_shape_and_an_error_of_theirs_fails(verified):
    record, _ = verified(deep=True).found
    (note,) = record.sanitizer
    assert note.severity == "note" and list(record.deep.shapes)[-1] in note.message and not record.failed()
    verified.sanitized.append(Finding("racecheck", "error", "a race"))
    record, _ = verified(deep=True).found
    assert record.failed() and "error[racecheck] a race" in page(record)


def test_without_compute_sanitizer_it_is_left_out_with_the_reason(verified, monkeypatch):
    def missing(*_, **__):
        raise MissingError("compute-sanitizer was not found")

    monkeypatch.setattr(verifying, "sanitize", missing)
    record, _ = verified(deep=True).found
    assert record.left_out == ("compute-sanitizer: compute-sanitizer was not found",) and not record.failed()


# ----------------------------------------------------------------------------------------------- shapes


def shapes_of(**changes):
    planned = planning.plan(Job("gemm"))
    kernel = replace(planned.kernel, **changes)
    return boundary_workloads(kernel, kernel.workloads[0], {})


def test_every_size_is_below_at_and_above_every_tile_boundary():
    found = shapes_of()
    for name, step in (("m", 1), ("n", 8), ("k", 8)):
        values = {w.params[name] for w in found}
        for boundary in (64, 128, 256):
            assert {boundary - step, boundary, boundary + step} <= values
    assert found[0].params == {"m": 1, "n": 8, "k": 8, "dtype": "bfloat16"} and len(found) == 10


def test_only_what_the_kernel_accepts_is_asked_for():
    kernel = planning.plan(Job("gemm")).kernel
    for shape in shapes_of(constraints=(*kernel.constraints, Constraint("m % 128 == 0 and k >= 96", "whole tiles"))):
        assert shape.params["m"] % 128 == 0 and shape.params["k"] >= 96


def test_a_kernel_without_tiles_has_common_boundaries_and_flags_are_left_alone():
    found = boundary_workloads(
        replace(planning.plan(Job("gemm")).kernel, tiles=None),
        Workload("x", {"m": 512, "n": 512, "k": 8, "dtype": "bfloat16"}),
        {},
    )
    assert {w.params["k"] for w in found} == {8} and {63, 64, 65, 127, 255, 257} <= {w.params["m"] for w in found}


def test_tiles_of_the_tunables_that_were_asked_for_count():
    kernel = replace(planning.plan(Job("gemm")).kernel, tiles=lambda bn: {"c": (Tile("tile", (128, bn)),)})
    assert 192 in {w.params["n"] for w in boundary_workloads(kernel, kernel.workloads[0], {"bn": 192})}


# ---------------------------------------------------------------------------------------- cases, command


def test_a_case_is_the_same_after_a_round_trip(tmp_path):
    case = FailingCase("gemm", Workload("x", {"m": 8}), {"bn": 64}, "sm_90a", "nvcc", ("-G",), 3, DEEP, "c is wrong")
    assert read_case(write_case(case, tmp_path)) == case
    assert from_plain(FailingCase, to_plain(case)) == case


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 2, "checks": {}}', '{"format": 1, "checks": 3}']
)
def test_a_file_that_is_no_case_is_refused(tmp_path, capsys, text):
    path = tmp_path / "case.json"
    path.write_text(text)
    assert main(["verify", "--case", str(path)]) == 2
    assert "case.json" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["gemm", "--case", "x.json"], ["gemm", "--deep", "--seeds", "3"], ["gemm", "--seeds", "0"]])
def test_contradictions_are_refused(argv, capsys):
    assert main(["verify", *argv]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_all_workloads_are_verified_unless_one_is_named(verified, monkeypatch, capsys):
    monkeypatch.setattr(verifying, "GpuProcess", Processes(lambda request: Answer({}, PASSED)))
    argv = ["verify", str(verified.file), "--json", "--out", str(verified.out)]
    assert main(argv) == 0
    assert [r["workload"]["label"] for r in json.loads(capsys.readouterr().out)] == ["one", "two"]
    assert main([*argv, "--workload", "two"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"]["label"] == "two"


def test_a_failure_prints_the_case_and_exits_1_and_the_case_can_be_verified(verified, monkeypatch, capsys):
    monkeypatch.setattr(verifying, "GpuProcess", Processes(lambda request: Answer({}, WRONG)))
    assert main(["verify", str(verified.file), "--workload", "one", "--out", str(verified.out)]) == 1
    (path,) = (verified.out / "cases").iterdir()
    assert f"case         {path}" in capsys.readouterr().out
    again = Processes(lambda request: Answer({}, PASSED))
    monkeypatch.setattr(verifying, "GpuProcess", again)
    assert main(["verify", "--case", str(path), "--out", str(verified.out)]) == 0
    (request,) = again.requests
    assert request.checks.conditions == ("beside a copy",) and request.policy.seed == 4


def test_every_kind_and_condition_that_deep_names_is_known():
    assert set(DEEP.fills) == set(FILLS) and set(DEEP.conditions) | {"serial"} == set(CONDITIONS)
    with pytest.raises(UsageError, match="did you mean|known"):
        VerifyPolicy(fills=("zeroes",))
