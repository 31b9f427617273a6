"""Right and wrong kernels on a device that is a fake: every element of every output counts, and what is wrong is said."""

from __future__ import annotations

import contextlib
import math

import ml_dtypes
import numpy as np
import pytest
from helpers_records import kernel
from helpers_verify import FLOATS, ONCE, add_one, case_of, check, gemm, multiplies, shifts, sized, verified

from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import CONDITIONS, DEEP, FailedError, Tile, Tolerance, UsageError, VerifyPolicy
from tirx_bench.verify import compare, verify

EXACT = Tolerance(0, 0)
LOOSE = Tolerance(rtol=1e-2, atol=1e-3)


# ------------------------------------------------------------------------------------------------ right


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_correct_kernel_passes_in_every_float_dtype(dtype):
    output = check(add_one, sized(6, 5, dtype))
    assert output.passed and output.wrong_elements == 0
    assert (output.name, output.shape, output.dtype) == ("y", (6, 5), dtype)


def test_the_verification_says_from_which_inputs_and_which_reference():
    of = kernel(inputs=lambda m, k, rng: {"x": rng.normal((m, k), "float32"), "z": rng.uniform((m,), "float32", -1, 1)})
    found = verified(of, add_one, seed=11)
    assert (found.seed, found.kind, found.fill) == (11, "normal", "normal(0, 1), uniform(-1, 1)")
    assert found.reference == "FP32 by numpy; FP64 where @ sums over 1024 terms"


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


def test_the_errors_are_those_of_all_elements():
    case = case_of(kernel())
    expected = case.expected["y"]
    output = verify(case, shifts(0.5, (2, 3)), FakeDevice()).outputs[0]
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


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_product_of_integers_is_right_to_the_last_unit_or_wrong(dtype):
    of = gemm(16, 16, 64, dtype, inputs=lambda m, n, k, rng: {"a": rng.uniform((m, k), dtype, 0, 100),
              "b": rng.uniform((n, k), dtype, 0, 100)}, outputs=lambda m, n: {"c": ((m, n), "int32")},
              tolerance=EXACT, magnitude=None)  # fmt: skip

    def launch(b, by=0):
        b["c"][...] = b["a"].astype("int32") @ b["b"].astype("int32").T
        b["c"][9, 2] += by

    assert verified(of, launch).passed
    (wrong,) = verified(of, lambda b: launch(b, 1)).outputs
    assert (wrong.wrong_elements, wrong.worst_index, wrong.max_abs_error) == (1, (9, 2), 1)


def test_a_reference_of_zeros_has_no_relative_error_and_passes():
    output = check(lambda b: b["y"].fill(0), kernel(reference=lambda x: {"y": 0 * x}))
    assert output.passed
    assert (output.max_abs_error, output.max_rel_error, output.rms_rel_error) == (0, 0, None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not
def test_values_whose_squares_leave_fp32_do_not_make_the_error_look_small():
    of = kernel(reference=lambda x: {"y": 0 * x + 1e20}, tolerance=LOOSE)
    output = check(lambda b: b["y"].fill(1.001e20), of)
    assert output.passed and output.max_rel_error == pytest.approx(0.001, rel=0.01)
    assert output.rms_rel_error is None, "and not 0"
    near = check(lambda b: b["y"].fill(1.0000001e20), of)
    assert near.max_abs_error > 0 and near.rms_rel_error is None


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3, 4), (2, 3, 4, 5), (1, 100)], ids=str)
def test_outputs_of_every_rank_are_compared(shape):
    of = kernel(outputs=lambda m, k: {"y": (shape, "float32")}, reference=lambda x: {"y": np.ones(shape, "float32")})
    assert check(lambda b: b["y"].fill(1), of).passed
    last = tuple(extent - 1 for extent in shape)

    def launch(b):
        b["y"].fill(1)
        b["y"][last] = 2

    output = check(launch, of)
    assert (output.worst_index, output.wrong_elements, output.worst_actual) == (last, 1, 2)


def test_a_sum_to_one_number_is_verified():
    """Without a dimension, and so with neither rows nor tiles."""
    of = sized(40, 40, "bfloat16", outputs=lambda: {"y": ((), "float32")}, reference=lambda x: {"y": x.sum()},
               tolerance=Tolerance(rtol=0, atol=1e-3))  # fmt: skip

    def launch(b, by=0.0):
        b["y"][...] = b["x"].astype("float64").sum() + by

    found = verified(of, launch)
    assert found.passed and found.outputs[0].shape == ()
    assert [c.outcome for c in found.controls[:2]] == ["rejected"] * 2
    assert not verified(of, lambda b: launch(b, 0.01)).passed


# ------------------------------------------------------------------------------------------------ wrong


@pytest.mark.parametrize("place", [(0, 0), (0, 4), (3, 2), (5, 4)], ids=str)
def test_one_wrong_element_fails_wherever_it_is_and_is_named(place):
    output = check(shifts(1, place))
    assert not output.passed
    assert (output.wrong_elements, output.worst_index) == (1, place)
    assert output.worst_actual == pytest.approx(output.worst_expected + 1)


def test_the_worst_element_is_the_one_furthest_beyond_its_own_bound():
    of = kernel(reference=lambda x: {"y": np.array([[1000.0, 1.0]], "float32")}, outputs=lambda: {"y": ((1, 2), "float32")},
                tolerance=LOOSE)  # fmt: skip
    output = check(lambda b: b["y"].__setitem__(..., [[1009.0, 2.0]]), of)
    assert (output.wrong_elements, output.worst_index) == (1, (0, 1)), "9 is within 1 % of 1000, 1 is not within 1 % of 1"
    assert output.max_abs_error == 9


def test_of_right_outputs_the_element_nearest_to_its_bound_is_named_with_its_share():
    of = kernel(reference=lambda x: {"y": np.array([[1000.0, 1.0]], "float32")}, outputs=lambda: {"y": ((1, 2), "float32")},
                tolerance=Tolerance(rtol=0.01, atol=0))  # fmt: skip
    output = check(lambda b: b["y"].__setitem__(..., [[1002.0, 1.0075]]), of)
    assert output.passed and output.worst_index == (0, 1) and output.bound_share == pytest.approx(0.75, rel=1e-4)
    wrong = check(lambda b: b["y"].__setitem__(..., [[1002.0, 1.02]]), of)
    assert not wrong.passed and wrong.bound_share == pytest.approx(2, rel=1e-4)


def test_the_worst_elements_owner_is_a_tile_of_each_level():
    tiles = {"c": (Tile("tile", (64, 32)), Tile("warpgroup", (16, 32)))}
    of = gemm(128, 64, 32, tiles=lambda m: tiles)

    def launch(b):
        multiplies()(b)
        b["c"][70, 33] += 100

    (output,) = verified(of, launch).outputs
    assert (output.worst_index, output.owner) == ((70, 33), "tile [1, 1], warpgroup [0]")
    assert verified(of, multiplies()).outputs[0].owner.startswith("tile ")
    assert verified(gemm(), multiplies()).outputs[0].owner == "", "a kernel that does not say"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_one_value_that_is_not_finite_fails_and_is_the_worst(value):
    def launch(b):
        add_one(b)
        b["y"][1, 2] += 100
        b["y"][4, 1] = value

    output = check(launch)
    assert (output.passed, output.wrong_elements, output.worst_index) == (False, 2, (4, 1))
    assert (output.worst_actual, output.max_abs_error, output.bound_share) == (None, None, None)


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
    assert check(shifts(0.4), of).passed
    assert not check(shifts(0.6), of).passed


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

    found = verified(of, launch)
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


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"outputs": lambda m, k: {"x": ((m, k), "float32")}, "reference": lambda x: {"x": x}}, "are inputs and outputs"),
        ({"tiles": lambda: {"z": (Tile("block", (2, 2)),)}}, "tiles are given of 'z', which is no output"),
        ({"tiles": lambda: {"y": (Tile("block", (2,)),)}}, "the tile 'block' has 1 dimensions, y has 2"),
    ],
)  # fmt: skip
def test_a_description_that_contradicts_itself_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        case_of(kernel(**changes))


def test_a_magnitude_that_gives_other_outputs_than_declared_is_refused():
    with pytest.raises(UsageError, match=r"gemm: magnitude gives \['d'\] and outputs \['c'\]"):
        case_of(gemm(magnitude=lambda a, b: {"d": abs(a) @ abs(b).T}))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_reference_that_works_in_place_cannot_change_what_the_kernel_reads(dtype):
    def reference(x):
        x += 1
        return {"y": x}

    assert check(add_one, sized(16, 16, dtype, reference=reference)).passed


def test_the_reference_gets_inputs_as_the_kernel_sees_them_rounded_to_their_dtype_and_widened():
    seen = {}

    def reference(x):
        seen["x"] = x
        return {"y": x}

    case = case_of(sized(6, 5, "bfloat16", reference=reference))
    assert seen["x"].dtype == "float32"
    assert (seen["x"] == case.inputs["x"].astype("float32")).all()
    assert (seen["x"] == seen["x"].astype(ml_dtypes.bfloat16)).all()


def test_reference_inputs_and_outputs_take_only_the_parameters_that_they_name():
    def reference(x, k):
        return {"y": x * k}

    assert check(lambda b: b["y"].__setitem__(..., b["x"] * 5), kernel(reference=reference)).passed


# ------------------------------------------------------------------------------- seeds and repeats


def test_every_seed_is_tried_on_poisoned_outputs_and_fresh_inputs():
    seen = []

    def launch(b):
        seen.append((float(b["x"][0, 0]), bool(np.isnan(b["y"]).all())))
        b["y"][...] = b["x"] + 1

    found = verified(kernel(), launch, VerifyPolicy(seeds=3), seed=5)
    assert found.passed and (found.seed, found.repeats) == (5, True)
    assert [(a.fill, a.seed, a.condition, a.launches) for a in found.tried] == [
        ("normal(0, 1)", seed, "alone", 2) for seed in (5, 6, 7)
    ]
    firsts = [x for x, _ in seen]
    assert len(seen) == 6 and all(poisoned for _, poisoned in seen) and len(set(firsts)) == 3 and firsts[::2] == firsts[1::2]


def test_two_seeds_are_tried_unless_told_otherwise():
    assert [a.seed for a in verified(kernel(), add_one, VerifyPolicy()).tried] == [3, 4]


def test_a_seed_that_fails_ends_it_and_is_named():
    calls = []

    def launch(b):
        calls.append(1)
        b["y"][...] = b["x"] + (1 if len(calls) < 3 else 2)

    found = verified(kernel(), launch, VerifyPolicy(seeds=4), seed=7)
    assert not found.passed and found.seed == 8 and len(calls) == 3
    assert [a.seed for a in found.tried] == [7] and found.controls, "what was found before stays"


def test_a_kernel_that_remembers_its_answer_fails_at_the_second_seed():
    kept = {}

    def launch(b):
        kept.setdefault("y", b["x"] + 1)
        b["y"][...] = kept["y"]

    assert verified(kernel(), launch).passed
    assert not verified(kernel(), launch, VerifyPolicy()).passed


def unsteady(bits):
    """y = x + 1, but for a part that the number of the call decides."""
    calls = []

    def launch(b):
        calls.append(1)
        add_one(b)
        b["y"][0, 0] += bits(len(calls))

    return launch


def test_other_bits_in_a_second_launch_are_said_and_are_no_failure_of_their_own():
    found = verified(sized(16, 16, tolerance=Tolerance(rtol=0, atol=1e-5)), unsteady(lambda call: call * 1e-6))
    assert found.passed and found.repeats is False


@pytest.mark.parametrize("at", [1, 2, 5])
def test_other_bits_are_said_whichever_launch_they_are_of(at):
    of = sized(16, 16, tolerance=Tolerance(rtol=0, atol=1e-5))
    found = verified(of, unsteady(lambda call: 1e-6 * (call == at + 1)), VerifyPolicy(seeds=2, repeats=4))
    assert found.passed and found.repeats is False, "of the first seed or of the second"


def test_a_failure_in_the_fifth_repeat_is_found():
    calls = []

    def launch(b):
        calls.append(1)
        add_one(b)
        b["y"][5, 4] += len(calls) == 6

    found = verified(kernel(), launch, VerifyPolicy(repeats=20))
    assert not found.passed and found.outputs[0].worst_index == (5, 4)
    assert found.repeats is False and len(calls) == 6 and found.tried == ()


def test_launches_that_were_not_repeated_say_nothing_about_their_bits():
    assert verified(kernel(), lambda b: None).repeats is None


def test_every_launch_is_counted():
    assert [a.launches for a in verified(kernel(), add_one, VerifyPolicy(repeats=6)).tried] == [7, 2]


def test_the_largest_share_of_the_bound_is_kept_with_every_attempt():
    found = verified(sized(16, 16, "bfloat16"), add_one, VerifyPolicy(seeds=3))
    assert all(0.5 < a.bound_share <= 1 for a in found.tried) and found.tried[0].bound_share == found.outputs[0].bound_share


# ---------------------------------------------------------------------------------------- conditions


def test_every_condition_is_around_its_launches_and_over_afterwards():
    device, seen = FakeDevice(), []

    def launch(b):
        seen.append(device.condition)
        add_one(b)

    found = verified(kernel(), launch, VerifyPolicy(conditions=CONDITIONS[:3], repeats=2), device)
    assert found.passed and device.condition == "alone"
    assert seen == ["alone"] * 3 + ["high-priority stream"] * 3 + ["beside a copy"] * 3 + ["alone"] * 2, "the second seed"
    assert [a.condition for a in found.tried] == [*CONDITIONS[:3], "alone"]


def test_what_disturbs_is_started_before_every_launch():
    log = []

    class Disturbing(FakeDevice):
        @contextlib.contextmanager
        def under(self, condition):
            with super().under(condition):
                yield lambda: log.append(condition)

    def launch(b):
        log.append("launch")
        add_one(b)

    verified(kernel(), launch, VerifyPolicy(seeds=1, conditions=("beside a matmul",)), Disturbing())
    assert log == ["beside a matmul", "launch"] * 2


def test_an_error_only_beside_a_copy_is_found_and_named():
    device = FakeDevice()

    def launch(b):
        add_one(b)
        b["y"][0, 0] += device.condition == "beside a copy"

    assert verified(kernel(), launch, VerifyPolicy(), device).passed
    found = verified(kernel(), launch, VerifyPolicy(conditions=DEEP.conditions, repeats=3), device)
    assert not found.passed and found.condition == "beside a copy"
    assert [a.condition for a in found.tried] == ["alone", "high-priority stream"], "and nothing after it"


def test_a_kernel_that_faults_leaves_no_condition_behind():
    device = FakeDevice()

    def launch(b):
        raise FailedError("a kernel faulted")

    with pytest.raises(FailedError):
        verified(kernel(), launch, VerifyPolicy(conditions=("beside a copy",)), device)
    assert device.condition == "alone"


def test_the_launch_is_waited_for_before_anything_is_compared():
    order = []

    class Watched(FakeDevice):
        def synchronize(self):
            order.append("synchronize")

        def widen(self, array):
            order.append("widen")
            return super().widen(array)

        def broken(self, frame):
            order.append("broken")
            return super().broken(frame)

    device = Watched()
    case = case_of(kernel(), device)
    order.clear()
    verify(case, lambda b: order.append("launch"), device)
    assert order[:2] == ["launch", "synchronize"]


# ------------------------------------------------------------------------------------------- the policy


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"fills": ("norml",)}, "unknown fill 'norml'"),
        ({"conditions": ("alone", "beside a cop")}, "unknown condition 'beside a cop'"),
        ({"seeds": 0}, "0 seeds and 1 repeats verify nothing"),
        ({"repeats": 0}, "2 seeds and 0 repeats verify nothing"),
        ({"fills": ()}, "verify nothing"),
        ({"conditions": ()}, "verify nothing"),
    ],
    ids=str,
)
def test_a_policy_that_verifies_nothing_is_refused(wrong, said):
    with pytest.raises(UsageError, match=said):
        VerifyPolicy(**wrong)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not
def test_a_right_kernel_passes_everything_at_once():
    found = verified(gemm(64, 64, 32), multiplies(), DEEP)
    assert found.passed and found.repeats is True and not found.skipped
    assert len(found.tried) == len(DEEP.conditions) + DEEP.seeds - 1 + len(DEEP.fills) - 1
    assert ONCE.fills == ("normal",)
