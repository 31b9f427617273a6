"""Known wrong outputs: a tolerance that fits rejects each, one that accepts any fails, and some cannot be told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers_records import kernel
from helpers_verify import ONCE, add_one, case_of, gemm, multiplies, sized, verified
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import Control, RoundingBound, Tile, Tolerance, Verification, VerifyPolicy
from tirx_bench.ops import relu, where
from tirx_bench.verify.arithmetic import accumulated_in
from tirx_bench.verify.controls import CONTROLS, controls

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not

ZEROS, MISSING, SWAPPED, DROPPED, NARROW, ROUNDED, OFF = CONTROLS
OUTCOMES = ("rejected", "accepted", "skipped")


def by_outcome(found):
    return {outcome: {c.name for c in found if c.outcome == outcome} for outcome in OUTCOMES}


def reason(found, name):
    return next(c.reason for c in found if c.name == name and c.outcome == "skipped")


def with_bias(dtype, **changes):
    def inputs(m, n, k, rng):
        return {"a": rng.normal((m, k), dtype), "b": rng.normal((n, k), dtype), "bias": rng.normal((n,), "float32")}

    return gemm(
        128, 128, 256, dtype, inputs=inputs, reference=lambda a, b, bias: {"c": a @ b.T + bias},
        magnitude=lambda a, b, bias: {"c": abs(a) @ abs(b).T + abs(bias)}, **changes,
    )  # fmt: skip


def adds_bias(buffers):
    multiplies(lambda c: c + buffers["bias"])(buffers)


# -------------------------------------------------------------------------------------------- rejected


@pytest.mark.parametrize("shape", [(128, 64, 64), (64, 256, 256), (128, 128, 1024)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_bound_of_a_right_gemm_rejects_every_control(dtype, shape):
    found = verified(gemm(*shape, dtype), multiplies())
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_relu_or_a_bias_hides_no_control(dtype):
    for of, launch in ((gemm(128, 128, 256, dtype, epilogue=relu), multiplies(relu)), (with_bias(dtype), adds_bias)):
        found = verified(of, launch)
        assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_inputs_have_every_control_too(dtype, out):
    found = verified(gemm(128, 128, 256, dtype, out), multiplies())
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_two_percent_are_lost_in_the_rounding_of_an_eight_bit_output(dtype):
    found = verified(gemm(128, 128, 256, dtype), multiplies()).controls
    assert by_outcome(found)["rejected"] == set(CONTROLS) - {OFF}
    assert reason(found, OFF) == "it gives what is expected, but for rounding"


def test_inputs_in_fp32_are_rounded_to_tf32_and_no_sum_is_narrower():
    found = verified(gemm(128, 128, 256, "float32"), multiplies()).controls
    assert by_outcome(found)["rejected"] == set(CONTROLS) - {NARROW}
    assert reason(found, NARROW) == "no input is narrower than the accumulator"


def test_inputs_in_fp64_are_rounded_to_the_bits_of_fp32():
    def of(unit):
        return gemm(128, 128, 256, "float64", tolerance=lambda k: RoundingBound(steps=k, unit=unit))

    found = verified(of(2.0**-53), multiplies(rounded=lambda c, dtype: c))
    assert not found.outputs[0].passed, "a product that was rounded to FP32"

    def launch(b):
        np.matmul(b["a"], b["b"].T, out=b["c"])

    right = verified(of(2.0**-53), launch)
    assert right.passed and by_outcome(right.controls)["rejected"] == set(CONTROLS) - {NARROW}
    assert verified(of(2.0**-23), launch).accepted == (ROUNDED,), "a bound for an accumulator in FP32"


@given(
    m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 200), seed=st.integers(0, 1 << 20),
    dtype=st.sampled_from(["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float32"]), through_relu=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_right_bound_is_never_said_to_accept_a_control_however_small_the_output(m, n, k, seed, dtype, through_relu):
    epilogue = relu if through_relu else lambda c: c
    case, device = case_of(gemm(m, n, k, dtype, epilogue=epilogue), seed=seed), FakeDevice()
    multiplies(epilogue)(case.buffers)
    assert not by_outcome(controls(case, device))["accepted"]


# -------------------------------------------------------------------------------------------- accepted


ACCEPTED = [
    (Tolerance(rtol=2**-8, atol=0.01), set()),
    (Tolerance(rtol=0.02, atol=0.02), {OFF}),
    (Tolerance(rtol=2**-8, atol=0.1), {NARROW}),
    (Tolerance(rtol=2**-8, atol=0.3), {NARROW, ROUNDED, OFF}),
    (Tolerance(rtol=0.01, atol=25), {NARROW, ROUNDED, OFF, DROPPED}),
    (Tolerance(rtol=0.01, atol=40), {NARROW, ROUNDED, OFF, DROPPED, ZEROS, MISSING}),
    (Tolerance(rtol=0, atol=1000), set(CONTROLS)),
]


@pytest.mark.parametrize(("tolerance", "accepted"), ACCEPTED, ids=lambda v: str(v) if isinstance(v, Tolerance) else "")
def test_a_flat_tolerance_that_is_too_loose_fails_and_says_what_it_accepts(tolerance, accepted):
    """Of sums of 64 terms, whose rms is 8."""
    found = verified(gemm(128, 128, 64, tolerance=tolerance), multiplies())
    assert all(o.passed for o in found.outputs) and found.passed is not bool(accepted)
    assert set(found.accepted) == accepted == by_outcome(found.controls)["accepted"]
    assert all(c.reason == "as c" for c in found.controls if c.outcome == "accepted")


def test_every_control_is_accepted_by_some_tolerance_and_its_name_is_then_in_the_verification():
    assert set().union(*(accepted for _, accepted in ACCEPTED)) == set(CONTROLS)
    found = Verification((), 0, "", "", controls=tuple(Control(name, "accepted") for name in CONTROLS))
    assert found.accepted == tuple(CONTROLS)


def test_nothing_is_tried_with_a_tolerance_that_proves_nothing():
    found = verified(kernel(tolerance=Tolerance(0, 100)), add_one, VerifyPolicy(seeds=5, fills=("normal", "constant")))
    assert not found.passed and ZEROS in found.accepted and len(found.tried) == 1


def test_a_right_output_passes_only_if_no_control_does():
    found = verified(sized(16, 16), add_one)
    assert found.passed and not found.accepted
    assert not replace(found, controls=(Control(ZEROS, "accepted"),)).passed
    assert replace(found, controls=(Control(ZEROS, "skipped"), Control(OFF, "rejected"))).passed


@pytest.mark.parametrize("loose", ["y", "z"])
def test_a_control_that_passes_for_one_of_several_outputs_fails_as_that(loose):
    """One tolerance for outputs of two sizes, as large as the smaller one's values."""
    scale = {"y": 1.0, "z": 1.0, loose: 1e-6}
    of = sized(
        64, 16, outputs=lambda m, k: {"y": ((m, k), "float32"), "z": ((m, k), "float32")},
        reference=lambda x: {name: x * by for name, by in scale.items()}, tolerance=Tolerance(rtol=0, atol=1e-5),
    )  # fmt: skip

    def launch(b):
        for name, by in scale.items():
            b[name][...] = b["x"] * np.float32(by)

    found = verified(of, launch)
    assert ZEROS in found.accepted and {c.reason for c in found.controls if c.outcome == "accepted"} == {f"as {loose}"}


def test_the_controls_are_of_random_normal_inputs_that_the_kernel_was_right_on():
    of = gemm(128, 64, 32)
    assert verified(of, multiplies(), VerifyPolicy(seeds=1, fills=("uniform",))).controls == ()
    assert verified(of, lambda b: b["c"].fill(0)).controls == ()
    assert len(verified(of, multiplies(), VerifyPolicy(fills=("normal", "uniform"))).controls) == len(CONTROLS)


# ------------------------------------------------------------------------------------------ how each is made


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_never_made_from_the_tolerance(name):
    asked, device = [], FakeDevice()

    def tolerance(k):
        asked.append(k)
        return RoundingBound(steps=k)

    case = case_of(gemm(128, 128, 64, tolerance=tolerance))
    asked.clear()
    made = CONTROLS[name](case, device)
    assert not asked
    other = CONTROLS[name](case_of(gemm(128, 128, 64, tolerance=Tolerance(rtol=1, atol=100))), device)
    assert (made["c"] == other["c"]).all() and (made["c"] != case.expected["c"]).any()


@pytest.mark.parametrize("name", CONTROLS)
def test_making_a_control_changes_nothing_that_the_case_holds(name):
    case, device = case_of(gemm(128, 128, 64)), FakeDevice()
    multiplies()(case.buffers)
    held = [*case.buffers.values(), *case.expected.values(), *case.magnitude.values()]
    before = [array.tobytes() for array in held]
    controls(case, device)
    CONTROLS[name](case, device)
    assert [array.tobytes() for array in held] == before


def made(name, of):
    """A control's output and what is expected."""
    case = case_of(of)
    (output,) = CONTROLS[name](case, FakeDevice()).values()
    return output, case.expected[next(iter(case.expected))]


def test_the_missing_tile_is_one_that_the_kernel_declares():
    tiles = {"c": (Tile("tile", (16, 48)), Tile("warp", (16, 8)))}
    wrong, right = made(MISSING, gemm(64, 144, 16, tiles=lambda m: tiles))
    missing = np.argwhere(wrong != right)
    assert (missing.min(0) == (32, 48)).all() and (missing.max(0) == (47, 95)).all() and len(missing) == 16 * 48
    assert not wrong[32:48, 48:96].any()


def test_a_tile_larger_than_the_output_is_all_of_it():
    wrong, _ = made(MISSING, gemm(24, 40, 16, tiles=lambda m: {"c": (Tile("tile", (128, 256)),)}))
    assert not wrong.any()


def test_tiles_change_places_along_the_last_direction_that_has_two():
    wrong, right = made(SWAPPED, gemm(200, 150, 16))
    assert (wrong[:64, :64] == right[:64, 64:128]).all() and (wrong[:64, 64:128] == right[:64, :64]).all()
    assert (wrong[64:] == right[64:]).all() and (wrong[:, 128:] == right[:, 128:]).all()
    wrong, right = made(SWAPPED, gemm(200, 100, 16))
    assert (wrong[:64, :64] == right[64:128, :64]).all() and (wrong[64:128, :64] == right[:64, :64]).all()


def test_the_last_sixteen_terms_are_those_of_every_sum():
    of = gemm(16, 24, 100)
    case = case_of(of)
    a, b = (case.inputs[name].astype("float32") for name in ("a", "b"))
    assert (CONTROLS[DROPPED](case, FakeDevice())["c"] == a[:, :84] @ b[:, :84].T).all()


def test_sums_of_mixed_inputs_are_kept_in_the_wider_dtype_of_those_that_are_narrow():
    def inputs(m, n, k, rng):
        return {"a": rng.normal((m, k), "float8_e5m2"), "b": rng.normal((n, k), "bfloat16"), "bias": rng.normal((n,), "float32")}

    case = case_of(gemm(16, 16, 64, inputs=inputs))
    a, b = (case.inputs[name].astype("float32") for name in ("a", "b"))
    assert (CONTROLS[NARROW](case, FakeDevice())["c"] == accumulated_in("bfloat16", FakeDevice())(a, b.T)).all()


def test_the_one_element_is_a_typical_one_and_off_by_two_percent_of_its_rows_rms():
    for of in (sized(9, 100), sized(100, 9), sized(100, 1), sized(9, 100, outputs=lambda m, k: {"y": ((3, 3, k), "float32")},
               reference=lambda x: {"y": x.reshape(3, 3, 100)})):  # fmt: skip
        wrong, right = made(OFF, of)
        (at,) = np.argwhere(wrong != right)
        row = right[tuple(at[:-1])] if right.shape[-1] >= 64 else right
        rms = np.sqrt((row.astype("float64") ** 2).mean())
        assert wrong[tuple(at)] - right[tuple(at)] == pytest.approx(0.02 * rms, rel=1e-4)
        assert abs(right[tuple(at)]) == pytest.approx(rms, rel=0.2)


# --------------------------------------------------------------------------------------------- skipped


def skipped(of, launch):
    found = verified(of, launch)
    assert found.passed, "what cannot be told apart is no fault"
    return {c.name: c.reason for c in found.controls if c.outcome == "skipped"}


ALIKE = "it gives what is expected, but for rounding"
NO_PRODUCT = "the reference multiplies no matrices by @"


def test_a_constant_output_tells_few_controls_apart():
    of = sized(128, 128, "bfloat16", reference=lambda x: {"y": 0 * x + 2})
    found = skipped(of, lambda b: b["y"].fill(2))
    assert found == {SWAPPED: ALIKE, DROPPED: NO_PRODUCT, NARROW: NO_PRODUCT, ROUNDED: ALIKE}


def test_an_output_of_zeros_tells_none():
    found = skipped(sized(128, 128, reference=lambda x: {"y": 0 * x}), lambda b: b["y"].fill(0))
    assert set(found) == set(CONTROLS) and found[ZEROS] == found[MISSING] == found[OFF] == ALIKE


def test_one_tile_has_no_other_to_change_places_with():
    assert skipped(gemm(64, 64, 64), multiplies()) == {SWAPPED: "there are no two whole tiles"}
    assert skipped(gemm(127, 127, 64), multiplies()) == {SWAPPED: "there are no two whole tiles"}
    assert skipped(gemm(64, 128, 64), multiplies()) == {}


def test_no_product_of_matrices_leaves_no_sum_to_change():
    assert skipped(sized(128, 128, "bfloat16"), add_one) == {DROPPED: NO_PRODUCT, NARROW: NO_PRODUCT}
    assert skipped(sized(128, 128, "float32"), add_one)[NARROW] == "no input is narrower than the accumulator"


def test_sums_of_sixteen_terms_have_none_to_drop_and_are_rounded_once():
    assert skipped(gemm(128, 128, 16), multiplies()) == {DROPPED: ALIKE, NARROW: ALIKE}
    assert skipped(gemm(128, 128, 17), multiplies()) == {}


def test_integers_are_neither_rounded_nor_summed_in_fewer_bits():
    of = gemm(
        128, 128, 64, "int8", inputs=lambda m, n, k, rng: {"a": rng.uniform((m, k), "int8", -9, 9),
        "b": rng.uniform((n, k), "int8", -9, 9)}, outputs=lambda m, n: {"c": ((m, n), "int32")},
        tolerance=Tolerance(0, 0), magnitude=None,
    )  # fmt: skip

    def launch(b):
        b["c"][...] = b["a"].astype("int32") @ b["b"].astype("int32").T

    found = skipped(of, launch)
    assert found.pop(ROUNDED) == "no input is a floating-point number"
    assert found.pop(NARROW) == "no input is narrower than the accumulator"
    assert set(found) <= {OFF}, "2 % may be less than a unit"


def test_what_the_outputs_rounding_swallows_is_no_fault_of_the_tolerance():
    """x + 100 in bf16: one bit of x is far below a unit of the last place."""
    of = sized(128, 128, "bfloat16", reference=lambda x: {"y": x + 100})
    found = skipped(of, lambda b: b["y"].__setitem__(..., b["x"].astype("float64") + 100))
    assert found[ROUNDED] == ALIKE


@pytest.mark.parametrize(("m", "n", "told"), [(7, 9, False), (8, 8, True), (1, 63, False), (1, 64, True)])
def test_few_elements_may_be_right_by_chance_and_tell_nothing_of_sums(m, n, told):
    found = verified(gemm(m, n, 256), multiplies()).controls
    few = {c.name for c in found if c.reason == "63 elements are too few to tell"}
    assert few == (set() if told else {DROPPED, NARROW, ROUNDED, OFF})
    assert {ZEROS, MISSING} <= by_outcome(found)["rejected"]


# ------------------------------------------------------------------------------- of what a reference is


def vectors(reference, **changes):
    return gemm(
        128, 128, 64, inputs=lambda m, k, dtype, rng: {"a": rng.normal((m, k), dtype), "v": rng.normal((k,), dtype)},
        outputs=lambda m, dtype: {"c": ((m,), dtype)}, reference=reference,
        magnitude=lambda a, v: {"c": abs(a) @ abs(v)}, **changes,
    )  # fmt: skip


@pytest.mark.parametrize(
    "reference", [lambda a, v: {"c": a @ v}, lambda a, v: {"c": v @ a.T}], ids=["matrix @ vector", "@ matrix"]
)
def test_a_matrix_times_a_vector_has_every_control_of_sums(reference):
    def launch(b):
        b["c"][...] = (b["a"].astype("float64") @ b["v"].astype("float64")).astype("float32")

    found = verified(vectors(reference), launch)
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)


def test_a_dot_product_is_one_number_and_too_few_to_tell():
    of = gemm(
        1, 1, 512, inputs=lambda k, dtype, rng: {"a": rng.normal((k,), dtype), "b": rng.normal((k,), dtype)},
        outputs=lambda dtype: {"c": ((), dtype)}, reference=lambda a, b: {"c": a @ b},
        magnitude=lambda a, b: {"c": abs(a) @ abs(b)},
    )  # fmt: skip
    found = verified(of, lambda b: b["c"].__setitem__(..., b["a"].astype("float64") @ b["b"].astype("float64")))
    assert found.passed and by_outcome(found.controls)["rejected"] == {ZEROS, MISSING}


def test_batches_of_matrices_have_every_control_of_sums():
    of = gemm(
        64, 64, 64, inputs=lambda m, n, k, dtype, rng: {"a": rng.normal((3, m, k), dtype), "b": rng.normal((3, k, n), dtype)},
        outputs=lambda m, n, dtype: {"c": ((3, m, n), dtype)}, reference=lambda a, b: {"c": a @ b},
        magnitude=lambda a, b: {"c": abs(a) @ abs(b)},
    )  # fmt: skip
    found = verified(of, lambda b: b["c"].__setitem__(..., b["a"].astype("float64") @ b["b"].astype("float64")))
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS) - {SWAPPED}


@pytest.mark.parametrize(
    "reference",
    [
        lambda a, b: {"c": relu(a) @ b.T},
        lambda a, b: {"c": where(a > 0, a, 0) @ b.T},
        lambda a, b: {"c": np.maximum(np.asarray(a), 0) @ b.T},
        lambda a, b: {"c": (b @ relu(a).T).T},
    ],
    ids=["relu", "where", "an ordinary array on the left", "transposed"],
)
def test_a_product_of_what_was_computed_first_counts_as_one(reference):
    of = gemm(128, 128, 64, reference=reference)

    def launch(b):
        a = np.maximum(b["a"].astype("float64"), 0)
        b["c"][...] = (a @ b["b"].astype("float64").T).astype("float32")

    found = verified(of, launch)
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)


def test_in_place_arguments_have_controls_too():
    def inputs(m, n, k, rng):
        return {"a": rng.normal((m, k), "bfloat16"), "b": rng.normal((n, k), "bfloat16"), "c": rng.normal((m, n), "float32")}

    of = gemm(
        128, 128, 64, out="float32", inputs=inputs, reference=lambda a, b, c: {"c": c + a @ b.T}, inplace=("c",),
        magnitude=lambda a, b, c: {"c": abs(c) + abs(a) @ abs(b).T},
    )  # fmt: skip

    def launch(b):
        b["c"] += (b["a"].astype("float64") @ b["b"].astype("float64").T).astype("float32")

    found = verified(of, launch, ONCE)
    assert found.passed and by_outcome(found.controls)["rejected"] == set(CONTROLS)
