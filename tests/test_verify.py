"""Right and wrong kernels on a device that is a fake: every element of every output counts, and what is wrong is said."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from helpers_records import kernel

from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import Tolerance, UsageError, Workload
from tirx_bench.verify import compare, prepare, refill, restore_inputs, verify

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
EXACT = Tolerance(0, 0)


def dtyped(dtype, **changes):
    return kernel(workloads=(Workload("small", {"m": 6, "k": 5, "dtype": dtype}),), tolerance=Tolerance(0.2, 0.2), **changes)


def case_of(of, device=None, seed=3):
    return prepare(of, of.params(of.workloads[0]), device or FakeDevice(), seed)


def add_one(buffers):
    buffers["y"][...] = buffers["x"] + 1


def check(launch, of=None):
    """The verification of one launch, and its only output."""
    device = FakeDevice()
    found = verify(case_of(of or kernel(), device), launch, device)
    (output,) = found.outputs
    assert found.passed == output.passed
    return output


# ------------------------------------------------------------------------------------------------ right


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_correct_kernel_passes_in_every_float_dtype(dtype):
    output = check(lambda b: b["y"].__setitem__(..., (b["x"].astype("float32") + 1).astype(b["y"].dtype)), dtyped(dtype))
    assert output.passed and output.wrong_elements == 0
    assert (output.name, output.shape, output.dtype) == ("y", (6, 5), dtype)


def test_the_verification_says_from_which_inputs_and_which_reference():
    of = kernel(inputs=lambda m, k, rng: {"x": rng.normal((m, k), "float32"), "z": rng.uniform((m,), "float32", -1, 1)})
    found = verify(case_of(of, seed=11), add_one, FakeDevice())
    assert (found.seed, found.fill, found.reference) == (11, "normal(0, 1), uniform(-1, 1)", "FP32 by numpy")


def test_the_fill_of_inputs_that_were_not_drawn_is_their_mean_and_deviation():
    def inputs(m, k):
        return {"a": np.zeros((m, k), "float32"), "b": np.arange(4, dtype="int32"), "c": np.full((2,), 1.5, ml_dtypes.bfloat16)}

    of = kernel(inputs=inputs, reference=lambda a: {"y": a + 1})
    assert case_of(of).fill == "a mean 0 sd 0, b mean 1.5 sd 1.12, c mean 1.5 sd 0"


def test_inputs_of_which_some_are_drawn_are_named_by_what_was_drawn_and_what_they_hold():
    of = kernel(inputs=lambda m, k, rng: {"x": rng.normal((m, k), "float32"), "ones": np.ones(3)})
    assert case_of(of).fill.startswith("normal(0, 1); x mean ") and case_of(of).fill.endswith(", ones mean 1 sd 0")


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others():
    first, again, other = (case_of(kernel(), seed=seed).inputs["x"] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def launched(kernel_of, launch, seeds=1, seed=0):
    device = FakeDevice()
    return verify(prepare(kernel_of, kernel_of.params(kernel_of.workloads[0]), device, seed), launch, device, seeds)


def test_every_seed_is_tried_on_poisoned_outputs_and_fresh_inputs():
    seen = []

    def launch(b):
        seen.append((float(b["x"][0, 0]), bool(np.isnan(b["y"]).all())))
        b["y"][...] = b["x"] + 1

    found = launched(kernel(), launch, seeds=3, seed=5)
    assert found.passed and (found.seed, found.seeds, found.repeats) == (5, 3, True)
    firsts = [x for x, _ in seen]
    assert len(seen) == 6 and all(poisoned for _, poisoned in seen) and len(set(firsts)) == 3 and firsts[::2] == firsts[1::2]


def test_a_seed_that_fails_ends_it_and_is_named():
    calls = []

    def launch(b):
        calls.append(1)
        b["y"][...] = b["x"] + (1 if len(calls) < 3 else 2)

    found = launched(kernel(), launch, seeds=4, seed=7)
    assert not found.passed and found.seed == 8 and len(calls) == 3


def test_a_kernel_that_remembers_its_answer_fails_at_the_second_seed():
    kept = {}

    def launch(b):
        kept.setdefault("y", b["x"] + 1)
        b["y"][...] = kept["y"]

    assert launched(kernel(), launch).passed
    assert not launched(kernel(), launch, seeds=2).passed


def test_other_bits_in_a_second_launch_are_said_and_are_no_failure_of_their_own():
    calls = []

    def launch(b):
        calls.append(1)
        b["y"][...] = b["x"] + 1
        b["y"][0, 0] += len(calls) * 1e-6

    found = launched(kernel(), launch)
    assert found.passed and found.repeats is False


def test_an_argument_in_place_has_its_first_value_in_every_launch():
    of = kernel(
        inputs=lambda m, k, dtype, rng: {"y": rng.normal((m, k), dtype)}, reference=lambda y: {"y": y + 1}, inplace=("y",)
    )

    def launch(b):
        b["y"] += 1

    found = launched(of, launch, seeds=3)
    assert found.passed and found.repeats


def test_the_errors_are_those_of_all_elements():
    def launch(b):
        b["y"][...] = b["x"] + 1
        b["y"][2, 3] += 0.5

    case = case_of(kernel())
    expected = case.expected["y"]
    output = verify(case, launch, FakeDevice()).outputs[0]
    assert output.max_abs_error == pytest.approx(0.5, rel=1e-5)
    assert output.rms_rel_error == pytest.approx(0.5 / math.sqrt(float((expected**2).sum())), rel=1e-5)
    assert output.max_rel_error == pytest.approx(0.5 / abs(float(expected[2, 3])), rel=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integer_outputs_are_compared_like_any_other(dtype):
    of = kernel(outputs=lambda m, k: {"y": ((m, k), dtype)}, reference=lambda x: {"y": (x > 0) * 7}, tolerance=EXACT)
    assert check(lambda b: b["y"].__setitem__(..., (b["x"] > 0) * 7), of).passed
    wrong = check(lambda b: b["y"].__setitem__(..., (b["x"] > 0) * 7 + (b["x"] == b["x"][4, 4])), of)
    assert (wrong.wrong_elements, wrong.worst_index, wrong.max_abs_error) == (1, (4, 4), 1)
    assert check(lambda b: None, of).wrong_elements == 30, "an integer has no NaN, but its poison is not an answer either"


def test_a_reference_of_zeros_has_no_relative_error_and_passes():
    output = check(lambda b: b["y"].fill(0), kernel(reference=lambda x: {"y": 0 * x}))
    assert output.passed
    assert (output.max_abs_error, output.max_rel_error, output.rms_rel_error) == (0, 0, None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not
def test_values_whose_squares_leave_fp32_do_not_make_the_error_look_small():
    of = kernel(reference=lambda x: {"y": 0 * x + 1e20})
    output = check(lambda b: b["y"].fill(1.001e20), of)
    assert output.passed and output.max_rel_error == pytest.approx(0.001, rel=0.01)
    assert output.rms_rel_error is None, "and not 0"
    near = check(lambda b: b["y"].fill(1.0000001e20), of)
    assert near.max_abs_error > 0 and near.rms_rel_error is None


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4), (2, 3, 4, 5)], ids=str)
def test_outputs_of_every_rank_are_compared(shape):
    of = kernel(outputs=lambda m, k: {"y": (shape, "float32")}, reference=lambda x: {"y": np.ones(shape, "float32")})
    assert check(lambda b: b["y"].fill(1), of).passed
    last = tuple(extent - 1 for extent in shape)

    def launch(b):
        b["y"].fill(1)
        b["y"][last] = 2

    output = check(launch, of)
    assert (output.worst_index, output.wrong_elements, output.worst_actual) == (last, 1, 2)


# ------------------------------------------------------------------------------------------------ wrong


@pytest.mark.parametrize("place", [(0, 0), (0, 4), (3, 2), (5, 4)], ids=str)
def test_one_wrong_element_fails_wherever_it_is_and_is_named(place):
    def launch(b):
        add_one(b)
        b["y"][place] += 1

    output = check(launch)
    assert not output.passed
    assert (output.wrong_elements, output.worst_index) == (1, place)
    assert output.worst_actual == pytest.approx(output.worst_expected + 1)


def test_the_worst_element_is_the_one_furthest_beyond_its_own_bound():
    of = kernel(reference=lambda x: {"y": np.array([[1000.0, 1.0]], "float32")}, outputs=lambda: {"y": ((1, 2), "float32")})
    output = check(lambda b: b["y"].__setitem__(..., [[1009.0, 2.0]]), of)
    assert (output.wrong_elements, output.worst_index) == (1, (0, 1)), "9 is within 1 % of 1000, 1 is not within 1 % of 1"
    assert output.max_abs_error == 9


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_one_value_that_is_not_finite_fails_and_is_the_worst(value):
    def launch(b):
        add_one(b)
        b["y"][1, 2] += 100
        b["y"][4, 1] = value

    output = check(launch)
    assert (output.passed, output.wrong_elements, output.worst_index) == (False, 2, (4, 1))
    assert (output.worst_actual, output.max_abs_error) == (None, None)


def test_all_zeros_fail():
    output = check(lambda b: b["y"].fill(0))
    assert output.wrong_elements == 30


def test_an_output_that_was_never_written_fails_in_every_element():
    output = check(lambda b: None)
    assert (output.wrong_elements, output.worst_actual) == (30, None)


def test_a_kernel_that_leaves_the_last_column_out_fails():
    output = check(lambda b: b["y"].__setitem__((..., slice(0, 4)), (b["x"] + 1)[:, :4]))
    assert output.wrong_elements == 6
    assert output.worst_index[1] == 4


def test_an_error_just_within_the_tolerance_passes_and_just_beyond_it_fails():
    of = kernel(reference=lambda x: {"y": 0 * x + 4}, tolerance=Tolerance(rtol=0.25, atol=0.5))
    assert check(lambda b: b["y"].fill(5.5), of).passed
    assert not check(lambda b: b["y"].fill(5.5000005), of).passed


def test_a_tolerance_may_depend_on_the_parameters():
    of = kernel(tolerance=lambda k: Tolerance(0, k / 10))
    assert check(lambda b: b["y"].__setitem__(..., b["x"] + 1.4), of).passed
    assert not check(lambda b: b["y"].__setitem__(..., b["x"] + 1.6), of).passed


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not
def test_a_reference_that_is_not_finite_makes_the_case_invalid_even_when_the_output_agrees():
    of = kernel(reference=lambda x: {"y": x + np.inf})
    output = check(lambda b: b["y"].fill(np.inf), of)
    assert not output.passed
    assert output.problem == "the reference is not finite: the case is invalid"


def test_every_output_counts_and_each_is_reported():
    of = kernel(outputs=lambda m, k: {"y": ((m, k), "float32"), "sum": ((m,), "float32")},
                reference=lambda x: {"sum": x.sum(1), "y": x + 1})  # fmt: skip

    def launch(b):
        add_one(b)
        b["sum"][...] = b["x"].sum(1)
        b["sum"][2] += 1

    found = verify(case_of(of), launch, FakeDevice())
    assert {o.name: o.passed for o in found.outputs} == {"y": True, "sum": False}
    assert not found.passed


# ------------------------------------------------------------------------------------- the wrong form


def changed(outputs):
    """The verification of outputs that are not of the declared form."""
    device = FakeDevice()
    return compare(case_of(kernel(), device), outputs, device)


@pytest.mark.parametrize(
    "array, said",
    [
        (np.zeros((6, 5), "float64"), "is float64 (6, 5) instead of float32 (6, 5)"),
        (np.zeros((6, 5), ml_dtypes.bfloat16), "is bfloat16 (6, 5) instead of float32 (6, 5)"),
        (np.zeros((5, 6), "float32"), "is float32 (5, 6) instead of float32 (6, 5)"),
        (np.zeros((30,), "float32"), "is float32 (30,) instead of float32 (6, 5)"),
        (np.zeros((1, 5), "float32"), "is float32 (1, 5) instead of float32 (6, 5)"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_wrong_dtype_or_shape_fails_and_is_named(array, said):
    found = changed({"y": array})
    assert not found.passed
    assert found.outputs[0].problem == said


def test_a_missing_output_fails_and_is_named():
    found = changed({})
    assert not found.passed
    assert [(o.name, o.problem) for o in found.outputs] == [("y", "is missing")]


def test_a_missing_output_fails_also_when_the_others_are_right():
    of = kernel(outputs=lambda m, k: {"y": ((m, k), "float32"), "z": ((m, k), "float32")}, reference=lambda x: {"y": x, "z": x})
    case = case_of(of)
    found = compare(case, {"y": case.inputs["x"]}, FakeDevice())
    assert {o.name: o.passed for o in found.outputs} == {"y": True, "z": False}
    assert not found.passed


def test_a_reference_that_broadcasts_does_not_pass_for_a_whole_output():
    output = check(lambda b: b["y"].fill(1), kernel(reference=lambda x: {"y": np.ones((1, 5), "float32")}))
    assert output.problem == "has the shape (6, 5) and its reference (1, 5)"
    assert not output.passed


def test_an_output_without_elements_does_not_pass():
    of = kernel(outputs=lambda: {"y": ((0, 5), "float32")}, reference=lambda x: {"y": x[:0]})
    output = check(lambda b: None, of)
    assert (output.passed, output.problem) == (False, "has no elements, so nothing was checked")


@pytest.mark.parametrize(
    "reference", [lambda x: {}, lambda x: {"z": x}, lambda x: {"y": x, "z": x}], ids=["none", "other", "more"]
)
def test_a_reference_that_gives_other_outputs_than_declared_is_refused(reference):
    with pytest.raises(UsageError, match=r"add: reference gives \[.*\] and outputs \['y'\]"):
        case_of(kernel(reference=reference))


# ---------------------------------------------------------------------------------- buffers and places


def inplace_kernel(**changes):
    return kernel(outputs=lambda m, k: {"x": ((m, k), "float32")}, reference=lambda x: {"x": x + 1}, inplace=("x",), **changes)


def test_an_in_place_argument_is_an_output_and_its_first_values_come_back_with_reset():
    case, device = case_of(inplace_kernel()), FakeDevice()
    before = case.inputs["x"].copy()

    def launch(b):
        b["x"] += 1

    assert verify(case, launch, device).passed
    assert (case.inputs["x"] == before).all(), "the kernel changes a copy"
    assert not verify(case, launch, device).passed, "without reset the second launch adds to the first"
    case.reset()
    assert (case.buffers["x"] == before).all()
    assert verify(case, launch, device).passed


def test_an_in_place_argument_of_another_dtype_than_its_output_is_named():
    of = kernel(outputs=lambda m, k: {"x": ((m, k), "float16")}, reference=lambda x: {"x": x}, inplace=("x",))
    assert check(lambda b: None, of).problem == "is float32 (6, 5) instead of float16 (6, 5)"


def test_a_scratch_argument_may_be_changed_in_place_without_being_an_output():
    of = kernel(inplace=("x",))
    case = case_of(of)

    def launch(b):
        add_one(b)
        b["x"].fill(0)

    assert verify(case, launch, FakeDevice()).passed
    assert case.inputs["x"].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_that_overwrites_its_input_cannot_change_what_is_expected(dtype):
    def launch(b):
        b["x"].fill(0)
        b["y"].fill(0)

    found = verify(case_of(dtyped(dtype, reference=lambda x: {"y": x})), launch, FakeDevice())
    assert found.outputs[0].name == "y" and not found.outputs[0].passed


def test_an_input_that_the_launch_changed_is_a_failed_check_of_its_own():
    def launch(b):
        add_one(b)
        b["x"][2, 3] = -b["x"][2, 3]

    found = verify(case_of(kernel()), launch, FakeDevice())
    output, changed = found.outputs
    assert (output.name, output.passed) == ("y", True), "what was asked for is right"
    assert (changed.name, changed.shape, changed.dtype, changed.passed) == ("x", (6, 5), "float32", False)
    assert changed.problem == "is an input that the launch changed, and not declared in place"
    assert not found.passed


def test_inputs_that_changed_are_named_and_have_their_values_again():
    of = kernel(inputs=lambda m, k, rng: {name: rng.normal((m, k), "float32") for name in ("x", "w", "b")})
    case, device = case_of(of), FakeDevice()
    arrays, before = dict(case.inputs), {name: array.copy() for name, array in case.inputs.items()}
    case.inputs["b"].fill(0)
    case.inputs["x"][0, 0] = np.nan
    assert restore_inputs(case, before, device) == ["x", "b"]
    assert all((case.inputs[name] == before[name]).all() and case.inputs[name] is arrays[name] for name in before)
    assert restore_inputs(case, before, device) == []


def test_after_a_verification_the_inputs_are_as_they_were_even_if_the_launch_changed_them():
    case = case_of(kernel())
    first = case.inputs["x"].copy()

    def scribbles(b):
        add_one(b)
        b["x"].fill(7)

    assert not verify(case, scribbles, FakeDevice()).passed
    assert (case.inputs["x"] == first).all()


def test_the_sign_of_a_zero_and_a_nan_are_bits_of_an_input_too():
    def zero_to_minus_zero(b):
        add_one(b)
        b["x"][0, 0] = -b["x"][0, 0]

    def same(b):
        add_one(b)
        b["x"][0, 0] = b["x"][0, 0]

    zero = kernel(inputs=lambda m, k: {"x": np.zeros((m, k), "float32")})
    assert not verify(case_of(zero), zero_to_minus_zero, FakeDevice()).passed
    nan = kernel(
        inputs=lambda m, k: {"x": np.full((m, k), np.nan, "float32")}, reference=lambda x: {"y": np.ones((6, 5), "float32")}
    )
    assert [o.name for o in verify(case_of(nan), same, FakeDevice()).outputs] == ["y"], "a NaN that stayed did not change"


def test_other_values_in_the_same_memory_make_what_was_right_wrong():
    case, device = case_of(kernel(), seed=1), FakeDevice()
    buffers, before = case.buffers, case.inputs["x"].copy()
    add_one(buffers)
    assert compare(case, case.outputs, device).passed
    refill(case, device, 2)
    assert all(case.buffers[name] is array for name, array in buffers.items()), "a launch that is bound already sees them"
    assert (case.inputs["x"] != before).any() and (case.inputs["x"] == case_of(kernel(), seed=2).inputs["x"]).all()
    assert not compare(case, case.outputs, device).passed, "the old answer"
    add_one(buffers)
    assert compare(case, case.outputs, device).passed


def test_other_values_reach_in_place_arguments_too():
    case, device = case_of(inplace_kernel(), seed=1), FakeDevice()
    case.buffers["x"] += 1
    refill(case, device, 2)
    assert (case.buffers["x"] == case.inputs["x"]).all()
    case.buffers["x"][...] += 1
    assert compare(case, case.outputs, device).passed


def test_a_twin_is_the_same_problem_in_memory_of_its_own_with_other_values():
    case, device = case_of(kernel(), seed=1), FakeDevice()
    same, other = case.twin(device, 1), case.twin(device, 2)
    assert (same.seed, other.seed, other.params) == (1, 2, case.params)
    assert (same.inputs["x"] == case.inputs["x"]).all() and (other.inputs["x"] != case.inputs["x"]).any()
    assert not any(
        np.shares_memory(a, b) for a in case.buffers.values() for b in (*same.buffers.values(), *other.buffers.values())
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_reference_that_works_in_place_cannot_change_what_the_kernel_reads(dtype):
    def reference(x):
        x += 1
        return {"y": x}

    assert check(add_one, dtyped(dtype, reference=reference)).passed


def test_outputs_and_workspace_start_poisoned_and_the_kernel_gets_all_by_name():
    of = kernel(workspace=lambda m: {"counters": ((m,), "int32"), "partial": ((m, 2), "bfloat16")})
    case = case_of(of)
    assert set(case.buffers) == {"x", "y", "counters", "partial"}
    assert np.isnan(case.buffers["y"]).all()
    assert np.isnan(case.buffers["partial"].astype("float32")).all()
    assert (case.buffers["counters"] == -1).all()


def test_the_reference_gets_inputs_as_the_kernel_sees_them_rounded_to_their_dtype_and_widened():
    seen = {}

    def reference(x):
        seen["x"] = x
        return {"y": x}

    case = case_of(dtyped("bfloat16", reference=reference))
    assert seen["x"].dtype == "float32"
    assert (seen["x"] == case.inputs["x"].astype("float32")).all()
    assert (seen["x"] == seen["x"].astype(ml_dtypes.bfloat16)).all()


def test_reference_inputs_and_outputs_take_only_the_parameters_that_they_name():
    def reference(x, k):
        return {"y": x * k}

    assert check(lambda b: b["y"].__setitem__(..., b["x"] * 5), kernel(reference=reference)).passed


def test_the_launch_is_waited_for_before_anything_is_compared():
    order = []

    class Watched(FakeDevice):
        def synchronize(self):
            order.append("synchronize")

        def widen(self, array):
            order.append("widen")
            return super().widen(array)

    device = Watched()
    case = case_of(kernel(), device)
    order.clear()
    verify(case, lambda b: order.append("launch"), device)
    assert order[:3] == ["launch", "synchronize", "widen"]
