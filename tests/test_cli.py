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
from helpers_records import offline_record, record, steady, verification

from tirx_bench import __version__, catalog, doctor, pipeline
from tirx_bench.cli import COMMANDS, main
from tirx_bench.cli.commands import QUICK
from tirx_bench.model import CACHES, TIMERS, FailedError, Finding, MissingError, NothingRanError, Peak, TimingPolicy, Workload
from tirx_bench.pipeline import Job
from tirx_bench.pipeline.request import SAME_CODE, Answer
from tirx_bench.serial import to_plain
from tirx_bench.store import read_record, records, write_record

ROOT = Path(__file__).parents[1]
ROLES = str(ROOT / "kernels" / "warp_roles.py")
NO_GPU = "there is no CUDA device: the driver lists none"
ON_KERNELS = [name for name in COMMANDS if name not in ("list", "doctor", "show", "compare")]
ON_THE_GPU = ["verify", "bench", "launch"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """The same machine everywhere: one without a device."""
    for module in (pipeline, doctor):
        monkeypatch.setattr(module, "absent", lambda: NO_GPU)
        monkeypatch.setattr(module, "present_arch", lambda: "")
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
    "cache": (["run", "gemm", "--cache", "hot"], "unknown cache policy 'hot'", "cold, warm"),
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
    "no rounds": (["run", "gemm", "--rounds", "0"], "rounds >= 1", ""),
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
        "--timer", "wall", "--cache", "warm", "--rounds", "4",
    )  # fmt: skip
    assert asked == [
        Job("gemm", None, "sm_90a", ("bn=128", "stages=3"), "nvrtc", ("-lineinfo",), tmp_path, "H100 SXM",
            TimingPolicy("wall", "warm", rounds=4, seed=7), 5.0)
    ]  # fmt: skip


def test_quick_is_a_policy_of_its_own_and_other_options_lie_over_it(gives, cli):
    asked = gives(offline_record())
    cli("run", "gemm", "--quick")
    cli("run", "gemm", "--quick", "--rounds", "2", "--timer", "wall")
    assert [job.policy for job in asked] == [QUICK, replace(QUICK, rounds=2, timer="wall")]


def test_the_help_names_every_timer_and_cache_policy(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in (*TIMERS, *CACHES))


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
    steps = {
        "build_functions": {},
        "lint": (),
        "compile_functions": offline_record().artifact,
        "artifact_mix": {},
        "software": {},
    }
    for name, answer in steps.items():
        monkeypatch.setattr(pipeline, name, lambda *_, answer=answer, **__: answer)
    for rate in (1, 2, 3):
        monkeypatch.setattr(pipeline, "_data_sheet", lambda card, work, rate=rate: Peak("a card", rate, rate))
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
    monkeypatch.setattr(pipeline, "absent", lambda: "")
    monkeypatch.setattr(pipeline, "present_arch", lambda: "80")
    code, _, err = cli("bench", ROLES, "--out", out)
    assert code == 3
    assert "this machine's device is sm_80 and the kernel was compiled for sm_90a" in err
    code, text, _ = cli("run", ROLES, "--out", out)
    assert code == 0
    assert "left out     numerics and timing: this machine's device is sm_80" in text


def test_the_architecture_of_the_device_here_is_the_default(cli, monkeypatch, gives):
    monkeypatch.setattr(pipeline, "present_arch", lambda: "100")
    assert pipeline.plan(Job(ROLES)).arch == "sm_100a"
    assert pipeline.plan(Job("gemm")).arch == "sm_90a"


def with_device(monkeypatch, answer):
    """A machine with a device whose process answers so."""
    asked = []

    class Process(contextlib.nullcontext):
        def __enter__(self):
            return self

        def perform(self, request, timeout_s, progress):
            asked.append(request)
            progress("launching")
            return answer

    monkeypatch.setattr(pipeline, "absent", lambda: "")
    monkeypatch.setattr(pipeline, "present_arch", lambda: "90")
    monkeypatch.setattr(pipeline, "GpuProcess", Process)
    return asked


def test_bench_on_a_device_merges_the_answer_into_the_record(cli, monkeypatch, out):
    whole = record(times={"warp_roles": steady(10)}, kernel="warp_roles")
    answer = Answer(
        {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}, whole.verification, whole.timing, whole.measured, ("baseline x: no",)
    )
    asked = with_device(monkeypatch, answer)
    code, text, _ = cli("bench", ROLES, "--out", out, "--json", "--seed", "5")
    kept = read_record(Path(json.loads(text)["path"]))
    assert code == 0
    assert (kept.verification, kept.timing, kept.measured) == (answer.verification, answer.timing, answer.measured)
    assert (kept.environment["gpu"], kept.left_out) == ("NVIDIA H200", ("baseline x: no",))
    (request,) = asked
    assert (request.action, request.policy.seed, request.artifact) == ("bench", 5, kept.artifact.folder)
    assert catalog.find(request.spec).kernel.name == "warp_roles", "another process finds the kernel by it"


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


@pytest.mark.parametrize("command", [c for c in ON_KERNELS if c != "lint"])
@pytest.mark.parametrize("found, plain, strict", [(NOTE, 0, 0), (WARNING, 0, 1), (ERROR, 1, 1)], ids=["note", "warning", "error"])
def test_an_error_fails_and_strict_makes_warnings_fail_too(cli, gives, command, found, plain, strict):
    gives(offline_record(lint=(found,)))
    assert cli(command, "gemm")[0] == plain
    assert cli(command, "gemm", "--strict")[0] == strict
    assert cli(command, "gemm", "--strict", "--json")[0] == strict


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
        assert f"warp_roles against torch.add: {verdict}: {us:.2f} us after 32.00 us" in text
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
    assert cli("bench", ROLES, "--self-test", "--vs", "torch.add", "--out", out)[0] == 2


def test_list_shows_the_kernels_of_an_installed_package_and_says_what_it_lacks(cli):
    code, _, err = cli("list", "tirx_kernels")
    assert code == 3 and "tirx_kernels" in err
    code, _, err = cli("list", "tirx_kernel")
    assert code == 2 and "did you mean tirx_kernels?" in err
