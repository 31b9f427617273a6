"""What only a GPU can show. `python -m pytest tests/gpu` on a machine with one; skipped elsewhere by tests/conftest.py."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kernel_files import BODIES, source

from tirx_bench.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(tmp_path, capsys, monkeypatch):
    """Run the command line in process: exit code, JSON (or text when it is none), what went to stderr."""
    monkeypatch.setattr(sys, "argv", ["tirx-bench"])

    def run(*argv):
        code = main([*map(str, argv), "--out", str(tmp_path / "out")])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in argv and out else out, err

    return run


@pytest.fixture
def kernel_file(tmp_path):
    def write(body):
        path = tmp_path / f"{body}.py"
        path.write_text(source(body))
        return path

    return write


@pytest.mark.parametrize("kernel", ["gemm", "gemm_relu"])
@pytest.mark.parametrize(
    "workload",
    ["512", "1000x1032x520", "m=1,n=8,k=8", "m=1,n=264,k=72", "m=5,n=136,k=40", "m=129,n=520,k=328", "m=257,n=72,k=64",
     "m=300,n=1032,k=520,dtype=float16", "m=64,n=8,k=16384"],
)  # fmt: skip
def test_gemm_is_right_on_every_kind_of_shape_that_it_accepts(bench, kernel, workload):
    code, record, err = bench("verify", kernel, "--workload", workload, "--json")
    assert code == 0, err
    (output,) = record["verification"]["outputs"]
    assert output["wrong_elements"] == 0 and "TF32 off" in record["verification"]["reference"]


def test_the_gemm_is_right_for_every_seed_and_gives_the_same_bits_again(bench):
    code, record, err = bench("verify", "gemm", "--workload", "1000x1032x520", "--seeds", "5", "--json")
    assert code == 0, err
    assert [a["seed"] for a in record["verification"]["tried"]] == [0, 1, 2, 3, 4] and record["verification"]["repeats"] is True


@pytest.mark.timeout(600)  # four tools of compute-sanitizer, one after the other
@pytest.mark.parametrize("kernel", ["gemm", "gemm_relu"])
def test_a_right_kernel_passes_everything_that_deep_asks(bench, kernel):
    code, record, err = bench("verify", kernel, "--workload", "512", "--deep", "--json")
    assert code == 0, err
    kinds = {a["fill"] for a in record["verification"]["tried"]}
    conditions = {a["condition"] for a in record["verification"]["tried"]}
    assert len(kinds) == 8 and len(conditions) == 4 and not record["verification"]["skipped"]
    assert {c["outcome"] for c in record["verification"]["controls"]} == {"rejected"}
    assert len(record["deep"]["shapes"]) == 10 and record["deep"]["serial"]["tried"][0]["condition"] == "serial"
    assert not record["left_out"], "every baseline is right"


def test_what_failed_is_a_case_that_fails_again(bench, kernel_file):
    code, record, _ = bench("verify", kernel_file("wrong"), "--workload", "small", "--json")
    assert code == 1 and record["path"]
    code, again, _ = bench("verify", "--case", record["path"], "--json")
    assert code == 1 and again["verification"]["outputs"] == record["verification"]["outputs"]


@pytest.mark.parametrize("tile", [("bn=64", "stages=8"), ("bn=128", "stages=6"), ("bn=192", "stages=4"), ("bn=256", "group=1")])
def test_every_tile_is_right(bench, tile):
    params = [word for text in tile for word in ("--param", text)]
    code, _, err = bench("verify", "gemm", "--workload", "m=1000,n=1544,k=712", *params)
    assert code == 0, err


def test_a_right_kernel_is_timed_against_the_baseline_that_is_right_too(bench, kernel_file):
    code, record, err = bench("run", kernel_file("right"), "--workload", "large", "--quick", "--json")
    assert code == 0, err
    names = {sample["implementation"] for sample in record["timing"]["samples"]}
    assert names == {"scale", "torch.mul"}
    assert record["left_out"] == ["baseline zeros: its output does not match the reference"]
    assert all(sample["us"] > 0 for sample in record["timing"]["samples"])
    assert record["environment"]["gpu_uuid"].startswith("GPU-") and record["environment"]["driver"]
    assert record["measured"]["tb_per_s"] > 0


@pytest.mark.parametrize("timer", ["kernel", "event", "proton", "wall", "graph"])
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_every_timer_and_cache_policy_gives_its_own_samples(bench, kernel_file, timer, cache):
    arguments = ("--timer", timer, "--cache", cache, "--quick", "--json", "--workload", "large")
    code, record, err = bench("bench", kernel_file("right"), *arguments)
    assert code == 0, err
    assert record["timing"]["policy"]["timer"] == timer and record["timing"]["policy"]["cache"] == cache


def test_equal_code_is_timed_against_itself_and_a_verdict_uses_the_floor(bench):
    code, record, err = bench("bench", "gemm", "--workload", "2048", "--self-test", "--json")
    assert code == 0, err
    assert 0 <= record["noise_floor"] < 0.05
    code, record, err = bench("bench", "gemm", "--workload", "2048", "--vs", "torch.mm", "--json")
    assert code in (0, 1, 4) and record["vs"]["low"] < record["vs"]["ratio"] < record["vs"]["high"], err


@pytest.mark.parametrize("body", ["wrong", "unwritten"])
def test_a_wrong_kernel_fails_and_is_not_timed(bench, kernel_file, body):
    code, record, _ = bench("run", kernel_file(body), "--json", "--quick")
    assert code == 1 and record["timing"] is None
    (output,) = record["verification"]["outputs"]
    assert output["wrong_elements"] == 128 and output["worst_index"][0] // 128 == (7 if body == "wrong" else 0)


def test_a_kernel_that_never_returns_is_killed_and_the_next_one_runs(bench, kernel_file):
    start = time.monotonic()
    code, _, err = bench("run", kernel_file("hangs"), "--timeout", "25")
    assert code == 1 and "did not return within 25 s" in err and "artifact" in err
    assert time.monotonic() - start < 90
    assert bench("verify", kernel_file("right"))[0] == 0


def test_a_kernel_that_faults_does_not_touch_the_next_workload(bench, kernel_file):
    code, out, err = bench("verify", kernel_file("faults"), "--workload", "small", "--workload", "large")
    assert code == 1 and "a kernel faulted: CUDA error" in err  # which error depends on what lies at the address
    assert "passed: out 1048576 float32" in out


def test_launch_times_nothing(bench):
    code, record, err = bench("launch", "gemm", "--workload", "512", "--json")
    assert code == 0, err
    assert record["timing"] is None and record["verification"] is None


def test_a_kernel_file_runs_its_run_bench(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "kernels" / "warp_roles.py")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "passed: out 256 float32" in done.stdout and "torch.add" in done.stdout


def test_two_records_of_one_kernel_can_be_compared(bench, kernel_file, tmp_path, capsys):
    path = kernel_file("right")
    records = [bench("bench", path, "--workload", "large", "--json", "--quick")[1]["path"] for _ in range(2)]
    assert main(["compare", *records]) in (0, 1, 4)
    assert "interval" in capsys.readouterr().out


def test_two_kernel_files_are_measured_in_one_process(bench, kernel_file, capsys):
    old, new = kernel_file("right"), kernel_file("wrong")
    new.write_text(old.read_text().replace("[n // 128]", "[n // 128 + 0]"))
    code, found, err = bench("compare", old, new, "--workload", "large", "--quick", "--json")
    assert code == 4 and found["vs"]["verdict"] == "inconclusive" and 0.8 < found["vs"]["ratio"] < 1.25, err


def test_two_kernel_files_are_measured_in_processes_that_take_turns(bench, kernel_file, monkeypatch):
    from tirx_bench.pipeline import versus

    monkeypatch.setattr(versus, "FRESH_ROUNDS", 2)
    code, found, err = bench(
        "compare", kernel_file("right"), kernel_file("right"), "--workload", "large", "--quick", "--fresh", "--json"
    )
    assert code == 4 and 0.5 < found["vs"]["ratio"] < 2, err


def test_a_kernel_that_is_wrong_has_no_ratio(bench, kernel_file):
    code, _, err = bench("compare", kernel_file("wrong"), kernel_file("right"), "--workload", "large", "--quick")
    assert code == 1 and "no ratio" in err


def test_the_first_call_is_told_stage_by_stage(bench, kernel_file, monkeypatch):
    from tirx_bench.pipeline import first_call

    monkeypatch.setattr(first_call, "PROCESSES", 1)
    code, found, err = bench("bench", kernel_file("right"), "--workload", "large", "--first-call", "--json")
    assert code == 0, err
    stages = found["stages_s"]
    assert list(stages)[:8] == [
        "import torch",
        "CUDA start",
        "import TVM",
        "build",
        "compile",
        "load",
        "scale: first call",
        "scale: second call",
    ]
    assert stages["scale: first call"][0] > stages["scale: second call"][0] > 0


def test_the_bodies_are_all_used():
    assert set(BODIES) == {"right", "wrong", "unwritten", "hangs", "faults"}
