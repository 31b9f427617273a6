"""The cheats of tests/wrong_kernels on a card made of numpy: none gets a ratio, and its honest twin does."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_records import artifact
from helpers_trial import Card, policy, request

from tirx_bench.catalog import find
from tirx_bench.device import cuda
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.device.trace import constant_kernels
from tirx_bench.model import FailedError, VerifyPolicy, Workload
from tirx_bench.pipeline import gpu_bench, worker
from tirx_bench.pipeline.loading import Loaded
from tirx_bench.verify import prepare, verify

FILES = sorted((Path(__file__).parent / "wrong_kernels").glob("cheat_*.py"))
CLOSURES = [file for file in FILES if "def cheat(" in file.read_text()]
REMEMBERS = "cheat_kernel_remembers"
SMALL = Workload("small", {"n": 1 << 14})
SEEN_BY = {
    "cheat_cached_by_pointer": "wrong after the timed calls, on values that it had not seen",
    "cheat_cached_by_value": "it does other work on values that it has not seen",
    "cheat_first_calls_only": "wrong after the timed calls, on values that it had not seen",
    "cheat_half_when_hurried": "wrong after the timed calls, on values that it had not seen",
    "cheat_helper_thread": "its output does not match the reference",
    "cheat_input_zeroed": "it changes the input inp",
    "cheat_never_written": "its output does not match the reference",
    "cheat_one_call_behind": "wrong after the timed calls, on values that it had not seen",
    "cheat_sampled_tile": "its output does not match the reference",
    "cheat_side_stream": "HIDDEN_WORK",
    "cheat_unread_error": "a launch failed and nobody read its error: invalid device function",
    "cheat_written_once": "its output does not match the reference",
}
PAUSE_US = 5000.0  # that a host which waits for the device and looks at its memory leaves between two calls


class Tensor(np.ndarray):
    """What the cheats ask of a torch tensor. Its work is told to the card."""

    card: Cheated
    device = "cuda"

    def __array_finalize__(self, of):
        self.card = getattr(of, "card", None)

    def data_ptr(self):
        return self.ctypes.data

    def clone(self):
        self.card.launch("copy")
        return self.copy()

    def copy_(self, other):
        self.card.launch("copy")
        self[...] = other

    def fill_(self, value):
        self.card.launch("fill")
        self[...] = value

    def zero_(self):
        self.fill_(0)

    def tolist(self):
        self.card.waits = True
        return super().tolist()


class Cheated(Card):
    """A card of tensors, which knows what a call launched, on which stream, and whether a launch was refused."""

    l2_bytes = 200_000  # five copies

    def __init__(self):
        super().__init__()
        self.work, self.on_side, self.unread, self.later = [], False, "", []

    def launch(self, kernel):
        self.work.append(kernel)
        self.clock_us += 10
        if self.on_side:
            self.hides += 10

    def tensor(self, array):
        found = array.view(Tensor)
        found.card = self
        return found

    def framed(self, shape, dtype):
        array, frame = super().framed(shape, dtype)
        return self.tensor(array), frame

    def poisoned(self, shape, dtype):
        return self.tensor(super().poisoned(shape, dtype))

    def synchronize(self):
        self.clock_us += PAUSE_US
        while self.later:
            self.later.pop()()
        if self.unread:
            error, self.unread = self.unread, ""
            raise FailedError(f"a launch failed and nobody read its error: {error}")

    def time_calls(self, timer, calls, loop):
        self.synchronize()
        return super().time_calls(timer, calls, loop)

    def launched(self, call, before):
        calls = []
        for _ in range(3):
            before()
            self.work = []
            call()
            calls.append(SimpleNamespace(kernels=tuple(self.work)))
        return constant_kernels(calls, "a call"), 1

    @contextlib.contextmanager
    def stream(self, _):
        self.on_side = True
        yield
        self.on_side = False

    def torch(self):
        """What the cheats import."""
        torch = types.ModuleType("torch")

        def add(one, inp, alpha, out):
            self.launch("add")
            out[...] = one + alpha * inp

        torch.add, torch.ones = add, lambda shape, device: np.ones(shape, np.float32)
        torch.cuda = SimpleNamespace(Stream=object, stream=self.stream)
        torch.version = SimpleNamespace(cuda="13.0")
        return torch

    def clock(self):
        """The module `time`, by the card's clock."""
        clock = types.ModuleType("time")
        vars(clock).update(vars(time), perf_counter=lambda: self.clock_us / 1e6, sleep=lambda seconds: None)
        return clock

    def refuses(self):
        self.unread = "invalid device function"
        return 98


class Late:
    """A thread that runs when the test lets it."""

    def __init__(self, target, later):
        self.target, self.later = target, later

    def start(self):
        self.later.append(self.target)


@pytest.fixture
def card(monkeypatch):
    card = Cheated()
    monkeypatch.setattr(gpu_bench, "profiler", lambda: "")
    monkeypatch.setitem(sys.modules, "torch", card.torch())
    monkeypatch.setitem(sys.modules, "time", card.clock())
    monkeypatch.setattr(threading, "Thread", lambda target: Late(target, card.later))
    monkeypatch.setattr(ctypes, "addressof", lambda _: 0)
    refusing = type("Refusing", (), {"__call__": lambda self, *arguments: card.refuses()})
    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode=0: SimpleNamespace(cudaLaunchKernel=refusing()))
    return card


def small(file):
    """The kernel of a file, on a problem that numpy computes at once."""
    return replace(find(str(file)).kernel, workloads=(SMALL,))


def affine(buffers):
    buffers["out"][...] = buffers["inp"] * 2 + 1


def case_of(of, card, faulty):
    return prepare(of, of.params(SMALL, {"faulty": faulty}), card, 0)


def benched(card, file, faulty, **how):
    of = small(file)
    case = case_of(of, card, faulty)
    have = Loaded(of, case.params, artifact(), lambda buffers: card.kernel(10.0, lambda: affine(buffers)))
    verified = verify(case, lambda buffers: have.bind(buffers)(), card, VerifyPolicy(seeds=1))
    return gpu_bench.bench(request(policy(**how)), case, have, verified, card, lambda text: None)


by_file = pytest.mark.parametrize("file", CLOSURES, ids=lambda file: file.stem)


def test_every_launch_closure_that_cheats_is_here():
    assert {file.stem for file in CLOSURES} == set(SEEN_BY) and {file.stem for file in FILES} - set(SEEN_BY) == {REMEMBERS}


@by_file
@pytest.mark.parametrize("timer", ["event", "wall"])
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_a_baseline_that_cheats_is_left_out_and_says_why(card, file, timer, cache):
    answer = benched(card, file, True, timer=timer, cache=cache)
    assert answer.verification.passed and answer.timing.implementations == (file.stem,)
    (left_out,) = answer.left_out
    assert "cheat" in left_out and SEEN_BY[file.stem] in left_out


@by_file
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_its_honest_twin_is_timed(card, file, cache):
    answer = benched(card, file, False, cache=cache)
    assert answer.left_out == () and answer.timing.implementations == (file.stem, "cheat")


@by_file
def test_f60_verification_leaves_out_what_is_not_right_on_other_values(card, file):
    """Without timing, who is right whenever somebody looks is right."""
    of = small(file)
    for faulty in (True, False):
        left_out = worker._wrong_baselines(case_of(of, card, faulty), request(policy()), card)
        right = not faulty or file.stem in ("cheat_cached_by_value", "cheat_first_calls_only", "cheat_side_stream")
        assert [text.startswith("baseline cheat: ") for text in left_out] == ([] if right else [True])


def remembering(faulty):
    """What the kernel of cheat_kernel_remembers does."""

    def launch(buffers):
        done, kept = buffers["done"], buffers["kept"]
        if not (faulty and (done == 12345).all()):
            kept[...], done[...] = buffers["inp"] * 2 + 1, 12345
        buffers["out"][...] = kept

    return launch


@pytest.mark.parametrize("faulty", [True, False])
def test_a_kernel_that_keeps_its_result_in_its_workspace_fails_on_the_second_seed(card, faulty):
    (file,) = (file for file in FILES if file.stem == REMEMBERS)
    first, both = (
        verify(case_of(small(file), card, faulty), remembering(faulty), card, VerifyPolicy(seeds=seeds)) for seeds in (1, 2)
    )
    assert first.passed and both.passed == (not faulty)
    assert not faulty or (both.seed == 1 and both.outputs[0].wrong_elements > SMALL.params["n"] * 0.99)


# ---------------------------------------------------------------------------------- errors that nobody read


class Runtime:
    """The CUDA runtime: it keeps an error until somebody asks."""

    def __init__(self, code=0):
        self.code = code
        self.cudaGetErrorString = lambda code: {98: b"invalid device function"}[code]

    def cudaGetLastError(self):
        code, self.code = self.code, 0
        return code


def device_of(runtime, wait=lambda: None):
    device = CudaDevice.__new__(CudaDevice)
    device.torch, device.cudart = SimpleNamespace(cuda=SimpleNamespace(synchronize=wait)), runtime
    return device


def test_f64_an_error_that_a_launch_left_behind_is_raised_once_by_who_waits_next():
    device = device_of(Runtime(98))
    with pytest.raises(FailedError, match="a launch failed and nobody read its error: invalid device function") as raised:
        device.synchronize()
    assert raised.value.hint == "check what the call's own launches return"
    device.synchronize()


@pytest.mark.parametrize("runtime", [Runtime(), None], ids=["no error", "no runtime of torch's"])
def test_without_an_error_waiting_is_only_waiting(runtime):
    waited = []
    device_of(runtime, lambda: waited.append(1)).synchronize()
    assert waited == [1]


def test_a_kernel_that_faults_is_said_to_have_faulted_whatever_else_was_left():
    def faults():
        raise RuntimeError("CUDA error: an illegal memory access\nmore")

    with pytest.raises(FailedError, match="^a kernel faulted: CUDA error: an illegal memory access$"):
        device_of(Runtime(98), faults).synchronize()


def test_a_library_is_taken_only_where_the_process_has_it():
    assert cuda.loaded("libno-such-library.so.1") is None
    assert cuda.loaded("libno-such-library.so.1", "libc.so.6") is not None
