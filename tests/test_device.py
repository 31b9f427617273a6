"""The compile hook against a stub of the driver, the fake device, NVML and a Proton tree to times. Nothing here needs a GPU."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tirx_bench import device
from tirx_bench.device import Loop
from tirx_bench.device.fake import EVICTION_US, HOST_US, FakeDevice
from tirx_bench.device.nvml import Nvml
from tirx_bench.device.timers import Marks, Timers, scope_times_us
from tirx_bench.model import FailedError, UsageError
from tirx_bench.tools import PROFILER_LIBRARIES, PROFILER_VARIABLES, profiler, visible_device

TESTS = Path(__file__).parent
DATA = TESTS / "data"


@pytest.fixture(scope="module")
def hook(artifact, tmp_path_factory):
    """What data/hook_script.py found out in a process that loads a stub libcuda."""
    folder = tmp_path_factory.mktemp("stub")
    subprocess.run(
        ["gcc", "-w", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(DATA / "libcuda_stub.c")], check=True
    )
    kernel = TESTS.parent / "kernels" / "warp_roles.py"
    done = subprocess.run(
        [sys.executable, str(DATA / "hook_script.py"), artifact.folder, str(kernel), str(folder / "library.so")],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tvm_asks_once_and_with_the_text_of_the_artifact(hook):
    assert hook["asked"] == [True]


def test_what_tvm_loads_is_the_cubin_of_the_artifact(hook):
    assert hook["exported"]


def test_the_hook_that_was_there_before_comes_back(hook):
    assert hook["restored"]
    assert all(hook[case]["restored"] for case in ("other", "interrupted", "nothing", "fallback"))


def test_the_text_of_another_kernel_is_refused(hook, artifact):
    assert hook["other"]["message"].startswith("TVM generated another CUDA text (")
    assert f"than the artifact's ({artifact.source_sha256[:12]})" in hook["other"]["message"]
    assert "compile again" in hook["other"]["hint"]


def test_an_error_of_another_kind_keeps_its_own_message(hook):
    assert hook["interrupted"]["message"] == "something else"


@pytest.mark.parametrize("case", ["nothing", "fallback"])
def test_it_is_an_error_when_tvm_does_not_ask(hook, case):
    assert hook[case]["message"].startswith("TVM did not ask for the binary")
    assert "TVM_COMPILE_FORCE_FALLBACK" in hook[case]["hint"]


def test_a_stub_of_the_driver_is_no_device(hook):
    assert hook["absent"] == "there is no CUDA device: libcuda.so.1 is a stub" and hook["arch"] == ""


# ----------------------------------------------------------------------------------- is there a device


class Driver:
    """A libcuda with so many devices, of compute capability 9.0."""

    def __init__(self, count=1, init=0):
        self.count, self.init = count, init

    def cuInit(self, flags):
        return self.init

    def cuDeviceGetCount(self, pointer):
        pointer._obj.value = self.count
        return 0

    def cuDeviceGetAttribute(self, pointer, attribute, device):
        if device >= self.count:
            return 101
        pointer._obj.value = {75: 9, 76: 0}[attribute]
        return 0


@pytest.fixture
def driver(monkeypatch):
    def install(found):
        def load(name):
            if isinstance(found, OSError):
                raise found
            return found

        monkeypatch.setattr(device.ctypes, "CDLL", load)

    device._driver.cache_clear()
    yield install
    monkeypatch.undo()
    device._driver.cache_clear()


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (OSError("cannot open"), "the driver's libcuda.so.1 is not installed"),
        (object(), "libcuda.so.1 is a stub"),
        (Driver(count=0), "the driver lists none"),
        (Driver(init=999), "the driver answers error 999"),
    ],
)
def test_the_reason_why_there_is_no_device_is_said(driver, found, reason):
    driver(found)
    assert device.absent() == f"there is no CUDA device: {reason}"
    assert device.present_arch() == ""


def test_a_device_that_is_not_there_has_no_architecture(driver):
    driver(Driver(count=2))
    assert [device.present_arch(index) for index in (0, 1, 2)] == ["90", "90", ""]


def test_a_device_without_torch_cannot_be_used(driver, monkeypatch):
    driver(Driver())
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    assert "torch is not installed" in device.absent()
    assert device.present_arch() == "90"


def test_a_device_with_torch_can_be_used(driver, monkeypatch):
    driver(Driver())
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: object())
    assert device.absent() == ""


# ------------------------------------------------------------------------------------------- the fake


def test_only_calls_move_the_clock_of_the_fake():
    fake = FakeDevice()
    done = []
    kernel = fake.kernel(25.0, lambda: done.append(fake.clock_us))
    slower = fake.kernel(lambda clock: clock / 10)
    assert fake.clock_us == 0
    kernel(), kernel(), slower()
    assert (done, fake.clock_us) == ([0.0, 25.0], 55.0)


def test_what_comes_before_a_call_is_outside_its_time():
    fake = FakeDevice()

    def before():
        fake.clock_us += 7

    readings = fake.time_calls("event", [fake.kernel(10.0), fake.kernel(20.0)], Loop(before, "read"))
    before_each = 7 + EVICTION_US
    assert [(r.us, r.at_us) for r in readings] == [(10.0, HOST_US + before_each), (20.0, HOST_US + 10 + 2 * before_each)]
    assert fake.clock_us == HOST_US + 30.0 + 2 * before_each and fake.evictions == 2 and fake.timers_used == ["event"]


def test_asking_takes_time_even_if_a_kernel_takes_none_and_a_slow_host_takes_its_own():
    fake = FakeDevice()
    fake.time_calls("event", [fake.kernel(0.0)] * 3, Loop(lambda: None))
    assert fake.clock_us == HOST_US > 0
    fake.time_calls("event", [fake.kernel(10.0, host_us=5.0)] * 2, Loop(lambda: None, gate=True))
    assert fake.clock_us == 2 * HOST_US + 2 * 15.0, "also where a gate keeps it out of the interval"


def test_calls_back_to_back_are_one_reading_which_is_their_mean():
    fake = FakeDevice()
    times = iter([10.0, 20.0, 60.0])
    (reading,) = fake.time_calls("event", [fake.kernel(lambda clock: next(times))], Loop(lambda: None, calls=3))
    assert reading.us == 30.0 and fake.clock_us == HOST_US + 90.0
    (replayed,) = fake.time_calls("graph", [fake.capture(fake.kernel(10.0), 4)], Loop(lambda: None, calls=4))
    assert replayed.us == 10.0 and fake.clock_us == 2 * HOST_US + 130.0


def test_the_host_is_in_an_event_interval_unless_a_gate_holds_the_device_and_never_in_a_kernel_span():
    fake = FakeDevice()
    fake.tracing_us = 2.0
    call = fake.kernel(10.0, host_us=5.0, idle_us=3.0)
    plain, gated = (fake.time_calls("event", [call], Loop(lambda: None, gate=gate))[0] for gate in (False, True))
    (traced,) = fake.time_calls("kernel", [call], Loop(lambda: None))
    assert (plain.us, gated.us) == (15.0, 10.0)
    assert (traced.us, traced.busy_us, traced.event_us, traced.kernels) == (10.0, 7.0, 17.0, ("kernel",))


def test_the_timer_of_the_fake_may_have_steps():
    fake = FakeDevice()
    fake.step_us = 0.5
    readings = fake.time_calls("event", [fake.kernel(us) for us in (0.1, 8.2, 8.6, 8.9)], Loop(lambda: None))
    assert [r.us for r in readings] == [0.5, 8.0, 8.5, 8.5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_a_poisoned_array_of_floats_is_all_nan(dtype):
    fake = FakeDevice()
    array = fake.poisoned((2, 3), dtype)
    assert array.shape == (2, 3) and fake.dtype_of(array) == dtype
    assert np.isnan(fake.widen(array)).all()


@pytest.mark.parametrize(("dtype", "value"), [("int32", -1), ("uint8", 255), ("int8", -1), ("int64", -1)])
def test_a_poisoned_array_of_integers_has_all_bits_set_and_can_be_written(dtype, value):
    array = FakeDevice().poisoned((4,), dtype)
    assert (array == value).all() and str(array.dtype) == dtype
    array[:] = 0


def test_random_arrays_follow_the_seed_and_say_what_was_drawn():
    fake = FakeDevice()
    one, same, other = fake.rng(3), fake.rng(3), fake.rng(4)
    first = one.normal((64,), "bfloat16")
    assert fake.dtype_of(first) == "bfloat16" and (first == same.normal((64,), "bfloat16")).all()
    assert (first != other.normal((64,), "bfloat16")).any()
    drawn = one.uniform((1000,), "float32", -2, 3)
    assert -2 <= drawn.min() < -1 and 2 < drawn.max() <= 3
    assert one.drawn == ["normal(0, 1)", "uniform(-2, 3)"]


def test_a_copy_of_the_fake_is_another_array_and_widening_keeps_doubles():
    fake = FakeDevice()
    array = fake.rng(0).normal((8,), "float64")
    other = fake.copy(array)
    other[:] = 0
    assert array.any()
    assert fake.widen(array).dtype == "float64" and fake.widen(fake.rng(0).normal((8,), "float16")).dtype == "float32"


def test_the_state_of_the_fake_says_what_holds_it_back_and_its_clock():
    fake = FakeDevice()
    fake.throttle = ("power cap",)
    fake.clock_mhz = lambda clock_us: 1000 + clock_us
    with fake.watch() as watch:
        watch.look()
        watch.round = 3
        fake.sleep(1e-3)
        watch.look()
    assert [(s.round, s.sm_clock_mhz, s.throttle) for s in watch.states] == [(0, 1000, ("power cap",)), (3, 2000, ("power cap",))]


# --------------------------------------------------------------------------------------- stamps and probes


class Words(np.ndarray):
    """What is asked of a tensor of stamps."""

    def data_ptr(self):
        return 0

    def cpu(self):
        return self


def marks_of(*stamps) -> Marks:
    """Marks that hold these stamps, each nanoseconds and cycles."""
    torch = SimpleNamespace(zeros=lambda shape, dtype, device: np.zeros(shape, dtype).view(Words), int64="int64")
    marks = Marks(torch, SimpleNamespace(stamp=lambda place: None), len(stamps) // 2)
    marks.words[:] = stamps
    return marks


def test_stamps_are_the_beginning_of_each_interval_and_the_clock_over_it():
    found = marks_of((5_000, 100), (15_000, 19_900), (40_000, 50_000), (41_000, 51_755)).read()
    assert found == [(5.0, 1980.0), (40.0, 1755.0)]


@pytest.mark.parametrize("end", [7_000, 6_000], ids=["stood still", "went back"])
def test_where_the_timer_did_not_move_there_is_no_clock(end):
    assert marks_of((7_000, 100), (end, 9_000), (8_000, 0), (9_000, 1_980)).read() == [(7.0, None), (8.0, 1980.0)]


class Host:
    """Timers whose host clock moves while it waits for the device: by `idle` without work, by `busy` after a call."""

    def __init__(self, monkeypatch, idle, busy):
        self.waits = {"idle": iter(idle), "busy": iter(busy)}
        self.log, self.state, self.stopped, self.now = [], "idle", False, 0.0
        monkeypatch.setattr("tirx_bench.device.timers.time", SimpleNamespace(perf_counter=lambda: self.now / 1e6))

        class Event:
            elapsed_time = None

            def record(event):
                pass

            def synchronize(event):
                self.stopped = True

        gate = SimpleNamespace(
            close=lambda: None,
            open=lambda turn: None,
            hold=lambda turn, everywhere: self.log.append(f"hold everywhere={everywhere}"),
        )
        self.timers = Timers(SimpleNamespace(cuda=SimpleNamespace(Event=Event)), gate, self.synchronize)

    def synchronize(self):
        if self.stopped:
            self.now += next(self.waits[self.state])
            self.state, self.stopped = "idle", False

    def before(self):
        self.log.append("before")

    def call(self):
        self.log.append("call")
        self.state = "busy"


def test_hidden_work_is_the_least_of_ten_waits_beyond_the_middle_of_an_idle_device(monkeypatch):
    host = Host(monkeypatch, idle=[9.0, 900.0, *[3.0] * 8], busy=[900.0] * 9 + [33.0])
    assert host.timers.hidden_us(host.call, host.before, held=False) == pytest.approx(30.0)
    assert host.log == ["before", "call", "before"] * 10, "by turns, each call on first values"


def test_every_sm_is_held_until_the_host_has_launched_the_call(monkeypatch):
    host = Host(monkeypatch, idle=[3.0] * 10, busy=[33.0] * 10)
    assert host.timers.hidden_us(host.call, host.before, held=True) == pytest.approx(30.0)
    assert host.log == ["before", "hold everywhere=True", "call", "before", "hold everywhere=True"] * 10


def test_a_host_that_hesitates_is_no_hidden_work(monkeypatch):
    host = Host(monkeypatch, idle=[3.0] * 10, busy=[500.0, 200.0, 3.0, *[400.0] * 7])
    assert host.timers.hidden_us(host.call, host.before, held=False) == pytest.approx(0.0)
    quick_once = Host(monkeypatch, idle=[3.0, *[15.0] * 9], busy=[15.0] * 10)
    assert quick_once.timers.hidden_us(quick_once.call, quick_once.before, held=False) == pytest.approx(0.0)


@pytest.mark.parametrize("waits", [False, True])
def test_whether_a_call_waits_is_tried_on_first_values_behind_a_gate(waits):
    log = []

    class Gate:
        def close(self):
            log.append("close")

        def hold(self, turn):
            log.append(f"hold {turn}")

        def open(self, turn):
            log.append(f"open {turn}")

        def timed_out(self):
            return int(waits)

    cuda = SimpleNamespace(Event=SimpleNamespace(elapsed_time=None))
    timers = Timers(SimpleNamespace(cuda=cuda), Gate(), lambda: log.append("synchronize"))
    assert timers.synchronizes(lambda: log.append("call"), lambda: log.append("before")) == waits
    assert log == ["close", "before", "synchronize", "hold 1", "call", "open 1", "synchronize"]


# ------------------------------------------------------------------------------------------------ NVML


class Driver580:
    """What nvidia-ml-py says about one card; `fails` are the functions that its driver does not support."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM = 1

    def __init__(self, processes=(), bits=0, fails=()):
        self.processes, self.bits, self.fails = processes, bits, fails
        self.asked = []

    def nvmlInit(self):
        if "nvmlInit" in self.fails:
            raise self.NVMLError

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return "the card"

    def __getattr__(self, name):
        answers = {
            "nvmlDeviceGetPowerUsage": 701_500, "nvmlDeviceGetTemperature": 61, "nvmlDeviceGetClockInfo": 1755,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000, "nvmlDeviceGetMaxClockInfo": 1980, "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetPersistenceMode": 1, "nvmlDeviceGetMigMode": [0, 0], "nvmlSystemGetDriverVersion": "580.1",
            "nvmlDeviceGetCurrentClocksEventReasons": self.bits,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in self.processes],
        }  # fmt: skip

        def answer(*arguments):
            if name in self.fails:
                raise self.NVMLError
            return answers[name]

        return answer


def card(monkeypatch, **says) -> Nvml:
    api = Driver580(**says)
    monkeypatch.setitem(sys.modules, "pynvml", api)
    found = Nvml("1234")
    assert api.asked in (["GPU-1234"], [])
    return found


MB = 1_000_000
OWN, FOREIGN = (os.getpid(), 500 * MB), (1, 512 * MB)


@pytest.mark.parametrize(
    "processes, others",
    [
        ((), []),
        ((OWN,), []),
        ((OWN, FOREIGN), ["process 1 with 512 MB"]),
        ((FOREIGN, OWN, (2, None)), ["process 1 with 512 MB", "process 2 with 0 MB"]),
        ((FOREIGN,), []),  # in a container of its own a process may not know its own number
        ((FOREIGN, (2, 3 * MB)), ["process 1 with 512 MB", "process 2 with 3 MB"]),
    ],
    ids=["none", "own", "own and another", "own and two", "one unknown", "two unknown"],
)
def test_others_on_the_card_are_all_processes_but_this_one(monkeypatch, processes, others):
    assert card(monkeypatch, processes=processes).others() == others


def test_the_state_of_the_card_names_what_held_it_back(monkeypatch):
    state = card(monkeypatch, bits=0x4 | 0x40 | 0x1).state(7)  # 0x1: idle
    assert (state.round, state.sm_clock_mhz, state.temperature_c, state.power_w) == (7, 1755, 61, 701.5)
    assert state.throttle == ("power cap", "hardware thermal")
    assert card(monkeypatch, bits=0x8 | 0x20 | 0x80).state(0).throttle == ("hardware slowdown", "software thermal", "power brake")
    assert card(monkeypatch).state(0).throttle == ()


def test_the_environment_has_driver_and_limits(monkeypatch):
    assert card(monkeypatch).describe() == {
        "driver": "580.1", "power_limit_w": 700, "max_sm_clock_mhz": 1980, "sm_clock_mhz": 1755, "temperature_c": 61, "ecc": 1,
        "persistence": 1, "mig": 0,
    }  # fmt: skip


ASKED = [f"nvmlDeviceGet{what}" for what in (
    "PowerUsage", "Temperature", "ClockInfo", "EnforcedPowerLimit", "MaxClockInfo", "EccMode", "PersistenceMode", "MigMode",
    "CurrentClocksEventReasons", "ComputeRunningProcesses",
)]  # fmt: skip


@pytest.mark.parametrize("how", ["no package", "no driver", "a driver that supports nothing"])
def test_what_the_driver_does_not_say_is_none(monkeypatch, how):
    if how == "no package":
        monkeypatch.setitem(sys.modules, "pynvml", None)
        nvml = Nvml("1234")
    else:
        nvml = card(monkeypatch, fails=["nvmlInit"] if how == "no driver" else ASKED)
    described = nvml.describe()
    assert described.pop("driver") == ("580.1" if "supports" in how else None)
    assert set(described.values()) == {None} and len(described) == 7
    state = nvml.state(2)
    assert (state.round, state.sm_clock_mhz, state.temperature_c, state.power_w, state.throttle) == (2, None, None, None, ())
    assert nvml.others() == []


def test_the_card_is_watched_between_the_looks_too_and_no_thread_stays(monkeypatch):
    monkeypatch.setattr("tirx_bench.device.nvml.LOOK_EVERY_S", 0.001)
    before = threading.active_count()
    with card(monkeypatch).watch() as watch:
        watch.round = 5
        watch.look()
        deadline = time.monotonic() + 10
        while len(watch.states) < 4 and time.monotonic() < deadline:
            time.sleep(0.001)
    assert len(watch.states) >= 4 and {s.round for s in watch.states[1:]} == {5}
    assert threading.active_count() == before
    seen = len(watch.states)
    time.sleep(0.01)
    assert len(watch.states) == seen


# ------------------------------------------------------------------------- devices and profilers by environment


@pytest.mark.parametrize(
    "visible, index, one",
    [(None, 0, "0"), (None, 3, "3"), ("2", 0, "2"), ("7,5", 1, "5"), ("GPU-aa, MIG-bb", 1, "MIG-bb")],
)
def test_a_device_is_counted_among_those_that_are_visible(monkeypatch, visible, index, one):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_device(index) == one


@pytest.mark.parametrize("visible, index", [("2", 1), ("7,5", 2), ("GPU-aa", 9)])
def test_a_device_beyond_those_that_are_visible_is_refused(monkeypatch, visible, index):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(UsageError, match=f"there is no device {index}: CUDA_VISIBLE_DEVICES is {visible}") as raised:
        visible_device(index)
    assert raised.value.exit_code == 2


def test_where_no_device_is_visible_none_becomes_visible(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_device(0) == ""
    with pytest.raises(UsageError, match="there is no device 1: CUDA_VISIBLE_DEVICES is"):
        visible_device(1)


@pytest.fixture
def unwatched(monkeypatch):
    """A process that no profiler watches, and what it has loaded."""
    for variable in PROFILER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    maps = ["7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libc.so.6"]
    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: "\n".join(maps) if self.name == "maps" else real(self, *a, **k))
    return maps


def test_without_a_profiler_none_is_named(unwatched):
    assert profiler() == ""


@pytest.mark.parametrize("variable", PROFILER_VARIABLES)
def test_a_profiler_is_known_by_what_it_puts_into_the_environment(unwatched, monkeypatch, variable):
    monkeypatch.setenv(variable, "")
    assert profiler() == "", "an empty variable is none"
    monkeypatch.setenv(variable, "1")
    assert profiler() == f"{PROFILER_VARIABLES[variable]} ({variable} is set)"


@pytest.mark.parametrize("library", PROFILER_LIBRARIES)
def test_a_profiler_is_known_by_the_library_that_it_loads(unwatched, library):
    unwatched.append(f"7f02-7f03 r-xp 00000000 08:01 2 /opt/nvidia/{library}64.so")
    assert profiler() == f"{PROFILER_LIBRARIES[library]} ({library} is loaded)"


# ------------------------------------------------------------------------------------------------ Proton


@pytest.fixture
def tree():
    """Three calls of two kernels each, in the shape of a tree that Proton wrote on an H200."""
    return json.loads((DATA / "hatchet" / "calls.hatchet").read_text())


def test_a_call_takes_the_time_of_all_its_kernels(tree):
    times = [us for us, _ in scope_times_us(tree, 3)]
    assert times == [pytest.approx(188.170), pytest.approx(188.501), pytest.approx(15.560)]


def test_a_call_has_the_names_of_its_kernels_each_as_often_as_it_ran(tree):
    clamp, matmul = "_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_launch_clamp_scalarEEviT0_T1_", "nvjet_sm90_"
    names = [names for _, names in scope_times_us(tree, 3)]
    assert [len(n) for n in names] == [2, 2, 1] and names[0][0] == clamp and names[0][1].startswith(matmul)
    leaf = tree[0]["children"][0]["children"][0]
    leaf["metrics"]["count"] = 3
    assert len(scope_times_us(tree, 3)[0][1]) == 4
    assert scope_times_us(tree, 3)[0][0] == pytest.approx(188.170), "the time is of all three"


def test_calls_are_in_their_order_and_not_in_that_of_the_tree(tree):
    tree[0]["children"].reverse()
    assert scope_times_us(tree, 3)[0][0] == pytest.approx(188.170)


def test_scopes_within_a_call_are_added_up(tree):
    call = tree[0]["children"][0]
    call["children"] = [{"children": call["children"], "frame": {"name": "inner", "type": "function"}, "metrics": {}}]
    assert scope_times_us(tree, 3)[0][0] == pytest.approx(188.170)


def drop(tree):
    del tree[0]["children"][1]


def empty(tree):
    tree[0]["children"][1]["children"] = []


def rename(tree):
    tree[0]["children"][1]["frame"]["name"] = "call one"


@pytest.mark.parametrize("change", [drop, empty, rename])
def test_a_call_without_a_kernel_is_an_error_and_not_a_missing_sample(tree, change):
    change(tree)
    with pytest.raises(FailedError, match="no kernel for 1 of 3 calls") as caught:
        scope_times_us(tree, 3)
    assert "--timer event" in caught.value.hint


def test_a_tree_without_calls_is_an_error(tree):
    with pytest.raises(FailedError, match="no kernel for 4 of 4 calls"):
        scope_times_us([copy.deepcopy(tree[1])], 4)
