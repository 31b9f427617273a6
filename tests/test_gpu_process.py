"""The process that steps onto the GPU, played by small scripts: whatever it does, the parent ends it and says what happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from helpers_records import offline_record, record, verification

from tirx_bench import pipeline
from tirx_bench.cli import main
from tirx_bench.model import FailedError, MissingError, NothingRanError, TimingPolicy, UsageError, Workload
from tirx_bench.pipeline import child
from tirx_bench.pipeline.request import Answer, Request, Version
from tirx_bench.serial import to_plain
from tirx_bench.tools import TimedOutError

VERSION = Version("/kernels/add.py:add", {"bn": 64}, "/build/add/0123")
REQUEST = Request("bench", VERSION, Workload("512", {"m": 512}), TimingPolicy(), "/build")
ANSWER = Answer({"gpu": "NVIDIA H200"}, record().verification, record().timing, record().measured, ("a baseline",))
SHORT_S = 0.4

WORKER = """
import json, os, signal, sys, time
channel = int(sys.argv[1])
open(__file__ + ".ready", "w").close()
request = sys.stdin.readline()

def send(**message):
    raw(json.dumps(message) + "\\n")

def raw(text):
    os.write(channel, text.encode())

def forever():
    while True:
        time.sleep(60)

"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Let a script play the worker. What `install` returns holds the processes that were started."""

    def install(body):
        script = tmp_path / "worker.py"
        script.write_text(WORKER + textwrap.dedent(body))
        started = []

        def start(argv, **options):
            name = argv.index("tirx_bench.pipeline.worker")
            ready = Path(f"{script}.ready")
            ready.unlink(missing_ok=True)
            process = real_start([*argv[: name - 1], "-I", "-S", str(script), *argv[name + 1 :]], **options)
            while not ready.exists() and process.poll() is None:
                time.sleep(0.005)  # a busy machine's start-up is no part of the short limits below
            started.append(process)
            return process

        monkeypatch.setattr(child, "start", start)
        return started

    real_start = child.start
    return install


def ask(timeout_s=20.0, progress=lambda step: None):
    with child.GpuProcess() as process:
        return process.perform(REQUEST, timeout_s, progress)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def members(group: int) -> list[int]:
    """The processes of a group that run; a zombie that waits for its parent does not."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, process_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state not in "ZX":
                found.append(int(entry.name))
    return found


def group_gone(group: int) -> bool:
    deadline = time.monotonic() + 10
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not members(group)


# ---------------------------------------------------------------------------------------------- it works


def test_steps_are_told_in_order_and_the_answer_comes_back_whole(worker):
    started = worker(f"""
        send(step="loading the kernel")
        send(step="launching")
        send(answer=json.loads({json.dumps(to_plain(ANSWER))!r}))
    """)
    steps = []
    assert ask(progress=steps.append) == ANSWER
    assert steps == ["loading the kernel", "launching"]
    assert group_gone(started[0].pid)


def test_the_worker_gets_the_request_as_it_was(worker):
    worker("""send(answer={"environment": {"request": json.loads(request)}})""")
    assert ask().environment["request"] == to_plain(REQUEST)


def test_a_message_in_two_pieces_and_two_in_one_are_understood(worker):
    worker("""
        raw('{"step": "a"}\\n{"step": "b"}\\n{"st')
        time.sleep(0.05)
        raw('ep": "c"}\\n{"answer": {"environment": {}}}\\nleft over')
    """)
    steps = []
    assert ask(progress=steps.append) == Answer({})
    assert steps == ["a", "b", "c"]


def test_a_large_answer_comes_through_the_pipe(worker):
    worker("""send(answer={"environment": {"text": "x" * 3_000_000}})""")
    assert len(ask().environment["text"]) == 3_000_000


def test_what_a_worker_prints_is_no_part_of_the_protocol(worker):
    worker("""
        print("hello"); print('{"error": 1}', file=sys.stderr, flush=True)
        send(answer={"environment": {}})
    """)
    assert ask() == Answer({})


def test_a_worker_that_hangs_after_its_answer_is_ended_and_the_answer_counts(worker):
    started = worker("""send(answer={"environment": {}}); forever()""")
    assert ask() == Answer({})
    assert group_gone(started[0].pid)


@pytest.mark.parametrize("visible, index, one", [(None, 0, "0"), (None, 2, "2"), ("GPU-a, GPU-b", 1, "GPU-b"), ("5,3", 0, "5")])
def test_the_worker_sees_the_one_device_that_was_asked_for(worker, monkeypatch, visible, index, one):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    worker("""send(answer={"environment": {"visible": os.environ["CUDA_VISIBLE_DEVICES"]}})""")
    with child.GpuProcess(index) as process:
        assert process.perform(REQUEST, 20.0, lambda step: None).environment["visible"] == one


def test_a_device_that_is_not_visible_is_refused_before_a_process_is_started(worker, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    started = worker("forever()")
    with pytest.raises(UsageError, match="there is no device 2: CUDA_VISIBLE_DEVICES is 5,3"), child.GpuProcess(2):
        pass
    assert started == []


def test_no_file_stays_open_and_no_log_stays_behind(worker, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    worker("""send(step="launching"); sys.exit(3)""")
    before = open_files()
    for _ in range(3):
        with pytest.raises(FailedError):
            ask()
    assert open_files() == before
    assert list((tmp_path / "logs").iterdir()) == []


# --------------------------------------------------------------------------------------------- it hangs


def test_a_kernel_that_never_returns_is_killed_in_time_and_named_with_all_that_is_known(worker):
    started = worker("""send(step="loading the kernel"); send(step="launching"); forever()""")
    begun = time.monotonic()
    with pytest.raises(TimedOutError) as raised:
        ask(SHORT_S)
    assert SHORT_S <= time.monotonic() - begun < SHORT_S + 5
    assert raised.value.message == "add 512: the kernel did not return within 0.4 s and was killed; artifact /build/add/0123"
    assert all(word in raised.value.hint for word in ("barrier", "--workload", "--timeout"))
    assert raised.value.exit_code == 1
    assert started[0].returncode == -signal.SIGKILL
    assert group_gone(started[0].pid)


@pytest.mark.parametrize("step", ["making inputs and the reference", "round 3 of 10"])
def test_a_hang_elsewhere_names_the_step(worker, step):
    worker(f"""send(step={step!r}); forever()""")
    with pytest.raises(TimedOutError, match=f"add 512: no progress while {step} within 0.4 s"):
        ask(SHORT_S)


def test_a_worker_that_never_says_anything_hangs_while_starting(worker):
    worker("forever()")
    with pytest.raises(TimedOutError, match="no progress while starting"):
        ask(SHORT_S)


def test_half_a_message_is_no_progress(worker):
    worker("""
        for _ in range(200):
            raw("x")
            time.sleep(0.05)
    """)
    begun = time.monotonic()
    with pytest.raises(TimedOutError):
        ask(SHORT_S)
    assert time.monotonic() - begun < SHORT_S + 5


def test_children_and_grandchildren_are_ended_with_it(worker, tmp_path):
    pids = tmp_path / "pids"
    started = worker(f"""
        for depth in range(3):
            if depth == 2 or os.fork():
                break
        with open({str(pids)!r}, "a") as file:
            print(os.getpid(), file=file)
        if depth == 0:
            while len(open({str(pids)!r}).readlines()) < 3:
                time.sleep(0.01)
            send(step="launching")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        forever()
    """)
    with pytest.raises(TimedOutError):
        ask(1.0)
    known = {int(line) for line in pids.read_text().split()}
    assert len(known) == 3 and started[0].pid in known
    assert group_gone(started[0].pid)


def test_a_slow_worker_that_makes_progress_is_not_killed(worker):
    worker("""
        for n in range(8):
            time.sleep(0.2)
            send(step=f"round {n} of 8")
        send(answer={"environment": {}})
    """)
    steps = []
    begun = time.monotonic()
    assert ask(1.0, steps.append) == Answer({})
    assert time.monotonic() - begun > 1.0
    assert len(steps) == 8


# --------------------------------------------------------------------------------------------- it dies


def test_a_crash_shows_where_the_worker_was_and_what_it_had_printed(worker):
    worker("""
        def inner():
            print("before the crash")
            os.kill(os.getpid(), signal.SIGSEGV)
        inner()
    """)
    with pytest.raises(FailedError) as raised:
        ask()
    assert "before the crash" in raised.value.message and "in inner" in raised.value.message


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL], ids=lambda n: n.name)
def test_a_worker_that_dies_by_a_signal_says_which_and_during_what(worker, number):
    started = worker(f"""send(step="launching"); os.kill(os.getpid(), {int(number)}); forever()""")
    with pytest.raises(FailedError) as raised:
        ask()
    message = raised.value.message
    assert f"add 512: the GPU process was ended by {number.name} while launching; artifact /build/add/0123" in message
    assert raised.value.exit_code == 1 and raised.value.hint
    assert group_gone(started[0].pid)


@pytest.mark.parametrize("status", [0, 3])
def test_a_worker_that_ends_without_an_answer_shows_the_end_of_its_log(worker, status):
    worker(f"""
        send(step="launching")
        for n in range(40):
            print("line", n)
        print("CUDA driver is unhappy", file=sys.stderr)
        sys.exit({status})
    """)
    with pytest.raises(FailedError) as raised:
        ask()
    message = raised.value.message
    assert f"the GPU process ended with status {status} while launching" in message
    assert "CUDA driver is unhappy" in message and "line 39" in message
    assert "line 5\n" not in message, "the end only"
    assert not isinstance(raised.value, TimedOutError)


def test_a_worker_that_says_nothing_at_all_and_ends_has_an_empty_log(worker):
    worker("sys.exit(1)")
    with pytest.raises(FailedError, match=r"ended with status 1 while starting; .*its last lines:\n\(none\)"):
        ask()


def test_a_log_that_is_no_text_is_shown_all_the_same(worker):
    worker("""os.write(1, b"bad \\xff\\xfe bytes"); sys.exit(1)""")
    with pytest.raises(FailedError, match="bad .* bytes"):
        ask()


GARBAGE = {
    "text": "hello world\n",
    "empty line": "\n",
    "cut": '{"step": "laun\n',
    "number": "3\n",
    "null": "null\n",
    "list": '["step"]\n',
    "other key": '{"stop": "launching"}\n',
    "empty object": "{}\n",
    "bytes": "\\x00\\x01\\x02\n",
    "deep": "[" * 60_000 + "\n",
    "answer of another form": '{"answer": {"environment": 3}}\n',
    "answer with a field of another version": '{"answer": {"environment": {}, "colour": 1}}\n',
    "answer with an unknown status": '{"answer": {"environment": {}, "statuses": [{"name": "X", "evidence": ""}]}}\n',
    "answer null": '{"answer": null}\n',
    "error as text": '{"error": "it broke"}\n',
    "error without a hint": '{"error": {"kind": "FailedError", "message": "m"}}\n',
    "error of no kind": '{"error": null}\n',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_on_the_pipe_is_a_clear_error_and_no_traceback(worker, name):
    started = worker(f"""send(step="launching"); raw({GARBAGE[name]!r}); forever()""")
    with pytest.raises(FailedError) as raised:
        ask()
    assert raised.value.exit_code == 1
    assert "the GPU process wrote" in raised.value.message and "while launching" in raised.value.message
    assert len(raised.value.message) < 1500
    assert group_gone(started[0].pid)


# ------------------------------------------------------------------------------------- it says what broke


@pytest.mark.parametrize(
    "kind, wanted, code",
    [
        ("UsageError", UsageError, 2),
        ("MissingError", MissingError, 3),
        ("NothingRanError", NothingRanError, 4),
        ("FailedError", FailedError, 1),
        ("TimedOutError", FailedError, 1),
        ("WorkbenchError", FailedError, 1),
        ("Kernel", FailedError, 1),
        ("os", FailedError, 1),
        ("", FailedError, 1),
    ],
)
def test_each_kind_of_error_comes_back_as_itself_and_anything_else_as_a_failure(worker, kind, wanted, code):
    worker(f"""send(step="launching"); send(error={{"kind": {kind!r}, "message": "it broke", "hint": "mend it"}})""")
    with pytest.raises(wanted) as raised:
        ask()
    assert type(raised.value) is wanted
    assert (raised.value.message, raised.value.hint, raised.value.exit_code) == ("it broke", "mend it", code)


def test_a_failure_without_a_hint_says_when_it_happened(worker):
    worker("""send(step="round 2 of 10"); send(error={"kind": "FailedError", "message": "it broke", "hint": ""})""")
    with pytest.raises(FailedError) as raised:
        ask()
    assert raised.value.hint == "it happened while round 2 of 10"


# ------------------------------------------------------------------------------------------- interrupts


def test_ctrl_c_ends_the_worker_with_all_it_started(worker):
    started = worker("""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.fork():
            send(step="launching")
        forever()
    """)

    def progress(step):
        assert len(members(started[0].pid)) == 2
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(progress=progress)
    finally:
        signal.signal(signal.SIGINT, before)
    assert group_gone(started[0].pid)


def test_an_error_in_the_progress_display_ends_the_worker_too(worker):
    started = worker("""send(step="launching"); forever()""")

    def broken(step):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        ask(progress=broken)
    assert group_gone(started[0].pid)


# ------------------------------------------------------------------------------------- the whole command


@pytest.fixture
def device(monkeypatch, tmp_path):
    """A machine with a device, and a kernel that is compiled already."""
    compiled = offline_record(left_out=())
    monkeypatch.setattr(sys.modules["tirx_bench.pipeline.plan"], "absent", lambda: "")
    monkeypatch.setattr(sys.modules["tirx_bench.pipeline.plan"], "present_arch", lambda index: "90")
    for module in (pipeline, pipeline.steps):
        monkeypatch.setattr(module, "compiled", lambda planned, progress: compiled)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", ["verify", "bench", "run", "launch"])
def test_a_hung_kernel_is_exit_code_1_with_kernel_workload_artifact_and_next_step(worker, device, capsys, command):
    worker("""send(step="launching"); forever()""")
    assert main([command, "warp_roles", "--timeout", "0.3"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    artifact = offline_record().artifact.folder
    assert err.startswith(
        f"error: warp_roles 256: the kernel did not return within 0.3 s and was killed; artifact {artifact}\nnext: "
    )


def test_a_device_out_of_range_is_exit_code_2(worker, device, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    worker("forever()")
    for command in ("verify", "bench", "run", "launch"):
        assert main([command, "warp_roles", "--device", "2"]) == 2
        assert "there is no device 2: CUDA_VISIBLE_DEVICES is 5,3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "body, code, said",
    [
        (
            """send(error={"kind": "MissingError", "message": "torch sees no CUDA device", "hint": "check nvidia-smi"})""",
            3,
            "torch sees",
        ),
        ("""send(error={"kind": "UsageError", "message": "no such input", "hint": "name it"})""", 2, "no such input"),
        ("""send(error={"kind": "FailedError", "message": "a kernel faulted", "hint": ""})""", 1, "a kernel faulted"),
        ("""raw("garbage\\n")""", 1, "garbage"),
        ("""os.kill(os.getpid(), signal.SIGSEGV)""", 1, "SIGSEGV"),
    ],
)
def test_what_the_process_says_decides_the_exit_code_of_the_command(worker, device, capsys, body, code, said):
    worker(body)
    assert main(["bench", "warp_roles"]) == code
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_an_answer_becomes_the_record(worker, device, capsys):
    worker(f"""send(answer=json.loads({json.dumps(to_plain(ANSWER))!r}))""")
    assert main(["bench", "warp_roles", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment"]["gpu"] == "NVIDIA H200"
    assert found["timing"] == to_plain(ANSWER.timing)
    assert found["left_out"] == ["a baseline"]


def test_one_hung_workload_does_not_stop_the_next(worker, device, capsys):
    worker(
        """
        if json.loads(request)["workload"]["label"] == "256":
            send(step="launching"); forever()
        send(answer={"environment": {"gpu": "NVIDIA H200"}, "verification": json.loads('@RIGHT@')})
    """.replace("@RIGHT@", json.dumps(to_plain(verification())))
    )
    assert main(["verify", "warp_roles", "--timeout", "0.3", "--workload", "all"]) == 1
    out, err = capsys.readouterr()
    assert "did not return" in err and "NVIDIA H200" in out
