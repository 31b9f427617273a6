"""The command line as a person meets it: what it prints, where, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_records import offline_record, record, steady, timing, verification

from tirx_bench import __version__, catalog, doctor, pipeline
from tirx_bench.cli import COMMANDS, main
from tirx_bench.cli.commands import QUICK
from tirx_bench.model import (
    CACHES,
    FLUSHES,
    TIMERS,
    FailedError,
    Finding,
    MissingError,
    NothingRanError,
    Operation,
    Peak,
    Status,
    TimingPolicy,
    Workload,
)
from tirx_bench.pipeline import Job, first_call, steps, verifying, versus
from tirx_bench.pipeline.request import SAME_CODE, Answer
from tirx_bench.serial import to_plain
from tirx_bench.store import read_record, records, write_record

ROOT = Path(__file__).parents[1]
PLAN = sys.modules["tirx_bench.pipeline.plan"]  # pipeline.plan is its function
ROLES = str(ROOT / "kernels" / "warp_roles.py")
NO_GPU = "there is no CUDA device: the driver lists none"
ON_KERNELS = [name for name in COMMANDS if name not in ("list", "doctor", "show", "compare", "collect")]
ON_THE_GPU = ["verify", "bench", "launch"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """The same machine everywhere: one without a device."""
    for module in (PLAN, doctor):
        monkeypatch.setattr(module, "absent", lambda: NO_GPU)
        monkeypatch.setattr(module, "present_arch", lambda index=0: "")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def cli(capsys):
    """Run a command line; its exit code, stdout and stderr. No test but one may end in a traceback."""

    def run(*argv):
        code = main([str(a) for a in argv])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and "bug of tirx-bench" not in err
        return code, out, err

    return run


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder of artifacts for all tests, so that each is compiled once."""
    return tmp_path_factory.mktemp("out")


@pytest.fixture
def gives(monkeypatch):
    """Let `run`, `bench`, `compile`, `verify` or `launch` give a record, or raise an error, without any work."""

    def replace_jobs(what):
        asked = []

        def act(job, *_):
            asked.append(job)
            found = what(job) if callable(what) else what
            if isinstance(found, BaseException):
                raise found
            return found

        for name in ("run_job", "bench_job"):
            monkeypatch.setattr(pipeline, name, lambda job, progress: (act(job), Path("/records/r.json")))
        for name in ("compile_job", "gpu_job"):
            monkeypatch.setattr(pipeline, name, act)
        monkeypatch.setattr("tirx_bench.pipeline.verifying.verify_job", lambda job, *_: (act(job), None))
        return asked

    return replace_jobs


def program(*argv, cwd=ROOT, **options):
    """The installed program as a process, on a machine without a device."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, *map(str, argv)], cwd=cwd, env=environment, capture_output=True, text=True, **options)


# ------------------------------------------------------------------------------------------------ help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_names_json(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text and f"usage: tirx-bench {command}" in text


def test_the_help_of_the_program_lists_every_command_and_what_it_does(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    for command, (_, what, _) in COMMANDS.items():
        assert re.search(rf"^ +{command} +", text, re.MULTILINE) and what.split()[0] in text


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{__version__}\n")


def test_doctor_knows_the_needs_of_every_command():
    assert set(doctor.NEEDS) == set(COMMANDS)


# --------------------------------------------------------------------------------------- list and doctor


def test_list_shows_every_reference_kernel_with_architectures_and_workloads(cli):
    code, text, _ = cli("list")
    assert code == 0
    for entry in catalog.entries():
        (line,) = [line for line in text.splitlines() if line.split()[0] == entry.name]
        assert all(word in line for word in (*entry.kernel.archs, *(w.label for w in entry.kernel.workloads)))


def test_list_as_json_has_the_parameters_tunables_and_constraints(cli):
    code, text, _ = cli("list", "--json")
    by_name = {entry["name"]: entry for entry in json.loads(text)}
    assert code == 0
    assert by_name["warp_roles"]["workloads"]["256"] == {"n": 256}
    assert "n >= 256 and n % 256 == 0" in by_name["warp_roles"]["constraints"]
    assert by_name["gemm_relu"]["baselines"] and by_name["gemm_relu"]["tunables"]


def test_doctor_says_what_is_here_and_which_commands_work(cli):
    code, text, _ = cli("doctor")
    assert code == 0
    assert re.search(rf"^CUDA device +- +{NO_GPU}$", text, re.MULTILINE)
    assert re.search(r"^apache-tvm +found +0\.27", text, re.MULTILINE)
    assert re.search(r"^works here: .*\brun\b", text, re.MULTILINE)
    assert re.search(r"^does not: verify \(CUDA device", text, re.MULTILINE)


def test_doctor_as_json_has_the_same_rows(cli):
    code, text, _ = cli("doctor", "--json")
    found = json.loads(text)
    assert code == 0
    assert {"name": "CUDA device", "found": False, "version": "", "detail": NO_GPU} in found["rows"]
    assert (found["missing"]["list"], "CUDA device" in found["missing"]["verify"]) == ([], True)


def test_doctor_about_a_command_that_cannot_work_is_exit_code_3_with_what_to_do(cli):
    code, _, err = cli("doctor", "verify")
    assert code == 3
    assert "verify cannot work here: CUDA device" in err and NO_GPU in err
    assert cli("doctor", "list")[0] == 0


def test_doctor_examines_without_importing_what_it_looks_for():
    code = "import sys; from tirx_bench.doctor import examine; examine(); print({'tvm', 'torch', 'triton'} & set(sys.modules))"
    assert program("-c", code).stdout.strip() == "set()"


# ------------------------------------------------------------------------------------------------ names

UNKNOWN = {
    "command": (["rum", "gemm"], "unknown command 'rum'", "run"),
    "kernel": (["run", "gem_relu"], "unknown kernel 'gem_relu'", "gemm_relu"),
    "kernel of a file": (["run", "gemm:gem"], "unknown kernel of gemm 'gem'", "gemm"),
    "file": (["run", "./no_such_kernel.py"], "no file no_such_kernel.py", "relative to"),
    "workload": (["run", "warp_roles", "--workload", "2M"], "unknown workload of warp_roles '2M'", "1M"),
    "parameter": (["run", "gemm", "--workload", "mm=8"], "unknown parameter of gemm 'mm'", "m"),
    "no number": (["run", "gemm", "--workload", "m=big"], "m is a int, not 'big'", ""),
    "no pair": (["run", "gemm", "--workload", "m=8,k"], "'k' is not NAME=VALUE", ""),
    "arch": (["run", "gemm", "--arch", "sm_80"], "unknown architecture for gemm 'sm_80'", "sm_90a"),
    "no arch": (["run", "gemm", "--arch", "hopper"], "'hopper' is not an architecture", "sm_90a"),
    "tunable": (["run", "gemm", "--param", "stage=3"], "unknown tunable of gemm 'stage'", "stages"),
    "tunable's value": (["run", "gemm", "--param", "stages=many"], "stages is a int, not 'many'", ""),
    "tunable's pair": (["run", "gemm", "--param", "stages"], "'stages' is not NAME=VALUE", ""),
    "timer": (["run", "gemm", "--timer", "protn"], "unknown timer 'protn'", "proton"),
    "cache": (["run", "gemm", "--cache", "hot"], "unknown cache policy 'hot'", "cold, rotate, warm"),
    "compiler": (["run", "gemm", "--compiler", "nvc"], "unknown compiler 'nvc'", "nvcc"),
    "card": (["run", "gemm", "--card", "H200"], "unknown card 'H200'", "H200 SXM"),
    "option": (["run", "gemm", "--tmer", "wall"], "unknown option of tirx-bench run '--tmer'", "--timer"),
    "option=": (["verify", "gemm", "--tmeout=3"], "unknown option of tirx-bench verify '--tmeout'", "--timeout"),
    "option of another command": (["lint", "gemm", "--timer", "wall"], "unknown option of tirx-bench lint '--timer'", ""),
    "option before the command": (["--verson"], "", "tirx-bench --help"),
    "argument too many": (["compare", "a", "b", "c"], "has no use for 'c'", "tirx-bench compare --help"),
    "argument too few": (["compare", "a"], "required: new", "tirx-bench compare --help"),
    "no command": ([], "required: command", "tirx-bench --help"),
    "no value": (["run", "gemm", "--workload"], "--workload: expected one argument", "tirx-bench run --help"),
    "rounds": (["run", "gemm", "--rounds", "few"], "--rounds: invalid int value: 'few'", ""),
    "no rounds": (["run", "gemm", "--rounds", "0"], "a timing takes 1 round at least", ""),
    "flush": (["run", "gemm", "--flush", "reed"], "unknown flush 'reed'", "read"),
    "calls and cold": (["run", "gemm", "--timer", "event", "--calls", "9"], "finds the cache warm", "--cache rotate"),
    "calls and kernel": (["run", "gemm", "--cache", "warm", "--calls", "9"], "need the timer event or graph, not kernel", ""),
    "gate and kernel": (["run", "gemm", "--gate"], "about the event timer only, not kernel", "--timer event --gate"),
    "precision": (["run", "gemm", "--precision", "narrow"], "--precision: invalid percent value: 'narrow'", ""),
    "no precision": (["run", "gemm", "--precision", "0%"], "a precision of 0 is not one", "0.5%"),
    "precision of all": (["run", "gemm", "--precision", "150%"], "a precision of 1.5 is not one", "0.5%"),
    "no time": (["run", "gemm", "--max-time", "0"], "positive block_ms and max_time_s", ""),
    "device": (["run", "gemm", "--device", "first"], "--device: invalid int value: 'first'", ""),
    "two measurements": (["bench", "gemm", "--self-test", "--vs", "torch.mm"], "--self-test and --vs are different", "one at a"),
    "three measurements": (
        ["bench", "gemm", "--self-test", "--first-call", "--vs", "torch.mm"],
        "--self-test and --first-call and --vs are different",
        "one at a time",
    ),
    "pair of two kinds": (["compare", "a.json", "gemm"], "a.json and gemm are not of one kind", "two records (.json)"),
    "older kernel": (["compare", "gem_relu", "gemm"], "unknown kernel 'gem_relu'", "gemm_relu"),
    "newer kernel": (["compare", "gemm", "gem_relu"], "unknown kernel 'gem_relu'", "gemm_relu"),
    "pair of other problems": (["compare", "gemm", "warp_roles"], "gemm and warp_roles solve problems of other parameters", ""),
    "timeout": (["run", "gemm", "--timeout", "0"], "a timeout of 0 s is not one", "between"),
    "endless timeout": (["run", "gemm", "--timeout", "inf"], "a timeout of inf s is not one", "between"),
    "timeout nan": (["run", "gemm", "--timeout", "nan"], "a timeout of nan s is not one", "between"),
    "command of doctor": (["doctor", "benhc"], "unknown command 'benhc'", "bench"),
    "shape": (
        ["run", "warp_roles", "--workload", "n=100"],
        "warp_roles does not accept n=100: it needs n >= 256",
        "another shape",
    ),
    "record": (["show", "no/such/record.json"], "cannot read no/such/record.json", ""),
    "folder": (["show", "tests"], "tests is not a complete artifact", ""),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_exit_code_2_with_the_near_names_and_tvm_is_not_loaded(cli, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "tvm", None)  # an import of it would fail
    monkeypatch.chdir(ROOT)
    argv, said, near = UNKNOWN[name]
    code, text, err = cli(*argv)
    assert (code, text) == (2, "")
    assert said in err.splitlines()[0] and err.startswith("error: ")
    assert near in err


@pytest.mark.parametrize("command", ON_KERNELS)
def test_every_command_on_a_kernel_refuses_unknown_names_alike(cli, command):
    assert (
        cli(command, "gemm_rel")[0]
        == cli(command, "gemm", "--workload", "40")[0]
        == cli(command, "gemm", "--arch", "sm_9")[0]
        == 2
    )


def test_an_option_may_not_be_abbreviated_so_that_a_new_one_breaks_no_script(cli):
    code, _, err = cli("run", "gemm", "--work", "512")
    assert code == 2
    assert "did you mean --workload" in err


def test_an_error_as_json_is_one_object_on_stdout_and_the_message_on_stderr(cli):
    code, text, err = cli("run", "gem_relu", "--json")
    assert code == 2
    assert json.loads(text) == {
        "error": {
            "kind": "UsageError",
            "message": "unknown kernel 'gem_relu'",
            "hint": "did you mean gemm_relu or gemm?",
            "exit_code": 2,
        }
    }  # fmt: skip
    assert err.startswith("error: unknown kernel")


def test_a_wrong_option_as_json_is_an_object_too(cli):
    code, text, _ = cli("list", "--jsn", "--json")
    assert (code, json.loads(text)["error"]["exit_code"]) == (2, 2)


# ------------------------------------------------------------------------------------- what was asked for


def test_the_first_workload_is_the_default_and_labels_and_parameters_choose_others(gives, cli):
    asked = gives(offline_record())
    assert cli("run", "gemm")[0] == 0
    assert cli("run", "gemm", "--workload", "512", "--workload", "m=64,k=128")[0] == 0
    assert [job.workload for job in asked] == [None, "512", "m=64,k=128"]


def test_workload_all_is_every_workload_of_the_file(gives, cli):
    asked = gives(offline_record())
    assert cli("compile", "warp_roles", "--workload", "all")[0] == 0
    assert [job.workload for job in asked] == ["256", "1M"]


def test_parameters_lie_over_the_first_workloads_and_make_the_label(roles):
    gemm = catalog.find("gemm").kernel
    found = pipeline.parse_workload(gemm, "m=64, k=128")
    assert found == Workload("m=64,n=4096,k=128,dtype=bfloat16", {"m": 64, "n": 4096, "k": 128, "dtype": "bfloat16"})
    assert pipeline.parse_workload(gemm, None).label == "4096"
    assert pipeline.parse_workload(roles, "1M").params == {"n": 1 << 20}
    switch = replace(roles, workloads=(Workload("x", {"n": 1, "on": False, "scale": 1.0}),))
    assert pipeline.parse_workload(switch, "on=True,scale=2").params == {"n": 1, "on": True, "scale": 2.0}


def test_the_options_reach_the_job(gives, cli, tmp_path):
    asked = gives(offline_record())
    cli(
        "bench", "gemm", "--param", "bn=128", "--param", "stages=3", "--arch", "sm_90a", "--out", tmp_path, "--compiler", "nvrtc",
        "--flag=-lineinfo", "--card", "H100 SXM", "--timeout", "5", "--seed", "7",
        "--timer", "event", "--cache", "warm", "--flush", "discard", "--calls", "20", "--rounds", "4", "--precision", "0.1%",
        "--max-time", "7.5", "--cooldown", "2", "--device", "3",
    )  # fmt: skip
    how = TimingPolicy(
        "event", "warm", "discard", 20, rounds=4, max_rounds=4, precision=0.001, max_time_s=7.5, cooldown_s=2, seed=7
    )
    assert asked == [
        Job("gemm", None, "sm_90a", ("bn=128", "stages=3"), "nvrtc", ("-lineinfo",), tmp_path, "H100 SXM",
            how, 5.0, device=3)
    ]  # fmt: skip


@pytest.mark.parametrize("text, precision", [("0.5%", 0.005), ("2%", 0.02), ("0.01", 0.01), ("1e-3", 0.001)])
def test_a_precision_is_a_percentage_or_a_fraction(gives, cli, text, precision):
    asked = gives(offline_record())
    assert cli("run", "gemm", "--precision", text)[0] == 0
    assert asked[0].policy == TimingPolicy(precision=precision)


def test_a_gate_reaches_the_policy_and_without_options_the_policy_is_the_default(gives, cli):
    asked = gives(offline_record())
    cli("run", "gemm", "--timer", "event", "--gate")
    cli("run", "gemm")
    assert [job.policy for job in asked] == [TimingPolicy("event", gate=True), TimingPolicy()]


def test_rounds_are_as_many_as_asked_for_neither_more_nor_fewer(gives, cli):
    asked = gives(offline_record())
    cli("run", "gemm", "--rounds", "100")
    assert (asked[0].policy.rounds, asked[0].policy.max_rounds) == (100, 100)


def test_quick_is_a_policy_of_its_own_and_other_options_lie_over_it(gives, cli):
    asked = gives(offline_record())
    cli("run", "gemm", "--quick")
    cli("run", "gemm", "--quick", "--rounds", "2", "--timer", "wall")
    assert [job.policy for job in asked] == [QUICK, replace(QUICK, rounds=2, max_rounds=2, timer="wall")]
    assert QUICK.max_rounds < TimingPolicy().rounds and QUICK.timer == TimingPolicy().timer


@pytest.mark.parametrize("command", ["bench", "run", "compare"])
def test_the_help_names_every_timer_cache_policy_and_flush(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in (*TIMERS, *CACHES, *FLUSHES))


# ------------------------------------------------------------------------------------------------ the work


def test_run_without_a_device_does_the_rest_says_what_it_left_out_and_writes_a_record(cli, out):
    code, text, err = cli("run", ROLES, "--out", out)
    assert (code, err) == (0, "")
    assert f"left out     numerics and timing: {NO_GPU}" in text
    for part in ("lint", "resources", "occupancy", "instructions", "ptxas", "floor", "artifact"):
        assert re.search(rf"^{part} ", text, re.MULTILINE)
    path = Path(text.splitlines()[-1].removeprefix("record").strip())
    kept = read_record(path)
    assert (kept.kernel, kept.workload.label, kept.timing, kept.verification) == ("warp_roles", "256", None, None)
    assert Path(kept.artifact.folder, "kernel.cubin").is_file()
    assert kept.environment["apache-tvm"].startswith("0.27")


def test_run_as_json_is_the_record_and_its_path(cli, out):
    code, text, _ = cli("run", ROLES, "--out", out, "--json")
    found = json.loads(text)
    path = found.pop("path")
    assert code == 0
    assert found == to_plain(read_record(Path(path)))


def test_one_workload_that_fails_does_not_stop_the_next_and_the_exit_code_is_the_worst(cli, out):
    code, text, err = cli("run", ROLES, "--out", out, "--workload", "n=100", "--workload", "256", "--workload", "3M")
    assert code == 2
    assert text.lstrip().startswith("warp_roles 256: n=256 ")
    assert err.count("error: ") == 2 and "n=100" in err and "'3M'" in err


def test_runs_of_one_workload_within_a_second_leave_a_record_each_and_show_finds_the_last(cli, tmp_path, monkeypatch):
    answers = {
        "build_functions": {},
        "lint": (),
        "compile_functions": offline_record().artifact,
        "artifact_mix": {},
        "software": {},
    }
    for name, answer in answers.items():
        monkeypatch.setattr(steps, name, lambda *_, answer=answer, **__: answer)
    for rate in (1, 2, 3):
        monkeypatch.setattr(steps, "_data_sheet", lambda card, work, rate=rate: Peak("a card", rate, rate))
        assert cli("run", ROLES, "--out", tmp_path)[0] == 0
    assert [read_record(path).theoretical.tflops for path in records(tmp_path)] == [1, 2, 3]


def test_several_workloads_as_json_are_a_list_with_the_errors_in_their_places(cli, gives):
    def answer(job):
        return FailedError("it broke", "mend it") if job.workload == "512" else offline_record()

    gives(answer)
    code, text, _ = cli("run", "gemm", "--json", "--workload", "1024", "--workload", "512", "--workload", "2048")
    first, second, third = json.loads(text)
    assert code == 1
    assert second == {"error": {"kind": "FailedError", "message": "it broke", "hint": "mend it", "exit_code": 1}}
    assert first == third == {**to_plain(offline_record()), "path": "/records/r.json"}


@pytest.mark.parametrize("order", [(MissingError, FailedError), (FailedError, MissingError)], ids=["3 then 1", "1 then 3"])
def test_the_worst_exit_code_counts_in_whatever_order_workloads_fail(cli, gives, order):
    errors = iter([*(error("it broke") for error in order), offline_record()])
    gives(lambda job: next(errors))
    assert cli("run", "gemm", "--workload", "512", "--workload", "1024", "--workload", "2048")[0] == 3


def test_compile_and_lint_need_no_gpu(cli, out):
    code, text, _ = cli("compile", ROLES, "--out", out)
    assert code == 0 and "resources" in text and "record  " not in text
    assert cli("lint", ROLES) == (0, "no findings\n", "")
    assert cli("lint", ROLES, "--json")[1] == "[]\n"


@pytest.mark.parametrize("command", ON_THE_GPU)
def test_what_needs_a_device_is_exit_code_3_without_one_and_names_the_command_that_does_not(cli, command, monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", None)  # nothing is built first
    code, text, err = cli(command, ROLES)
    assert (code, text) == (3, "")
    assert f"{command} needs a GPU and {NO_GPU}" in err
    assert "tirx-bench run" in err


def test_a_device_of_another_architecture_is_exit_code_3_for_bench_and_left_out_by_run(cli, monkeypatch, out):
    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "80")
    code, _, err = cli("bench", ROLES, "--out", out)
    assert code == 3
    assert "this machine's device is sm_80 and the kernel was compiled for sm_90a" in err
    code, text, _ = cli("run", ROLES, "--out", out)
    assert code == 0
    assert "left out     numerics and timing: this machine's device is sm_80" in text


def test_the_architecture_of_the_device_here_is_the_default(cli, monkeypatch, gives):
    monkeypatch.setattr(PLAN, "present_arch", lambda index: ["90", "100"][index])
    assert [pipeline.plan(Job(ROLES, device=n)).arch for n in (0, 1)] == ["sm_90a", "sm_100a"]
    assert pipeline.plan(Job("gemm", device=1)).arch == "sm_90a"


def test_a_device_that_is_not_there_is_exit_code_3_for_bench_and_left_out_by_run(cli, monkeypatch, out):
    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "90" if index == 0 else "")
    code, _, err = cli("bench", ROLES, "--out", out, "--device", "2")
    assert code == 3 and "there is no device 2" in err
    code, text, _ = cli("run", ROLES, "--out", out, "--device", "2")
    assert code == 0 and "left out     numerics and timing: there is no device 2" in text


def with_device(monkeypatch, answer):
    """A machine with a device whose processes answer so, or as a function of the request does."""
    asked = []

    class Process(contextlib.nullcontext):
        def __init__(self, device=0, serial=False):
            super().__init__()

        def __enter__(self):
            return self

        def perform(self, request, timeout_s, progress):
            asked.append(request)
            progress("launching")
            return answer(request) if callable(answer) else answer

    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "90")
    for module in (pipeline, versus, first_call, verifying):
        monkeypatch.setattr(module, "GpuProcess", Process)
    return asked


def test_bench_on_a_device_merges_the_answer_into_the_record(cli, monkeypatch, out):
    whole = record(times={"warp_roles": steady(10)}, kernel="warp_roles")
    operations = (Operation("warp_roles", ("warp_roles_kernel",), 1, "TIRx", None, "none"),)
    answer = Answer(
        {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}, whole.verification, whole.timing, whole.measured, ("baseline x: no",),
        (Status("SHARED", "process 7"),), operations,
    )  # fmt: skip
    asked = with_device(monkeypatch, answer)
    code, text, _ = cli("bench", ROLES, "--out", out, "--json", "--seed", "5")
    kept = read_record(Path(json.loads(text)["path"]))
    assert code == 0
    assert (kept.verification, kept.timing, kept.measured) == (answer.verification, answer.timing, answer.measured)
    assert (kept.environment["gpu"], kept.left_out) == ("NVIDIA H200", ("baseline x: no",))
    assert (kept.statuses, kept.operations) == (answer.statuses, operations)
    (request,) = asked
    assert (request.action, request.policy.seed, request.version.artifact) == ("bench", 5, kept.artifact.folder)
    assert (request.vs, request.old) == (None, None)
    assert catalog.find(request.version.spec).kernel.name == "warp_roles", "another process finds the kernel by it"


def test_hidden_work_of_the_kernel_is_exit_code_1_and_said_where_the_time_would_be(cli, monkeypatch, out):
    hides = Status("HIDDEN_WORK", "busy for 30 us", "warp_roles")
    reason = "timing: HIDDEN_WORK: busy for 30 us"
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(), left_out=(reason,), statuses=(hides,)))
    for command in ("run", "bench"):
        code, text, _ = cli(command, ROLES, "--out", out)
        assert code == 1
        assert "time         not timed\n               HIDDEN_WORK warp_roles: busy for 30 us" in text
        assert f"left out     {reason}" in text


def test_a_failed_verification_is_exit_code_1_and_nothing_is_timed(cli, monkeypatch, out):
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(wrong_elements=2)))
    for command in ("run", "bench"):
        code, text, _ = cli(command, ROLES, "--out", out)
        assert code == 1
        assert "FAILED: c" in text
        assert "left out     timing: nothing is timed that did not pass verification" in text
    assert cli("verify", ROLES, "--out", out)[0] == 1


# ------------------------------------------------------------------------------------------- exit codes

WARNING, ERROR, NOTE = (Finding("X", severity, "said") for severity in ("warning", "error", "note"))


@pytest.mark.parametrize("command", [c for c in ON_KERNELS if c not in ("lint", "simulate")])
@pytest.mark.parametrize("found, plain, strict", [(NOTE, 0, 0), (WARNING, 0, 1), (ERROR, 1, 1)], ids=["note", "warning", "error"])
def test_an_error_fails_and_strict_makes_warnings_fail_too(cli, gives, command, found, plain, strict):
    gives(record(lint=(found,)))
    assert cli(command, "gemm")[0] == plain
    assert cli(command, "gemm", "--strict")[0] == strict
    assert cli(command, "gemm", "--strict", "--json")[0] == strict


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["untimed first", "untimed last"])
def test_a_bench_that_timed_nothing_is_exit_code_4_and_a_run_is_not(cli, gives, order):
    untimed = offline_record()
    gives(untimed)
    assert (cli("bench", "gemm")[0], cli("run", "gemm")[0]) == (4, 0)
    failed = record(verification=verification(wrong_elements=2), timing=None)
    gives(failed)
    assert cli("bench", "gemm")[0] == 1, "it failed, which says more"
    both = iter([[untimed, failed][n] for n in order])
    gives(lambda job: next(both))
    assert cli("bench", "gemm", "--workload", "512", "--workload", "1024")[0] == 4, "the worst"


@pytest.mark.parametrize("found, plain, strict", [(NOTE, 0, 0), (WARNING, 0, 1), (ERROR, 1, 1)], ids=["note", "warning", "error"])
def test_lint_fails_by_the_same_rule(cli, monkeypatch, found, plain, strict):
    monkeypatch.setattr(pipeline, "lint_job", lambda job: (found,))
    assert cli("lint", "gemm")[:2] == (plain, f"{found.severity}[X] said\n")
    assert cli("lint", "gemm", "--strict")[0] == strict
    assert json.loads(cli("lint", "gemm", "--json")[1])[0]["severity"] == found.severity


@pytest.mark.parametrize("error, code", [(FailedError, 1), (MissingError, 3), (NothingRanError, 4)])
def test_each_kind_of_error_has_its_exit_code_and_says_what_to_do_next(cli, gives, error, code):
    gives(error("this happened", "do that"))
    assert cli("run", "gemm") == (code, "", "error: this happened\nnext: do that\n")


def test_a_slow_ratio_alone_does_not_fail(cli, gives):
    gives(record(us=1000))
    code, text, _ = cli("run", "gemm")
    assert code == 0 and "0.020x as fast" in text


def test_an_interrupt_is_exit_code_130_without_a_traceback(cli, gives):
    gives(KeyboardInterrupt())
    assert cli("run", "gemm") == (130, "", "interrupted\n")
    assert cli("run", "gemm", "--workload", "512", "--workload", "1024")[0] == 130, "the next workload is not begun"


def test_a_bug_of_ours_is_said_to_be_one_with_its_traceback(gives, capsys):
    gives(ZeroDivisionError("oh"))
    assert main(["run", "gemm"]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in err and "this is a bug of tirx-bench" in err


def test_a_full_disk_is_no_bug_of_ours(cli, gives):
    gives(OSError(28, "No space left on device"))
    before = sys.stdout
    try:
        code = main(["run", "gemm"])
    finally:
        sys.stdout = before
    assert code == 2


# ------------------------------------------------------------------------------------------------ show


def test_show_prints_a_record_again_and_as_json_the_record_itself(cli, tmp_path):
    path = write_record(record(), tmp_path)
    code, text, _ = cli("show", path)
    assert code == 0
    assert text.startswith("add big:") and text.endswith(f"record       {path}\n")
    assert json.loads(cli("show", path, "--json")[1]) == to_plain(record())


def test_show_html_writes_the_record_as_one_page_and_says_where(cli, tmp_path):
    path, html = write_record(record(), tmp_path), tmp_path / "page.html"
    assert cli("show", path, "--html", html) == (0, f"{html}\n", "")
    text = html.read_text()
    assert text.lstrip().lower().startswith("<!doctype html") and "NVIDIA H200" in text and "torch.add" in text
    assert cli("show", "--out", tmp_path, "--html", html)[0] == 0, "the last record"


@pytest.mark.parametrize(
    "where, why", [("no/such/folder/page.html", "No such file"), (".", "Is a directory"), ("r/x", "Not a dir")]
)
def test_show_html_that_cannot_be_written_is_exit_code_2(cli, tmp_path, where, why):
    path = write_record(record(), tmp_path)
    (tmp_path / "r").write_text("")
    code, text, err = cli("show", path, "--html", tmp_path / where)
    assert (code, text) == (2, "") and err.startswith(f"error: cannot write {tmp_path / where}: {why}")


def test_show_html_of_an_artifact_folder_is_exit_code_2_and_writes_nothing(cli, out, tmp_path):
    folder = json.loads(cli("compile", ROLES, "--out", out, "--json")[1])["artifact"]["folder"]
    code, text, err = cli("show", folder, "--html", tmp_path / "page.html")
    assert (code, text) == (2, "") and err.startswith(f"error: {folder} is an artifact, and a page shows a record\n")
    assert "tirx-bench show RECORD --html FILE" in err and not (tmp_path / "page.html").exists()


def test_show_without_a_path_is_the_last_record_of_the_folder(cli, tmp_path):
    for month in (3, 1, 2):
        write_record(offline_record(created=f"2026-{month:02}-01T00:00:00+00:00", kernel=f"k{month}"), tmp_path)
    assert cli("show", "--out", tmp_path)[1].startswith("k3 ")


def test_show_where_there_is_no_record_says_what_writes_one(cli, tmp_path):
    code, _, err = cli("show", "--out", tmp_path)
    assert code == 2
    assert "there is no record under" in err and "tirx-bench run" in err


def test_show_of_an_artifact_folder_is_what_it_holds(cli, out):
    kept = json.loads(cli("compile", ROLES, "--out", out, "--json")[1])["artifact"]
    code, text, _ = cli("show", kept["folder"])
    assert code == 0
    assert "warp_roles_kernel" in text and kept["code_hash"] in text
    assert json.loads(cli("show", kept["folder"], "--json")[1]) == kept


# ------------------------------------------------------------------------------------------- processes


def test_python_m_is_the_program():
    done = program("-m", "tirx_bench", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    "argv, code", [(["list"], 0), (["list", "--json"], 0), (["run", "no", "--json"], 0), (["run", "--help"], 0)], ids=str
)
def test_a_reader_that_goes_away_gets_no_traceback(argv, code):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run([sys.executable, "-m", "tirx_bench", *argv], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_output_that_cannot_be_written_gets_no_traceback(where):
    done = subprocess.run(f"{sys.executable} -m tirx_bench list {where}", shell=True, stderr=subprocess.PIPE, text=True)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert (done.returncode, "No space left" in done.stderr) == ((2, True) if "full" in where else (0, False))


SLEEPER = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from helpers_records import kernel, steady

def build():
    Path({marker!r}).write_text("")
    time.sleep(60)

KERNEL = kernel(name="sleeper", build=build)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_the_program_with_130_and_no_traceback(tmp_path, number):
    marker = tmp_path / "building"
    file = tmp_path / "sleeper.py"
    file.write_text(SLEEPER.format(tests=str(ROOT / "tests"), marker=str(marker)))
    argv = [sys.executable, "-m", "tirx_bench", "compile", str(file), "--out", str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=default_signals)
    deadline = time.monotonic() + 30
    while not marker.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    text, err = process.communicate(timeout=30)
    assert (process.returncode, text, err) == (130, "", "interrupted\n")


def default_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def test_a_kernel_file_run_by_python_does_what_run_does(tmp_path, out):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "tirx").symlink_to(out)  # where most of it is compiled already
    before = records(out)
    done = program(ROLES, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("warp_roles 256: n=256 (sm_90a, nvcc ")
    assert "left out     numerics and timing: " in done.stdout
    (path,) = set(records(out)) - set(before)
    assert read_record(path).command == "warp_roles.py"


def test_a_kernel_file_run_by_python_ends_as_run_does(tmp_path):
    file = tmp_path / "add.py"
    file.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(ROOT / "tests")!r})
        from helpers_records import kernel, offline_record
        from tirx_bench import bench, script
        from tirx_bench.model import Finding

        def build(m, k):
            raise ValueError("no such schedule")

        KERNEL = kernel(build=build)
        ENDS = {{
            "broken": lambda: bench(KERNEL),
            "unknown": lambda: bench(KERNEL, "smal"),
            "error": lambda: offline_record(lint=(Finding("X", "error", "said"),)),
        }}
        if __name__ == "__main__":
            script(ENDS[sys.argv[1]])
    """)
    )
    broken, unknown, error = (program(file, how, cwd=tmp_path) for how in ("broken", "unknown", "error"))
    assert broken.returncode == 1
    assert "the build of add raised ValueError: no such schedule" in broken.stderr and "add.py:9" in broken.stderr
    assert unknown.returncode == 2 and "did you mean small" in unknown.stderr
    assert error.returncode == 1 and "error[X] said" in error.stdout
    assert not any("Traceback" in done.stderr for done in (broken, unknown, error))


def test_vs_gives_a_verdict_and_its_exit_code(cli, monkeypatch, out):
    for us, verdict, code in ((30.0, "faster", 0), (34.0, "slower", 1), (32.0, "same", 0)):
        times = {"warp_roles": steady(us, rounds=16), "torch.add": steady(32.0, rounds=16)}
        whole = record(times=times, kernel="warp_roles")
        with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, whole.verification, whole.timing, whole.measured))
        found, text, _ = cli("bench", ROLES, "--vs", "torch.add", "--out", out)
        assert found == code
        assert f"{ROLES} against torch.add: {verdict}: {us:.2f} us after 32.00 us" in text
        found, text, _ = cli("bench", ROLES, "--vs", "torch.add", "--out", out, "--json")
        assert (found, json.loads(text)["vs"]["verdict"]) == (code, verdict)


def test_vs_an_unknown_baseline_is_refused_before_anything_is_compiled(cli):
    code, _, err = cli("bench", ROLES, "--vs", "torch.ad")
    assert code == 2 and "unknown baseline of warp_roles 'torch.ad'" in err and "torch.add" in err


def test_vs_a_baseline_that_was_left_out_is_exit_code_4(cli, monkeypatch, out):
    whole = record(times={"warp_roles": steady(30.0, rounds=16)}, kernel="warp_roles")
    with_device(
        monkeypatch, Answer({"gpu": "NVIDIA H200"}, whole.verification, whole.timing, None, ("baseline torch.add: it raised",))
    )
    code, text, err = cli("bench", ROLES, "--vs", "torch.add", "--out", out)
    assert code == 4 and "torch.add was not timed" in err
    assert "left out     baseline torch.add: it raised" in text and "record       " in text


@pytest.mark.parametrize(
    "status, timer, code, verdict",
    [
        (Status("SHARED", "process 7"), "event", 4, "inconclusive"),
        (Status("HOST_BOUND", "+20 us", "torch.add"), "event", 4, "inconclusive"),
        (Status("HOST_BOUND", "+20 us", "torch.add"), "kernel", 0, "faster"),
        (Status("DRIFT", "+4.4%", "warp_roles"), "event", 0, "faster"),
    ],
)
def test_vs_gives_no_verdict_that_a_status_forbids(cli, monkeypatch, out, status, timer, code, verdict):
    times = {"warp_roles": steady(30.0, rounds=16), "torch.add": steady(32.0, rounds=16)}
    whole = timing(times, TimingPolicy(timer=timer))
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(), whole, statuses=(status,)))
    found, text, _ = cli("bench", ROLES, "--vs", "torch.add", "--out", out)
    assert found == code and f"{ROLES} against torch.add: {verdict}: " in text
    about = f" {status.implementation}" if status.implementation else ""
    assert f"limited by {status.name}{about}: {status.evidence}" in text


def test_vs_on_several_workloads_holds_the_verdicts_together(cli, monkeypatch, out):
    """One is faster in earnest, the other only just."""
    sure = {"warp_roles": steady(30.0, rounds=16), "torch.add": steady(32.0, rounds=16)}
    just = {"warp_roles": [[30.0 * (0.989 + 0.004 * (-1) ** (n // 2))] * 3 for n in range(16)], "torch.add": [[30.0] * 3] * 16}

    def answer(request):
        times = sure if request.workload.label == "256" else just
        return Answer({"gpu": "NVIDIA H200"}, verification(), timing(times, TimingPolicy(timer="event")))

    asked = with_device(monkeypatch, answer)
    code, text, _ = cli("bench", ROLES, "--vs", "torch.add", "--out", out, "--workload", "all")
    assert [request.vs for request in asked] == ["torch.add"] * 2
    assert f"{ROLES} against torch.add, p adjusted by Holm for 2 workloads" in text
    assert re.search(r"^  256 .* faster$", text, re.MULTILINE) and "geometric mean of 2 ratios" in text.splitlines()[-1]
    alone, held = (
        json.loads(cli("bench", ROLES, "--vs", "torch.add", "--out", out, "--json", *which)[1])
        for which in (["--workload", "1M"], ["--workload", "all"])
    )
    assert 0.001 < alone["vs"]["p"] < 0.05, "the larger of two is not doubled, the smaller is"
    assert held[1]["vs"]["p"] == alone["vs"]["p"] and held[0]["vs"]["p"] < 1e-6
    assert code == 0 and [one["vs"]["verdict"] for one in (*held, alone)] == ["faster"] * 3


def test_vs_withdraws_what_only_one_of_several_workloads_shows(cli, monkeypatch, gives):
    """20 problems of equal code, of which one looks slower by chance."""

    def equal(job):
        shift = 0.0105 if job.workload == "m=1" else 0.0
        noise = [0.004 * (-1) ** (n // 2) + shift for n in range(16)]
        times = {"gemm": [[30.0 * (1 + e)] * 3 for e in noise], "torch.mm": [[30.0] * 3] * 16}
        return record(times=times, kernel="gemm", workload=Workload(job.workload, {"m": 1}))

    gives(equal)
    labels = [f"m={n}" for n in range(1, 21)]
    alone, text, _ = cli("bench", "gemm", "--vs", "torch.mm", "--workload", "m=1")
    together, table, _ = cli("bench", "gemm", "--vs", "torch.mm", *(a for label in labels for a in ("--workload", label)))
    first = next(line for line in table.splitlines() if re.match(r"^ +m=1 ", line))
    assert alone == 1 and "slower" in text
    assert together == 4 and first.endswith("inconclusive")


def older_and_newer(us):
    """Answers of a process that has both kernels, the newer one taking `us` and the older one 32 microseconds."""

    def answer(request):
        times = {"warp_roles": steady(us, rounds=16), request.old_name: steady(32.0, rounds=16)}
        return Answer({"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}, verification(), timing(times, TimingPolicy(timer="event")))

    return answer


@pytest.mark.parametrize("us, verdict, code", [(30.0, "faster", 0), (34.0, "slower", 1), (32.0, "same", 0)])
def test_compare_of_two_kernels_measures_both_and_ends_as_the_verdict(cli, monkeypatch, out, us, verdict, code):
    asked = with_device(monkeypatch, older_and_newer(us))
    found, text, _ = cli("compare", "warp_roles", ROLES, "--out", out)
    assert found == code and f"\n{ROLES} against warp_roles (old): {verdict}: {us:.2f} us after 32.00 us" in text
    assert (asked[0].action, asked[0].old_name) == ("versus", "warp_roles (old)")
    path = Path(re.search(r"^record +(.+)$", text, re.MULTILINE)[1])
    assert read_record(path).timing.implementations == ("warp_roles", "warp_roles (old)")
    found, text, _ = cli("compare", "warp_roles", ROLES, "--out", out, "--json")
    one = json.loads(text)
    assert (found, one["vs"]["verdict"], one["kernel"]) == (code, verdict, "warp_roles")
    vs, path = one.pop("vs"), one.pop("path")
    assert one == to_plain(read_record(Path(path))) and vs["old_us"] == pytest.approx(32.0, rel=0.01)


def test_compare_of_two_kernels_on_several_workloads_holds_the_verdicts_together(cli, monkeypatch, out):
    """One is slower in earnest, the other is the same."""
    asked = with_device(monkeypatch, lambda request: older_and_newer({"256": 34.0, "1M": 32.0}[request.workload.label])(request))
    argv = ["compare", "warp_roles", ROLES, "--out", out, "--workload", "all"]
    code, text, _ = cli(*argv)
    assert code == 1 and [request.workload.label for request in asked] == ["256", "1M"]
    assert f"{ROLES} against warp_roles (old), p adjusted by Holm for 2 workloads" in text
    assert re.search(r"^  256 .* slower$", text, re.MULTILINE) and re.search(r"^ +1M .* same$", text, re.MULTILINE)
    assert len(re.findall(r"^record +(.+)$", text, re.MULTILINE)) == 2, "a record of each"
    code, text, _ = cli(*argv, "--json")
    assert code == 1 and [(one["workload"]["label"], one["vs"]["verdict"]) for one in json.loads(text)] == [
        ("256", "slower"), ("1M", "same"),
    ]  # fmt: skip


def test_compare_of_two_kernels_withdraws_what_only_one_of_several_workloads_shows(cli, monkeypatch, tmp_path):
    def equal(old, job, fresh, progress):
        shift = 0.0105 if job.workload == "n=256" else 0.0
        noise = [0.004 * (-1) ** (n // 2) + shift for n in range(16)]
        times = {"warp_roles": [[30.0 * (1 + e)] * 3 for e in noise], versus.old_name(old): [[30.0] * 3] * 16}
        found = record(times=times, kernel="warp_roles", workload=Workload(job.workload, {"n": 1}))
        return found, tmp_path / "r.json"

    monkeypatch.setattr(versus, "versus_job", equal)
    labels = [part for n in range(1, 21) for part in ("--workload", f"n={256 * n}")]
    assert cli("compare", "warp_roles", ROLES, "--workload", "n=256")[0] == 1
    code, text, _ = cli("compare", "warp_roles", ROLES, *labels)
    assert code == 4 and re.search(r"^ +n=256 .* inconclusive$", text, re.MULTILINE)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_workload_that_fails_does_not_stop_the_comparison_of_the_next(cli, monkeypatch, out, as_json):
    def answer(request):
        if request.workload.label == "256":
            raise FailedError("it broke", "mend it")
        return older_and_newer(30.0)(request)

    with_device(monkeypatch, answer)
    argv = ["compare", "warp_roles", ROLES, "--out", out, "--workload", "all", *(["--json"] if as_json else [])]
    code, text, err = cli(*argv)
    assert code == 1 and err == "error: it broke\nnext: mend it\n"
    if as_json:
        first, second = json.loads(text)
        assert first["error"]["message"] == "it broke" and second["vs"]["verdict"] == "faster"
    else:
        assert f"{ROLES} against warp_roles (old): faster: 30.00 us after 32.00 us" in text


def test_a_comparison_that_timed_nothing_is_exit_code_4_and_without_the_older_one_too(cli, monkeypatch, out):
    reason = ("timing: HIDDEN_WORK: busy",)
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(), left_out=reason))
    code, text, _ = cli("compare", "warp_roles", ROLES, "--out", out)
    assert code == 4 and "left out     timing: HIDDEN_WORK: busy" in text and "against" not in text
    assert "vs" not in json.loads(cli("compare", "warp_roles", ROLES, "--out", out, "--json")[1])
    lone = timing({"warp_roles": steady(30.0, rounds=16)}, TimingPolicy(timer="event"))
    left_out = ("warp_roles (old): its outputs were wrong after the timed calls",)
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(), lone, left_out=left_out))
    code, text, err = cli("compare", "warp_roles", ROLES, "--out", out)
    assert code == 4 and "warp_roles (old) was not timed" in err and f"left out     {left_out[0]}" in text


def test_a_comparison_whose_newer_kernel_is_wrong_is_exit_code_1(cli, monkeypatch, out):
    with_device(monkeypatch, Answer({"gpu": "NVIDIA H200"}, verification(wrong_elements=2)))
    code, text, _ = cli("compare", "warp_roles", ROLES, "--out", out)
    assert code == 1 and "FAILED: c" in text


@pytest.mark.parametrize("rounds", ["1", "2"])
def test_a_comparison_of_one_round_says_neither_nan_nor_inf(cli, monkeypatch, out, rounds):
    def answer(request):
        times = {"warp_roles": steady(30.0, int(rounds)), request.old_name: steady(32.0, int(rounds))}
        return Answer({"gpu": "NVIDIA H200"}, verification(), timing(times, request.policy))

    with_device(monkeypatch, answer)
    argv = ["compare", "warp_roles", ROLES, "--out", out, "--timer", "event", "--rounds", rounds]
    code, text, _ = cli(*argv)
    assert code == 4 and ", no interval" in text and not re.search(r"\b(nan|inf)\b", text)
    code, text, _ = cli(*argv, "--json")
    one = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert code == 4 and one["vs"]["ratio"] == pytest.approx(30 / 32, rel=0.01) and one["vs"]["high"] is None


def test_compare_of_two_kernels_needs_a_device(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", None)  # nothing is built first
    code, text, err = cli("compare", "warp_roles", ROLES)
    assert (code, text) == (3, "") and f"compare needs a GPU and {NO_GPU}" in err


def test_compare_of_two_kernels_fails_by_warnings_only_when_strict(cli, monkeypatch, tmp_path):
    times = {"warp_roles": steady(30.0, rounds=16), "old.py (old)": steady(32.0, rounds=16)}
    warned = record(times=times, kernel="warp_roles", lint=(Finding("X", "warning", "said"),))
    monkeypatch.setattr(versus, "versus_job", lambda *_: (warned, tmp_path / "r.json"))
    assert cli("compare", "old.py", "warp_roles")[0] == 0
    assert cli("compare", "old.py", "warp_roles", "--strict")[0] == 1


def test_first_call_shows_every_stage_of_five_fresh_processes(cli, monkeypatch, out):
    seconds = iter(range(1, 99))
    asked = with_device(
        monkeypatch, lambda request: Answer({"gpu": "NVIDIA H200"}, stages={"build": 0.5, "first call": next(seconds) / 1000})
    )
    code, text, _ = cli("bench", "warp_roles", "--first-call", "--out", out)
    assert (code, len(asked), {r.action for r in asked}) == (0, 5, {"first-call"})
    assert text.startswith("warp_roles 256, 5 fresh processes on NVIDIA H200\n")
    assert re.search(r"^  first call +3.0 ms +1.0 ms +5.0 ms$", text, re.MULTILINE)
    one = json.loads(cli("bench", "warp_roles", "--first-call", "--json", "--out", out)[1])
    assert one["stages_s"]["first call"] == [n / 1000 for n in range(6, 11)]
    several = json.loads(cli("bench", "warp_roles", "--first-call", "--json", "--out", out, "--workload", "all")[1])
    assert [found["workload"] for found in several] == ["256", "1M"]


@pytest.mark.parametrize("option", [["--flag=-G"], ["--compiler", "nvrtc"], ["--flag=-G", "--compiler", "nvrtc"]], ids=str)
def test_first_call_is_that_of_a_plain_build_and_refuses_others_before_a_process_starts(cli, monkeypatch, option):
    asked = with_device(monkeypatch, Answer({}))
    code, text, err = cli("bench", "warp_roles", "--first-call", *option)
    assert (code, text, asked) == (2, "", [])
    assert err == "error: the first call is that of a plain build\nnext: without --compiler and --flag\n"


def test_first_call_needs_a_device(cli):
    code, _, err = cli("bench", ROLES, "--first-call")
    assert code == 3 and f"bench --first-call needs a GPU and {NO_GPU}" in err


def test_a_self_test_keeps_a_floor_that_later_verdicts_use(cli, monkeypatch, out):
    card = {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}
    twin = record(times={"warp_roles": steady(30.0, rounds=16), SAME_CODE: steady(30.6, rounds=16)}, kernel="warp_roles")
    asked = with_device(monkeypatch, Answer(card, twin.verification, twin.timing))
    code, text, _ = cli("bench", ROLES, "--self-test", "--out", out)
    assert (code, asked[0].action) == (0, "self-test")
    assert "noise floor 1.98%" in text
    whole = record(times={"warp_roles": steady(20.0, rounds=16), "torch.add": steady(32.0, rounds=16)}, kernel="warp_roles")
    with_device(monkeypatch, Answer(card, whole.verification, whole.timing))
    code, text, _ = cli("bench", ROLES, "--vs", "torch.add", "--out", out)
    assert code == 4 and "the noise floor of this card is 2.0%" in text
    assert cli("bench", ROLES, "--vs", "torch.add", "--out", out, "--cache", "warm")[0] == 0, "a floor is of one cache policy"
    assert cli("bench", ROLES, "--vs", "torch.add", "--out", out, "--flush", "discard")[0] == 0, "and of one way to evict"
    assert cli("bench", ROLES, "--self-test", "--vs", "torch.add", "--out", out)[0] == 2


def test_list_shows_the_kernels_of_an_installed_package_and_says_what_it_lacks(cli):
    code, _, err = cli("list", "tirx_kernels")
    assert code == 3 and "tirx_kernels" in err
    code, _, err = cli("list", "tirx_kernel")
    assert code == 2 and "did you mean tirx_kernels?" in err
