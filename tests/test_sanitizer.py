"""compute-sanitizer: captured reports, reports that are none, and a script that plays the tool, without a GPU."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from helpers_records import RESOURCES, artifact, offline_record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tirx_bench import doctor
from tirx_bench.cli import main
from tirx_bench.collect.sanitizer import ENVIRONMENT, FOUND, RECORDS, TOOLS, check_of, collect
from tirx_bench.model import FailedError, Finding, MissingError, Place, UsageError, Workload
from tirx_bench.pipeline import Job, sanitizing
from tirx_bench.pipeline.child import _timed_out
from tirx_bench.pipeline.request import Request, Version
from tirx_bench.reports.sanitizer import findings, read
from tirx_bench.tools import TimedOutError

DATA = Path(__file__).parent / "data" / "sanitizer"
PLAN = sys.modules["tirx_bench.pipeline.plan"]  # pipeline.plan is its function
KERNELS = {"memcheck": "scale_kernel", "racecheck": "transpose_kernel", "synccheck": "roles_kernel", "initcheck": "add_kernel"}
FULL = [tool for tool in TOOLS if tool != "initcheck"]
REPORT = "<ComputeSanitizerOutput>{}</ComputeSanitizerOutput>"
RECORD = (
    "<record><kind>{kind}</kind>{level}<what><text>{text}</text></what>"
    "<where><func>{func}</func><path>/w/{file}</path><line>{line}</line><pc>0x10</pc></where></record>"
)


def record_xml(kind="Precise", level="", text="Something __bad__", func="k", file="kernel.cu", line=3) -> str:
    return RECORD.format(kind=kind, level=level and f"<level>{level}</level>", text=text, func=func, file=file, line=line)


@pytest.fixture
def source(tmp_path):
    """A kernel.cu whose every line says its number."""
    path = tmp_path / "kernel.cu"
    path.write_text("".join(f"    line_{n}();\n" for n in range(1, 121)))
    return path


def found_in(text: str | bytes, tmp_path, functions=("k",), tool="memcheck"):
    report = tmp_path / "report.xml"
    report.write_bytes(text if isinstance(text, bytes) else text.encode())
    return findings(read(report), tool, functions, tmp_path / "kernel.cu")


# --------------------------------------------------------------------------------------- captured reports


def captured(tool, source):
    return findings(read(DATA / f"{tool}.xml"), tool, [KERNELS[tool]], source)


def test_memcheck_is_one_finding_for_a_line_and_the_failed_cuda_call_after_it_is_none(source):
    assert captured("memcheck", source) == (
        Finding(
            "memcheck",
            "error",
            "4-byte read of global memory out of bounds, 3 times, first by thread (104,0,0) of block (7,0,0)",
            Place(str(source), 73),
            "line_73();; scale_kernel+0x80",
        ),
    )


def test_racecheck_shows_every_side_and_adds_the_hazards_of_equal_records_up(source):
    found = captured("racecheck", source)
    assert [(f.rule, f.severity, f.place.line) for f in found] == [("racecheck", "error", line) for line in (79, 80, 81, 82)]
    assert found[0].message == "race in shared memory: nothing orders this write and 4 other accesses, 2 times"
    assert found[0].witness == (
        "write at kernel.cu:79, transpose_kernel+0x1e0: line_79();",
        "read at kernel.cu:85, transpose_kernel+0x240: line_85(); (57344 hazards)",
        "read at kernel.cu:86, transpose_kernel+0x250: line_86(); (65536 hazards)",
        "read at kernel.cu:87, transpose_kernel+0x260: line_87(); (65536 hazards)",
        "read at kernel.cu:88, transpose_kernel+0x270: line_88(); (65536 hazards)",
    )


def test_synccheck_points_at_the_kernels_line_that_calls_the_barrier_and_has_no_level(source):
    (found,) = captured("synccheck", source)
    assert (found.severity, found.place) == ("error", Place(str(source), 95))
    assert found.message == "barrier error: divergent thread(s) in block, 2 times, first by thread (32,0,0) of block (8,0,0)"
    assert found.evidence == "line_95();; roles_kernel+0x2d0"
    assert found.witness == ("in kernel.cu:69, tvm_builtin_cuda_cta_sync+0x2d0: line_69();",)


def test_a_report_without_records_has_no_findings(source):
    assert captured("initcheck", source) == ()


def test_host_frames_are_in_the_reports_and_not_in_the_findings(source):
    assert all("PackFuncVoidAddr" in (DATA / f"{tool}.xml").read_text() for tool in ("memcheck", "synccheck"))
    assert not any("PackFunc" in str(captured(tool, source)) for tool in ("memcheck", "synccheck"))


def test_a_source_that_is_not_there_leaves_function_and_instruction(tmp_path):
    (found,) = captured("memcheck", tmp_path / "gone" / "kernel.cu")
    assert found.evidence == "scale_kernel+0x80" and found.place == Place(str(tmp_path / "gone" / "kernel.cu"), 73)


# ------------------------------------------------------------------------------------------- made-up ones


@pytest.mark.parametrize(
    "level, severity", [("Error", "error"), ("Fatal", "error"), ("Warning", "warning"), ("Info", "note"), ("", "error")]
)
def test_the_level_is_the_severity(tmp_path, level, severity):
    (found,) = found_in(REPORT.format(record_xml(level=level)), tmp_path)
    assert (found.severity, found.message) == (severity, "something bad")


def test_what_happened_in_another_kernel_is_left_out_and_in_a_helper_of_this_one_is_not(tmp_path):
    torch = record_xml(func="at::native::fill", file="fill.cuh")
    helper = record_xml(func="tvm_helper")
    assert found_in(REPORT.format(torch), tmp_path) == ()
    assert len(found_in(REPORT.format(torch + helper + record_xml()), tmp_path)) == 2


def test_what_nobody_places_is_shown_without_a_place(tmp_path):
    text = REPORT.format("<record><kind>Imprecise</kind><what><text>Hardware exception</text></what></record>")
    assert found_in(text, tmp_path) == (Finding("memcheck", "error", "hardware exception"),)


def test_records_of_other_lines_or_other_faults_stay_apart(tmp_path):
    text = record_xml() + record_xml(line=4) + record_xml(text="other") + record_xml()
    assert [f.message for f in found_in(REPORT.format(text), tmp_path)] == ["something bad, 2 times", "something bad", "other"]


# --------------------------------------------------------------------------------------- reports that are none


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kept", [0, 0.3, 0.6, 0.95])
def test_a_report_that_was_cut_short_is_no_answer(tmp_path, tool, kept):
    whole = (DATA / f"{tool}.xml").read_bytes()
    report = tmp_path / "report.xml"
    report.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(FailedError, match="report.xml is empty, cut short or no report of compute-sanitizer"):
        read(report)


@pytest.mark.parametrize(
    "text, why",
    [
        (b" \n", "no element"),
        (b"========= ERROR SUMMARY: 0 errors\n", "not well-formed"),
        (b"\x01\xff" * 20, "not well-formed"),
        (b"<html/>", "its root is html"),
        (REPORT.format("<session/>").encode(), "it holds a session"),
        (REPORT.format("<record/>").encode(), "does not say what happened"),
        (REPORT.format("<record><what><text> </text></what></record>").encode(), "does not say what happened"),
        (REPORT.format("<record><what><text>Race</text><source/></what></record>").encode(), "one side of a race"),
        (REPORT.format(record_xml(line="many")).encode(), "invalid literal"),
        (REPORT.format(record_xml(line="9" * 5000)).encode(), "digits"),
        (b'<?xml version="1.0" encoding="klingon"?><ComputeSanitizerOutput/>', "unknown encoding"),
        (b'<?xml version="1.0" encoding="utf-32"?><ComputeSanitizerOutput/>', "encoding"),
    ],
    ids=lambda part: part[:40] if isinstance(part, str) else part[:40].decode(errors="ignore").strip(" \n\0") or "blank",
)  # fmt: skip
def test_what_is_no_report_is_refused_with_the_file_and_the_reason(tmp_path, text, why):
    with pytest.raises(FailedError) as refused:
        found_in(text, tmp_path)
    assert str(tmp_path / "report.xml") in refused.value.message and why in refused.value.message


def test_an_absent_report_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.xml", tmp_path):
        with pytest.raises(FailedError, match=f"there is no report of compute-sanitizer at {path}"):
            read(path)


def answers_or_refuses(data: bytes, folder: Path) -> None:
    try:
        found = found_in(data, folder)
    except FailedError:
        return
    assert all(isinstance(f, Finding) for f in found)


QUICKLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICKLY
@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(tmp_path, data):
    answers_or_refuses(data, tmp_path)


NAMES = sorted({element.tag for tool in FULL for element in ElementTree.parse(DATA / f"{tool}.xml").iter()})
TEXTS = st.one_of(
    st.integers().map(str), st.sampled_from(["Error", "Api", "k", "/w/kernel.cu", ""]), st.text("ab:_é/", max_size=5)
)


def elements(children):
    return st.tuples(st.sampled_from(NAMES), TEXTS, st.lists(children, max_size=4))


@QUICKLY
@given(st.lists(st.recursive(st.tuples(st.sampled_from(NAMES), TEXTS, st.just([])), elements, max_leaves=12), max_size=3))
def test_any_tree_of_its_elements_is_an_answer_or_refused(tmp_path, trees):
    root = ElementTree.Element("ComputeSanitizerOutput")

    def build(parent, tree):
        name, text, children = tree
        element = ElementTree.SubElement(parent, name)
        element.text = text
        for child in children:
            build(element, child)

    for _, text, children in trees:
        build(root, ("record", text, children))
    answers_or_refuses(ElementTree.tostring(root), tmp_path)


@QUICKLY
@given(st.sampled_from(FULL), st.data())
def test_a_captured_report_with_a_hole_is_an_answer_or_refused(tmp_path, tool, data):
    whole = (DATA / f"{tool}.xml").read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    answers_or_refuses(whole[:start] + whole[start + data.draw(st.integers(1, 400)) :], tmp_path)


# ------------------------------------------------------------------------------------------ the command


def options_of(check):
    """The arguments before the program that is watched, and that program."""
    at = check.argv.index("--save") + 2
    return check.argv[1:at], check.argv[at:]


def test_the_kernels_own_functions_alone_are_watched_except_by_initcheck(tmp_path):
    checks = [check_of(tool, tmp_path / "r.xml", ["first", "second"], ["program", "-x"]) for tool in TOOLS]
    for check in checks:
        options, program = options_of(check)
        assert program == ("program", "-x")
        assert " ".join(options).startswith(f"--tool {check.tool} --target-processes all --error-exitcode {FOUND} ")
        names = [options[n + 1] for n, option in enumerate(options) if option == "--kernel-name"]
        assert names == ([] if check.tool == "initcheck" else ["kernel_name=first", "kernel_name=second"])
        assert ("--padding" in options) == (check.tool == "memcheck")
        assert options[-3:] == ("--xml", "--save", str(tmp_path / "r.xml"))


def test_a_percent_sign_in_the_reports_path_is_doubled():
    assert options_of(check_of("memcheck", Path("/a%p/r.xml"), [], []))[0][-1] == "/a%%p/r.xml"


def test_the_shell_line_is_the_run_with_its_environment(tmp_path):
    check = check_of("memcheck", tmp_path / "with space" / "r.xml", ["k"], ["program"])
    assert shlex.split(check.shell) == ["env", *(f"{k}={v}" for k, v in ENVIRONMENT.items()), *check.argv]


# ------------------------------------------------------------------------------------ a script that plays it


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Install a shell script as compute-sanitizer; in it, $tool and $report are the run's. Gives the log of its arguments."""
    home, log = tmp_path / "cuda", tmp_path / "sanitizer.log"
    monkeypatch.setenv("CUDA_HOME", str(home))

    def install(script: str) -> Path:
        path = home / "bin" / "compute-sanitizer"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = 'tool=$2; while [ "$1" != --save ]; do shift; done; report=$2'
        path.write_text(f'#!/bin/sh\necho "$@" >> {log}\ndata={DATA}\n{found}\n{script}\n')
        path.chmod(0o755)
        return log

    return install


@pytest.fixture
def missing(tmp_path, monkeypatch):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def compiled(tmp_path, source, monkeypatch):
    """A machine with a device, and warp_roles compiled already, with the functions of all captured reports."""
    functions = tuple(replace(RESOURCES, function=name) for name in KERNELS.values())
    record = offline_record(
        kernel="warp_roles", artifact=artifact(kernel="warp_roles", folder=str(source.parent), resources=functions), left_out=()
    )
    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "90")
    for name in ("compiled", "launchable"):
        monkeypatch.setattr(sanitizing, name, lambda planned, progress: record)
    return record


@pytest.fixture
def sanitize(tmp_path, compiled):
    def act(*tools, timeout_s=20.0, **job):
        planned = PLAN.plan(Job("warp_roles", out=tmp_path / "out", **job))
        told = []
        found, reports = sanitizing.sanitize(planned, compiled, tools or TOOLS, told.append, timeout_s)
        return SimpleNamespace(found=found, reports=reports, told=told)

    return act


CAPTURED = 'cp $data/$tool.xml "$report"; [ $tool = initcheck ] || exit 77'
CLEAN = 'cp $data/initcheck.xml "$report"'


def failing_launch(message: str, status: int = 1, report: str = CLEAN) -> str:
    return f"echo '========= COMPUTE-SANITIZER'; {report}\nprintf '%s\\n' {shlex.quote(message)} >&2; exit {status}"


def test_every_tool_runs_on_the_same_launch_and_leaves_its_report(tool, sanitize, tmp_path):
    log = tool(CAPTURED)
    answer = sanitize(device=1, flags=("-G",), workload="n=512")
    lines = log.read_text().splitlines()
    assert [line.split()[1] for line in lines] == list(TOOLS)
    assert len({line.partition(" -m tirx_bench ")[2] for line in lines}) == 1
    assert answer.told == [f"{name} ({n} of 4)" for n, name in enumerate(TOOLS, 1)]
    assert [f.rule for f in answer.found] == ["memcheck", "racecheck", "racecheck", "racecheck", "racecheck", "synccheck"]
    folder = tmp_path / "out" / "reports"
    assert answer.reports == tuple(folder / f"warp_roles-{tmp_path.name}-{name}.xml" for name in TOOLS)


def test_the_launch_is_of_the_same_code_on_the_same_inputs(compiled, tmp_path):
    job = Job("gemm", workload="m=512,n=512,k=512", tunables=("stages=3",), flags=("-G",), device=1, out=tmp_path, arch="sm_90a")
    (check,) = sanitizing.sanitizer_checks(replace(job, policy=replace(job.policy, seed=7), timeout_s=9), ["memcheck"])
    program = options_of(check)[1]
    assert program[:4] == (sys.executable, "-m", "tirx_bench", "launch") and program[4].endswith("gemm.py:gemm")
    planned = PLAN.plan(job)
    assert PLAN.parse_workload(planned.kernel, program[program.index("--workload") + 1]) == planned.workload
    rest = " ".join(program[program.index("--param") :])
    assert rest == f"--param stages=3 --arch sm_90a --compiler nvcc --flag=-G --seed 7 --device 1 --timeout 9 --out {tmp_path}"
    main_parser = sys.modules["tirx_bench.cli"].parser()
    assert main_parser.parse_args(program[3:]).flag == ["-G"]


def test_the_run_is_without_torchs_pools(tool, sanitize, tmp_path):
    tool(f'echo "$PYTORCH_NO_CUDA_MEMORY_CACHING" > {tmp_path}/variable; {CLEAN}')
    assert sanitize("memcheck").found == ()
    assert (tmp_path / "variable").read_text() == "1\n"


def test_an_earlier_report_is_not_taken_for_this_runs(tool, sanitize):
    tool(CAPTURED)
    assert sanitize("memcheck").found
    tool("exit 0")
    with pytest.raises(FailedError, match=r"there is no report of compute-sanitizer at .*-memcheck\.xml"):
        sanitize("memcheck")


@pytest.mark.parametrize("status", [0, FOUND])
def test_a_report_that_cannot_be_read_is_never_no_findings(tool, sanitize, status):
    tool(f'head -c 700 $data/memcheck.xml > "$report"; exit {status}')
    with pytest.raises(FailedError, match=r"-memcheck\.xml is empty, cut short"):
        sanitize("memcheck")


@pytest.mark.parametrize("report", ["", CLEAN, 'echo "<Comp" > "$report"'], ids=["none", "clean", "cut"])
@pytest.mark.parametrize("status", [1, 2, 3, FOUND])
def test_a_launch_that_failed_for_another_reason_is_that_failure(tool, sanitize, report, status):
    tool(failing_launch("error: there is no device 2\nnext: name another", status, report))
    with pytest.raises(FailedError) as failed:
        sanitize("memcheck")
    assert failed.value.message == "memcheck gave no answer, because the launch failed: there is no device 2"
    assert failed.value.hint == "name another"


@pytest.mark.parametrize("status", [1, 77, 139, 255])
def test_a_status_without_a_record_is_a_failure_with_the_last_lines(tool, sanitize, status):
    tool(failing_launch("Segmentation fault", status))
    with pytest.raises(FailedError) as failed:
        sanitize("memcheck")
    assert f"it ended with status {status} and " in failed.value.message
    assert "-memcheck.xml names no error of the kernel" in failed.value.message
    assert failed.value.message.endswith("========= COMPUTE-SANITIZER\nSegmentation fault")


def test_what_the_tool_found_counts_although_the_launch_failed_of_it(tool, sanitize):
    tool(failing_launch("error: a kernel faulted", 1, CAPTURED.partition(";")[0]))
    assert [f.rule for f in sanitize("memcheck").found] == ["memcheck"]


def test_a_kernel_with_a_lint_error_is_launched_and_ends_with_1_without_any_failure(tool, sanitize, compiled):
    tool(f"{CLEAN}; exit 1")
    with pytest.raises(FailedError):
        sanitize("memcheck")
    object.__setattr__(compiled, "lint", (Finding("IK001", "error", "unbalanced"),))
    assert sanitize("memcheck").found == ()


def test_records_of_torchs_kernels_alone_are_no_findings(tool, sanitize, tmp_path):
    (tmp_path / "torch.xml").write_text(REPORT.format(record_xml(func="at::fill", file="fill.cuh")))
    tool(f'cp {tmp_path}/torch.xml "$report"; exit {FOUND}')
    assert sanitize("initcheck").found == ()


def test_a_tool_that_gives_no_answer_after_another_found_errors_takes_nothing_back(tool, sanitize):
    tool(f'[ $tool = memcheck ] && {{ cp $data/memcheck.xml "$report"; exit 77; }}\n{failing_launch("error: a kernel faulted")}')
    found = sanitize("memcheck", "synccheck").found
    assert [(f.rule, f.severity) for f in found] == [("memcheck", "error"), ("sanitizer-failed", "warning")]
    assert found[1].message == "synccheck gave no answer, because the launch failed: a kernel faulted"


def test_a_report_at_its_limit_says_so(tool, sanitize, tmp_path):
    (tmp_path / "many.xml").write_text(REPORT.format(record_xml(func="scale_kernel") * RECORDS))
    tool(f'cp {tmp_path}/many.xml "$report"; exit {FOUND}')
    error, note = sanitize("memcheck").found
    assert f"{RECORDS} times" in error.message
    assert (note.severity, note.message) == (
        "note",
        f"the report ends at its limit of {RECORDS} records; there may be more behind it",
    )


# --------------------------------------------------------------------------------------- hangs, and their end


def test_a_launch_that_hung_keeps_what_was_found_before(tool, sanitize):
    request = Request("launch", Version("k.py:k", {}, "/build/k"), Workload("512", {}), Job("k").policy, "/peaks")
    message = _timed_out(request, "launching", 20.0).message  # what launch prints is what is looked for
    tool(failing_launch(f"error: {message}\nnext: wait", 1, 'cp $data/synccheck.xml "$report"'))
    found = sanitize("synccheck").found
    assert [(f.rule, f.severity) for f in found] == [("synccheck", "error"), ("sanitizer-timeout", "error")]
    assert found[1].message == "synccheck did not end within 20 s: the kernel hangs, or it is too much work for this tool"
    assert "smaller --workload" in found[1].witness[0]
    tool(failing_launch(f"error: {message}", 1, ""))
    assert [f.rule for f in sanitize("synccheck").found] == ["sanitizer-timeout"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def ended(tool, tmp_path, monkeypatch):
    """A tool that starts sessions in sessions and hangs, ended with an error once it has started all of them."""
    pids, script = tmp_path / "pids", tmp_path / "tree.sh"
    pids.touch()
    script.write_text(f"echo $$ >> {pids}\n[ $1 = 1 ] || setsid sh $0 $(($1 - 1)) &\nsleep 60\n")
    tool(f"sh {script} 3 & sh {script} 1")

    def after(error):
        def communicate(self, timeout):
            while len(pids.read_text().splitlines()) < 4:
                time.sleep(0.005)
            raise error

        monkeypatch.setattr("subprocess.Popen.communicate", communicate)

    yield after
    deadline = time.monotonic() + 5
    started = [int(line) for line in pids.read_text().splitlines()]
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started and not any(map(alive, started))


def test_a_tool_that_hangs_is_ended_with_all_that_it_started_in_sessions_of_their_own_too(sanitize, ended):
    ended(subprocess.TimeoutExpired("compute-sanitizer", 1))
    answer = sanitize("memcheck")
    assert [(f.rule, f.severity) for f in answer.found] == [("sanitizer-timeout", "error")] and answer.reports == ()


def test_an_interrupt_ends_the_same_tree(sanitize, ended):
    ended(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sanitize("memcheck")


def test_a_folder_that_cannot_be_written_is_exit_code_2(tool, tmp_path):
    tool(CLEAN)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write") as refused:
        collect(check_of("memcheck", tmp_path / "file" / "r.xml", [], []), 5)
    assert "--out" in refused.value.hint


def test_collect_itself_says_that_it_was_killed(tool, tmp_path):
    tool("sleep 60")
    with pytest.raises(TimedOutError):
        collect(check_of("memcheck", tmp_path / "r.xml", [], []), 0.1)


# ---------------------------------------------------------------------------------------- the command line


@pytest.fixture
def cli(capsys, tmp_path):
    def act(*argv, kernel="warp_roles"):
        code = main(["collect", "sanitizer", kernel, "--out", str(tmp_path / "out"), *map(str, argv)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return act


def test_findings_and_reports_are_printed_and_an_error_is_exit_code_1(cli, tool, compiled, source):
    tool(CAPTURED)
    code, text, err = cli("--tool", "memcheck", "--tool", "initcheck")
    assert (code, err) == (1, "")
    assert text.startswith("warp_roles 256: memcheck, initcheck\n\n")
    assert f"{source}:73: error[memcheck] 4-byte read of global memory out of bounds, 3 times" in text
    assert text.count("\nreport       ") == 2 and f"\nartifact     {source.parent}\n" in text


def test_no_findings_is_exit_code_0(cli, tool, compiled):
    tool(CLEAN)
    code, text, _ = cli()
    assert code == 0 and "\nno findings\n" in text and f"warp_roles 256: {', '.join(TOOLS)}\n" in text


@pytest.mark.parametrize("level, plain, strict", [("Warning", 0, 1), ("Info", 0, 0), ("Error", 1, 1)])
def test_warnings_fail_when_strict(cli, tool, compiled, tmp_path, level, plain, strict):
    (tmp_path / "one.xml").write_text(REPORT.format(record_xml(level=level)))
    tool(f'cp {tmp_path}/one.xml "$report"; exit {FOUND}')
    assert cli("--tool", "racecheck")[0] == plain
    assert cli("--tool", "racecheck", "--strict")[0] == strict


def test_json_holds_the_findings_and_where_the_reports_are(cli, tool, compiled):
    tool(CAPTURED)
    code, text, _ = cli("--json")
    found = json.loads(text)
    assert code == 1 and found["tools"] == list(TOOLS) and len(found["findings"]) == 6
    assert [Path(path).is_file() for path in found["reports"]] == [True] * 4
    assert found["findings"][0]["place"]["line"] == 73


def test_a_workload_that_fails_does_not_stop_the_next(cli, tool, compiled):
    tool(f"case \"$*\" in *'--workload 256 '*) {failing_launch('error: broken')};; *) {CLEAN};; esac")
    code, text, err = cli("--tool", "memcheck", "--workload", "256", "--workload", "1M", "--json")
    broken, clean = json.loads(text)
    assert code == 1 and "broken" in err
    assert broken["error"]["kind"] == "FailedError" and clean["workload"] == "1M" and clean["findings"] == []


def test_a_dry_run_prints_one_command_for_each_tool_and_runs_none_without_a_device_or_the_tool(
    cli, compiled, missing, monkeypatch
):
    monkeypatch.setattr(PLAN, "absent", lambda: "there is no CUDA device")
    code, text, err = cli("--dry-run", "--seed", "3")
    lines = [shlex.split(line) for line in text.splitlines()]
    assert (code, err) == (0, "") and [line[line.index("--tool") + 1] for line in lines] == list(TOOLS)
    assert all(line[:3] == ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", "compute-sanitizer"] for line in lines)
    assert all(line[line.index("--seed") + 1] == "3" for line in lines)
    assert all(f"kernel_name={resources.function}" in lines[0] for resources in compiled.artifact.resources)
    code, text, _ = cli("--dry-run", "--json", "--tool", "synccheck")
    (plain,) = json.loads(text)
    assert plain["argv"][:3] == ["compute-sanitizer", "--tool", "synccheck"] and plain["environment"] == ENVIRONMENT
    assert plain["report"].endswith("-synccheck.xml")


def test_without_the_tool_it_is_exit_code_3_before_anything_is_compiled(cli, compiled, missing, monkeypatch):
    monkeypatch.setattr(sanitizing, "launchable", None)
    code, text, err = cli()
    assert (
        (code, text) == (3, "")
        and "compute-sanitizer was not found" in err
        and "CUDA toolkit, in the package cuda-sanitizer" in err
    )
    with pytest.raises(MissingError):
        sanitizing.sanitize(PLAN.plan(Job("warp_roles")), compiled)


def test_without_a_device_it_is_exit_code_3(cli, compiled, tool, monkeypatch):
    monkeypatch.setattr(PLAN, "absent", lambda: "there is no CUDA device")
    code, _, err = cli()
    assert code == 3 and "collect needs a GPU and there is no CUDA device" in err


@pytest.mark.parametrize(
    "argv, said",
    [
        (["collect", "sanitizer", "gemm", "--tool", "racechek"], "did you mean racecheck"),
        (["collect", "sanitiser", "gemm"], "did you mean sanitizer?"),
        (["collect", "sanitizer", "gem"], "did you mean gemm"),
        (["collect", "sanitizer", "gemm", "--timeout", "0"], "a timeout of 0 s is not one"),
    ],
)
def test_unknown_names_are_exit_code_2_with_the_nearest(capsys, argv, said):
    assert main(argv) == 2
    assert said in "".join(capsys.readouterr())


def test_a_tool_that_is_named_twice_runs_once(cli, tool, compiled):
    log = tool(CLEAN)
    cli("--tool", "memcheck", "--tool", "memcheck")
    assert len(log.read_text().splitlines()) == 1


def test_the_help_names_every_tool_and_doctor_the_program(capsys):
    with pytest.raises(SystemExit):
        main(["collect", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text for name in TOOLS) and "default 300" in text
    assert "compute-sanitizer" in doctor.NEEDS["collect"] and "cuda-sanitizer" in doctor.TOOLS["compute-sanitizer"]
    assert sanitizing.TIMEOUT_S == 300
