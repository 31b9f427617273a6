"""The compile hook against a stub of the driver, the fake device, and a Proton tree to times. Nothing here needs a GPU."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tirx_bench import device
from tirx_bench.device.cuda import scope_times_us
from tirx_bench.device.fake import EVICTION_US, FakeDevice
from tirx_bench.model import FailedError

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
        pointer._obj.value = {75: 9, 76: 0}[attribute]


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
    times = fake.time_calls("event", [fake.kernel(10.0), fake.kernel(20.0)], before=fake.evict_l2)
    assert times == [10.0, 20.0]
    assert fake.clock_us == 30.0 + 2 * EVICTION_US and fake.evictions == 2 and fake.timers_used == ["event"]


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


def test_the_state_of_the_fake_says_what_holds_it_back():
    fake = FakeDevice()
    fake.throttle = ("power cap",)
    assert (fake.state(3).round, fake.state(3).throttle) == (3, ("power cap",))


# ------------------------------------------------------------------------------------------------ Proton


@pytest.fixture
def tree():
    """Three calls of two kernels each, in the shape of a tree that Proton wrote on an H200."""
    return json.loads((DATA / "hatchet" / "calls.hatchet").read_text())


def test_a_call_takes_the_time_of_all_its_kernels(tree):
    assert scope_times_us(tree, 3) == [pytest.approx(188.170), pytest.approx(188.501), pytest.approx(15.560)]


def test_calls_are_in_their_order_and_not_in_that_of_the_tree(tree):
    tree[0]["children"].reverse()
    assert scope_times_us(tree, 3)[0] == pytest.approx(188.170)


def test_scopes_within_a_call_are_added_up(tree):
    call = tree[0]["children"][0]
    call["children"] = [{"children": call["children"], "frame": {"name": "inner", "type": "function"}, "metrics": {}}]
    assert scope_times_us(tree, 3)[0] == pytest.approx(188.170)


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
