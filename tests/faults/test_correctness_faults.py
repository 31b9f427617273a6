"""F56 to F66: wrong kernels that a check can let pass."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_records import artifact, kernel, verification
from helpers_verify import TICKETS, add_one, around, case_of, counts_from_zero
from simulated import Card, TrialDevice, simulated_timers

from tirx_bench.device import Loop
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.device.fake import FakeDevice
from tirx_bench.device.helpers import Launchable
from tirx_bench.model import Baseline, FailedError, Finding, RoundingBound, TimingPolicy, Tolerance, UsageError, VerifyPolicy
from tirx_bench.pipeline.steps import launch_errors
from tirx_bench.pipeline.trial import Trial
from tirx_bench.timing import measure
from tirx_bench.timing.probe import call_statuses
from tirx_bench.verify import verify


def check(launch, of=None, device=None):
    device = device or FakeDevice()
    return verify(case_of(of or kernel(), device), launch, device)


def problems(found):
    return [o.problem for o in found.outputs if o.problem]


# ------------------------------------------------------------------------------- what would pass too


def softmax_row(tolerance):
    def reference(x):
        powers = np.exp(x - x.max())
        return {"y": powers / powers.sum()}

    return kernel(
        inputs=lambda m, k, rng: {"x": rng.normal((1, 4096), "float32")}, outputs=lambda m, k: {"y": ((1, 4096), "float32")},
        reference=reference, tolerance=tolerance,
    )  # fmt: skip


def test_f56_a_tolerance_that_zeros_pass_proves_nothing():
    """A softmax over 4096 has values of about 1/4096, far below an absolute tolerance of 1e-2."""
    of = softmax_row(Tolerance(rtol=1e-2, atol=1e-2))
    zeros = check(lambda b: b["y"].fill(0), of)
    assert zeros.outputs[0].wrong_elements == 0 and not zeros.passed
    right = check(lambda b: b["y"].__setitem__(..., of.reference(b["x"])["y"]), of)
    assert right.accepted[0] == "zeros" and not right.passed, "nor is the right answer proven"


def test_f56_a_tolerance_that_fits_the_values_tells_them_from_zeros():
    of = softmax_row(Tolerance(rtol=1e-5, atol=1e-9))
    assert not check(lambda b: b["y"].fill(0), of).passed
    right = check(lambda b: b["y"].__setitem__(..., of.reference(b["x"])["y"]), of)
    assert right.passed and [c.name for c in right.controls if c.outcome == "rejected"][0] == "zeros"


def test_f56_where_zero_is_the_answer_zeros_pass():
    found = check(lambda b: b["y"].fill(0), kernel(reference=lambda x: {"y": 0 * x}))
    assert found.passed and found.controls[0].outcome == "skipped"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_f57_a_reference_that_is_not_finite_makes_the_case_invalid(value):
    of = kernel(reference=lambda x: {"y": x + value})
    assert problems(check(lambda b: b["y"].fill(value), of)) == ["the reference is not finite: the case is invalid"]


def test_f58_a_kernel_that_does_nothing_leaves_nan_and_nan_is_no_wildcard():
    found = check(lambda b: None)
    assert not found.passed and found.outputs[0].wrong_elements == 30


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_f58_nan_in_the_reference_is_no_wildcard():
    def reference(x):
        y = x + 1
        y[2, 3] = np.nan
        return {"y": y}

    found = check(add_one, kernel(reference=reference))
    assert not found.passed and found.outputs[0].wrong_elements == 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_f58_where_the_inputs_hold_nan_the_output_must_hold_it_there_and_nowhere_else():
    of = kernel(reference=lambda x: {"y": x + 1})
    case, device, policy = case_of(of, kind="non-finite"), FakeDevice(), VerifyPolicy(fills=("non-finite",))
    assert verify(case, add_one, device, policy).passed

    def loses(b):
        add_one(b)
        b["y"][np.isnan(b["y"])] = 0

    def spreads(b):
        add_one(b)
        b["y"][0, 0] = np.nan

    for launch in (loses, spreads):
        found = verify(case, launch, device, policy)
        assert not found.passed and found.outputs[0].wrong_elements == 1


# ---------------------------------------------------------------------------- memory that is shared


def test_f59_a_kernel_that_zeroes_its_input_is_found_although_its_output_is_right():
    def launch(b):
        add_one(b)
        b["x"].fill(0)

    assert problems(check(launch)) == ["is an input that the launch changed, and not declared in place"]


def test_f59_no_output_lies_in_the_memory_of_the_reference():
    """A reference that returns its input as it is: a kernel that writes there must not write what is expected."""
    of = kernel(reference=lambda x: {"y": x})
    case = case_of(of)
    assert not any(np.shares_memory(case.expected["y"], array) for array in case.buffers.values())
    assert np.isnan(case.buffers["y"]).all()


@pytest.mark.parametrize("name", ["x", "y"])
@pytest.mark.parametrize("side", [-1, 1])
def test_f59_nobody_elses_memory_is_written(name, side):
    """Around every array lies memory that is nobody's, and that must stay as it was."""

    def launch(b):
        add_one(b)
        memory, front = around(b[name])
        memory[front - 1 if side < 0 else front + b[name].size] = 0

    found = check(launch)
    assert found.outputs[0].wrong_elements == 0 and not found.passed
    assert problems(found) == [f"had 4 bytes {'in front of it' if side < 0 else 'behind it'} written over"]


def trial_of(of, device, bind, **policy):
    trial = Trial(case_of(of, device), TimingPolicy(**{"cache": "warm", **policy}), device)
    trial.add_kernel("k", bind, trial.cases, "by hand")
    return trial


def test_f59_a_baseline_that_zeroes_an_input_is_left_out_and_the_kernel_gets_what_was_there():
    trial = trial_of(kernel(), TrialDevice(), lambda buffers: lambda: add_one(buffers))
    first = trial.cases[0].inputs["x"].copy()

    def thief(x, y):
        def run():
            y[...] = x + 1
            x.fill(0)

        return run

    trial.add_baseline("thief", Baseline(thief))
    assert trial.left_out == ["baseline thief: it changes the input x, which the kernel gets too"]
    assert list(trial.calls) == ["k"] and (trial.cases[0].inputs["x"] == first).all()


def test_f60_a_kernel_that_remembers_its_answer_is_wrong_on_new_values():
    device, remembered = TrialDevice(), {}

    def bind(buffers):
        def launch():
            key = id(buffers["x"])  # the pointer, as a cache of outputs would have it
            remembered.setdefault(key, buffers["x"] + 1)
            buffers["y"][...] = remembered[key]

        return launch

    trial = trial_of(kernel(), device, bind)
    (memoising,) = trial.implementations
    memoising.timed()
    assert np.allclose(trial.cases[0].buffers["y"], trial.cases[0].expected["y"]), "right on what it has seen"
    assert not trial.check(memoising).passed


def remembering(key):
    """A baseline that keeps its answers by `key(x)`."""

    def prepare(x, y):
        answers = {}

        def run():
            run.found = key(x) in answers
            y[...] = answers.setdefault(key(x), x + 1)

        return run

    return prepare


@pytest.mark.parametrize("prepared", [(), ("x",)])
def test_f60_a_baseline_that_remembers_is_wrong_on_new_values_unless_it_says_that_it_prepares_them(prepared):
    trial = trial_of(kernel(), TrialDevice(), lambda buffers: lambda: add_one(buffers))
    trial.add_baseline("memo", Baseline(remembering(id), prepared=prepared))
    added, memo = trial.implementations
    for _ in range(2):  # in whatever order they are checked
        assert trial.check(added).passed and trial.check(memo).passed == (prepared == ("x",))


@pytest.mark.parametrize("honest", [True, False])
def test_f60_a_baseline_that_looks_results_up_by_value_does_other_work_on_new_values(honest):
    class Tracing(TrialDevice):
        def launched(self, call, before):
            found = []
            for _ in range(3):
                before()
                call()
                found.append(call.found)
            if len(set(found)) > 1:
                raise FailedError("a call launched 4 kernels in 3 calls")
            return ("kernel",), 1

    def adds(x, y):
        run = lambda: y.__setitem__(..., x + 1)  # noqa: E731
        run.found = False
        return run

    trial = trial_of(kernel(), Tracing(), lambda buffers: lambda: add_one(buffers))
    trial.add_baseline("b", Baseline(adds if honest else remembering(lambda x: x.tobytes())))
    b = trial.implementations[1]
    assert trial.check(b).passed, "right on every value"
    assert trial.other_work(b) == ("" if honest else "a call launched 4 kernels in 3 calls")


def test_f60_the_copies_that_take_turns_hold_other_values():
    device = TrialDevice()
    trial = trial_of(kernel(), device, lambda buffers: lambda: add_one(buffers), cache="rotate")
    inputs = [case.inputs["x"] for case in trial.cases]
    assert len(inputs) > 2 and all((inputs[0] != other).any() for other in inputs[1:])
    assert trial.check(trial.implementations[0]).passed


# --------------------------------------------------------------------------------- all of the outputs


@pytest.mark.parametrize("wrong", range(3))
def test_f61_a_wrong_output_fails_wherever_it_is(wrong):
    of = kernel(
        outputs=lambda m, k: {f"y{n}": ((m, k), "float32") for n in range(3)},
        reference=lambda x: {f"y{n}": x + n for n in range(3)},
    )  # fmt: skip

    def launch(b):
        for n in range(3):
            b[f"y{n}"][...] = b["x"] + n + (n == wrong)

    assert not check(launch, of).passed


@pytest.mark.parametrize("wrong", range(3))
def test_f61_a_wrong_copy_fails_wherever_it_comes(wrong):
    device, bound = TrialDevice(), []

    def bind(buffers):
        bound.append(buffers)
        off = len(bound) - 1 == wrong
        return lambda: buffers["y"].__setitem__(..., buffers["x"] + 1 + off)

    trial = trial_of(kernel(), device, bind, cache="rotate")
    assert len(trial.cases) == 3 and not trial.check(trial.implementations[0]).passed


def test_f62_elements_that_were_not_written_do_not_pass_by_luck():
    """A ReLU that leaves its zeros out would be right in memory that happens to be zero."""

    def launch(b):
        positive = b["x"] > 0
        b["y"][positive] = b["x"][positive]

    found = check(launch, kernel(reference=lambda x: {"y": np.maximum(x, 0)}))
    assert not found.passed and 0 < found.outputs[0].wrong_elements < 30


def test_f62_a_baseline_that_writes_only_while_it_is_prepared_is_left_out():
    def prepare(x, y):
        y[...] = x + 1
        return lambda: None

    trial = trial_of(kernel(), TrialDevice(), lambda buffers: lambda: add_one(buffers))
    trial.add_baseline("once", Baseline(prepare))
    assert trial.left_out == ["baseline once: its output does not match the reference"]


def test_f62_integers_have_a_poison_too():
    of = kernel(outputs=lambda m, k: {"y": ((m, k), "int32")}, reference=lambda x: {"y": (x > 0) * 1})
    assert not check(lambda b: b["y"].__setitem__(b["x"] > 0, 1), of).passed


def test_f62_an_earlier_launch_leaves_nothing_that_would_be_right():
    launched = []

    def launch(b):
        launched.append(1)
        if len(launched) == 1:
            add_one(b)

    found = verify(case_of(kernel()), launch, FakeDevice(), VerifyPolicy(seeds=1))
    assert not found.passed and found.outputs[0].wrong_elements == 30


def test_f62_a_workspace_is_not_zero_to_begin_with():
    assert not check(counts_from_zero, kernel(**TICKETS)).passed


# ---------------------------------------------------------------------------------------- precision


def tf32(x):
    """Rounded to 10 bits of mantissa."""
    bits = np.asarray(x, "float32").view("uint32")
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view("float32")


class TensorCores(FakeDevice):
    """A device whose FP32 products are TF32 until it is told otherwise."""

    def __init__(self):
        super().__init__()
        self.exact = False

    def exact_reference(self):
        self.exact = True
        return super().exact_reference()

    def matmul(self, a, b):
        return a @ b if self.exact else tf32(a) @ tf32(b)


def product(device):
    return kernel(
        outputs=lambda m: {"y": ((m, m), "float32")}, reference=lambda x: {"y": device.matmul(x, x.T)},
        tolerance=Tolerance(rtol=1e-5, atol=1e-5),
    )  # fmt: skip


def test_f63_tf32_does_not_pass_for_fp32():
    device = TensorCores()
    found = check(lambda b: b["y"].__setitem__(..., tf32(b["x"]) @ tf32(b["x"]).T), product(device), device)
    assert not found.passed and found.outputs[0].rms_rel_error > 1e-4
    assert check(lambda b: b["y"].__setitem__(..., b["x"] @ b["x"].T), product(device), device).passed


def test_f63_how_the_reference_was_computed_is_recorded_and_tf32_is_off():
    assert check(add_one).reference == "FP32 by numpy; FP64 where @ sums over 1024 terms"
    switches = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
    cudnn, set_to = SimpleNamespace(allow_tf32=True), []
    card = CudaDevice.__new__(CudaDevice)
    card.torch = SimpleNamespace(backends=SimpleNamespace(cuda=switches, cudnn=cudnn), set_float32_matmul_precision=set_to.append)
    assert card.exact_reference() == "FP32 on the GPU by torch, TF32 off"
    assert (switches.matmul.allow_tf32, cudnn.allow_tf32, set_to) == (False, False, ["highest"])


@pytest.mark.parametrize(("rtol", "accepted"), [(1e-2, True), (1e-5, False)])
def test_f63_a_tolerance_that_tf32_passes_proves_nothing_of_fp32(rtol, accepted):
    of = kernel(
        inputs=lambda m, k, rng: {"x": rng.uniform((16, 16), "float32", 1, 2)}, outputs=lambda m: {"y": ((16, 16), "float32")},
        reference=lambda x: {"y": x + 1}, tolerance=Tolerance(rtol=rtol, atol=0),
    )  # fmt: skip
    found = check(add_one, of)
    assert ("inputs of one bit less" in found.accepted) is accepted and found.passed is not accepted


def test_f63_errors_that_are_each_within_their_bound_are_too_large_as_a_whole():
    """A share of the bound that rounding to nearest reaches here and there, in every element."""
    of = kernel(
        inputs=lambda m, k, rng: {"x": rng.normal((40, 40), "float32")}, outputs=lambda m: {"y": ((40, 40), "float32")},
        reference=lambda x: {"y": x}, tolerance=RoundingBound(steps=16), magnitude=lambda x: {"y": abs(x)},
    )  # fmt: skip
    off = np.float32(1 + 0.9 * 4 * RoundingBound(steps=16).eps_acc)
    found = check(lambda b: b["y"].__setitem__(..., b["x"] * off), of)
    assert found.outputs[0].wrong_elements == 0 and not found.passed and "rms error of 0.8" in problems(found)[0]


# ------------------------------------------------------------------------------------ a failed launch


def test_f64_a_launch_that_failed_is_an_error_although_the_output_looks_right():
    class Failing(FakeDevice):
        def synchronize(self):
            raise FailedError("a kernel faulted: too many resources requested for launch")

    with pytest.raises(FailedError, match="too many resources requested"):
        check(add_one, device=Failing())


def test_f64_what_the_driver_answers_to_a_launch_is_looked_at():
    launchable = Launchable.__new__(Launchable)
    launchable.function, launchable.cells, launchable.pointers = 0, [0] * 4, None
    launchable.call = lambda *arguments: 701
    with pytest.raises(FailedError, match="error 701 to a launch"):
        launchable.launch(1, 1, 0, [1])


def garbage(bits):
    """Right, but for what the n'th launch finds in memory that it reads by mistake."""
    launched = []

    def launch(b):
        launched.append(1)
        add_one(b)
        b["y"][0, 0] += bits(len(launched))

    return launch


def test_f64_garbage_in_one_of_several_launches_is_found():
    found = verify(case_of(kernel()), garbage(lambda n: n == 6), FakeDevice(), VerifyPolicy(repeats=20))
    assert not found.passed and found.outputs[0].worst_index == (0, 0)


def test_f64_garbage_that_is_small_enough_shows_as_other_bits():
    of, policy = kernel(tolerance=Tolerance(rtol=0, atol=1e-4)), VerifyPolicy(repeats=3)
    assert verify(case_of(of), add_one, FakeDevice(), policy).repeats is True
    found = verify(case_of(of), garbage(lambda n: 1e-5 * (n == 3)), FakeDevice(), policy)
    assert found.passed and found.repeats is False


def test_f64_shared_memory_over_the_limit_is_never_launched():
    over = Finding("KR001", "error", "add_kernel takes 240000 B of shared memory, over the 232448 of sm_90a")
    assert "over the 232448" in launch_errors(artifact(findings=(over,)))
    assert launch_errors(artifact()) == ""


def test_f65_a_clock_that_the_kernels_file_replaced_is_not_asked(monkeypatch):
    card = Card()
    timers = simulated_timers(monkeypatch, card)
    timers.torch.cuda.Event.elapsed_time = lambda start, stop: 1e-6
    assert [r.us for r in timers.time("event", [card.kernel(50)] * 3, Loop(lambda: None))] == [50] * 3


class Lazy:
    """Computes when it is looked at, which is after the timed call."""

    shape, dtype = (6, 5), "float32"


def test_f65_a_lazy_object_in_place_of_an_output_is_not_looked_at():
    def launch(b):
        b["y"] = Lazy()
        return {"y": b["x"] + 1}

    assert not check(launch).passed


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_f65_an_output_of_another_type_fails(dtype):
    case = case_of(kernel())
    case.outputs["y"] = np.empty((6, 5), dtype)
    found = verify(case, lambda b: b["y"].__setitem__(..., b["x"] + 1), FakeDevice())
    assert problems(found) == [f"is {dtype} (6, 5) instead of float32 (6, 5)"]


# ------------------------------------------------------------------------------------------ in place


def in_place():
    return kernel(outputs=lambda m, k: {"x": ((m, k), "float32")}, reference=lambda x: {"x": x + 1}, inplace=("x",))


class Found:
    """In-place calls by a device's kernel, and the values that each found, by where it works."""

    def __init__(self, device):
        self.device, self.values = device, set()

    def bind(self, buffers):
        return self.call(buffers["x"])

    def call(self, x):
        def work():
            self.values.add((id(x), x.tobytes()))
            x[...] += 1

        return self.device.kernel(50, work)


@pytest.mark.parametrize("cache", ["warm", "cold", "rotate"])
def test_f66_an_in_place_kernel_finds_the_first_values_in_every_call(cache):
    """Tried or timed; and so does the same code in memory of its own, and a baseline."""
    found = Found(device := TrialDevice())
    trial = trial_of(in_place(), device, found.bind, cache=cache, block_ms=0.1, warmup_ms=1, settle_s=0, rounds=2, max_rounds=2)
    trial.add_kernel("again", found.bind, [case.twin(device, case.seed) for case in trial.cases], "by hand")
    trial.add_baseline("by numpy", Baseline(lambda x: found.call(x)))
    timing = measure(trial.calls, trial.policy, device, verification(), before=trial.before).timing
    assert timing.implementations == ("k", "again", "by numpy") and {s.us for s in timing.samples} == {50}
    assert len(found.values) == 3 * len(trial.cases)
    assert all(trial.check(i).passed for i in trial.implementations), "also when it is checked afterwards"


def test_f66_a_capture_finds_the_first_values():
    """It calls once before it captures, after a verification and a baseline's first call."""

    class Capturing(TrialDevice):
        def capture(self, call, calls):
            call()
            return super().capture(call, calls)

    found = Found(device := Capturing())
    case = case_of(in_place(), device)
    verify(case, lambda buffers: found.bind(buffers)(), device, VerifyPolicy(seeds=1))
    trial = Trial(case, TimingPolicy(timer="graph", cache="warm"), device)
    trial.add_kernel("k", found.bind, trial.cases, "by hand")
    trial.add_baseline("by numpy", Baseline(lambda x: found.call(x)))
    assert len(trial.calls) == len(found.values) == 2


def test_f66_what_is_tried_before_the_timing_finds_the_first_values(monkeypatch):
    card, value, found = Card(), [1], set()
    timers, launch = simulated_timers(monkeypatch, card), card.kernel(5)

    def call():
        found.add(value[0])
        value[0] += 1
        launch()

    def before():
        value[0] = 0

    def synchronizes(call, before):
        value[0] = 1
        return timers.synchronizes(call, before)

    device = SimpleNamespace(time_calls=timers.time, hidden_us=timers.hidden_us, synchronizes=synchronizes)
    assert call_statuses("k", call, before, device) == [] and found == {0}


def test_f66_in_place_calls_back_to_back_are_refused():
    with pytest.raises(UsageError, match="cannot be restored between calls back to back"):
        trial_of(in_place(), TrialDevice(), lambda buffers: lambda: None, timer="event", calls=10)
