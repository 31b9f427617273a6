"""The kinds of inputs: what each holds in every dtype, which fault each makes visible, and where NaN and infinity may spread."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers_records import kernel
from helpers_verify import FLOATS, add_one, case_of, gemm, multiplies, sized, verified

from tirx_bench.device.fake import FakeDevice, numpy_dtype
from tirx_bench.model import BITS, FILLS, ROUNDOFF, SMALLEST, NothingRanError, Tolerance, VerifyPolicy
from tirx_bench.ops import relu
from tirx_bench.verify.elements import LARGEST
from tirx_bench.verify.fills import CHANGES, EXPONENTS, Filled

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not

SHAPE = (64, 96)
EVERY = VerifyPolicy(seeds=1, fills=FILLS)


def filled(kind, dtype="float32", shape=SHAPE, number=0, seed=1):
    """The array that a kernel draws as its number'th, in FP64, and what is said of it."""
    rng = Filled(FakeDevice(), seed, kind)
    for _ in range(number + 1):
        array = rng.normal(shape, dtype)
    assert array.shape == tuple(shape) and str(array.dtype) == dtype
    return array.astype("float64"), rng.drawn[-1]


# ----------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_assumed_of_a_format_is_so(dtype):
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    largest, smallest = EXPONENTS[dtype]
    assert float(info.smallest_normal) == 2.0**smallest and 1 <= float(info.max) / 2.0**largest < 2
    assert BITS[dtype] == info.nmant + 1 and ROUNDOFF[dtype] == 2.0 ** -BITS[dtype]
    assert SMALLEST[dtype] in (float(info.smallest_subnormal), 0.0)
    assert LARGEST.get(dtype, float(info.max)) == float(info.max)


# ---------------------------------------------------------------------------------------------- each kind


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", FILLS[:-1])
def test_every_kind_is_finite_in_every_dtype(kind, dtype, number):
    assert np.isfinite(filled(kind, dtype, number=number)[0]).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kind", "sign"), [("large", 1), ("tiny", -1)])
def test_large_and_tiny_are_a_quarter_of_the_formats_exponents_away(kind, sign, dtype):
    array, said = filled(kind, dtype, number=1)
    exponent = EXPONENTS[dtype][0] // 4 if kind == "large" else -(-EXPONENTS[dtype][1] // 4)
    assert said == f"normal(0, 1) * 2^{exponent}" and sign * exponent >= 1
    assert np.sqrt((array / 2.0**exponent) ** 2).mean() == pytest.approx(np.sqrt(2 / np.pi), rel=0.1)
    normal = filled("normal", dtype, number=1)[0]
    assert abs(array - normal * 2.0**exponent).max() <= SMALLEST[dtype], "the same numbers, scaled"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["large", "tiny"])
def test_products_of_two_and_their_sums_stay_in_the_range_of_fp32_or_their_own(kind, dtype):
    wide = "float64" if dtype == "float64" else "float32"
    a, b = (filled(kind, dtype, number=n)[0].astype(wide) for n in range(2))
    sums = a @ b.T
    assert np.isfinite(sums).all() and np.isfinite(abs(a) @ abs(b).T).all()
    assert (abs(sums) >= 2.0 ** EXPONENTS[wide][1]).all(), "no sum is denormal"


@pytest.mark.parametrize("dtype", FLOATS)
def test_denormal_inputs_are_denormal_and_not_all_zero(dtype):
    array, said = filled("denormal", dtype)
    smallest = 2.0 ** EXPONENTS[dtype][1]
    assert (abs(array) < smallest).mean() > 0.99 and (array != 0).mean() > 0.3
    assert said == f"normal(0, 1) * 2^{EXPONENTS[dtype][1] - 2}, mostly denormal"
    second, said = filled("denormal", dtype, number=1)
    assert abs(second).max() > 1 and said == "normal(0, 1)", "products of two would vanish"


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_inputs_are_between_minus_one_and_one(dtype):
    array, said = filled("uniform", dtype)
    assert abs(array).max() <= 1 and abs(array.mean()) < 0.05 and array.std() == pytest.approx(1 / np.sqrt(3), rel=0.05)
    assert said == "uniform(-1, 1)"


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_are_another_in_each_array(dtype):
    found = [filled("constant", dtype, number=n) for n in range(4)]
    assert [(set(array.flat), said) for array, said in found] == [
        ({1.0}, "constant 1"), ({2.0}, "constant 2"), ({0.5}, "constant 0.5"), ({1.0}, "constant 1")
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(64, 96), (96, 64), (3, 50, 20), (5, 1), (1, 7)], ids=str)
def test_one_hot_rows_have_a_single_one_each_in_another_column_than_their_neighbours(shape, dtype):
    array, said = filled("one-hot", dtype, shape)
    rows = array.reshape(-1, shape[-1])
    assert said == "one-hot rows" and set(array.flat) <= {0.0, 1.0} and (rows.sum(1) == 1).all()
    assert (rows.argmax(1) == (np.arange(len(rows)) + 3) % shape[-1]).all()
    assert len(set(filled("one-hot", dtype, shape, number=1)[0].flat)) > 2 or np.prod(shape) < 9, "the others are random"


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype != "float8_e4m3fn"])
@pytest.mark.parametrize("size", [4, 5, 7, 64])
def test_one_nan_and_one_infinity_of_each_sign_lie_apart(dtype, size):
    array, said = filled("non-finite", dtype, (size,))
    assert np.isnan(array).sum() == 1 and (array == np.inf).sum() == 1 and (array == -np.inf).sum() == 1
    assert said == "normal(0, 1) with NaN, inf and -inf"
    assert np.isfinite(filled("non-finite", dtype, (size,), number=1)[0]).all()


def test_a_format_without_infinity_has_nan_in_its_place():
    assert np.isnan(filled("non-finite", "float8_e4m3fn")[0]).sum() == 3


def test_what_changes_random_numbers_leaves_the_generator_as_it_was():
    """So that an array that a kind does not change is that of the random normal case."""
    for kind in CHANGES:
        rng, plain = Filled(FakeDevice(), 7, kind), FakeDevice().rng(7)
        rng.normal(SHAPE, "bfloat16"), plain.normal(SHAPE, "bfloat16")
        assert (rng.uniform((5,), "float32") == plain.uniform((5,), "float32")).all()


# ------------------------------------------------------------------------------------- what cannot be


def no_normal(**changes):
    return sized(8, 8, inputs=lambda m, k, rng: {"x": rng.uniform((m, k), "float32", 1, 2)}, **changes)


def said(of, kind):
    return f"{of.name} draws nothing from rng.normal that {kind} inputs could be"


def test_a_kernel_that_draws_nothing_normal_is_skipped_with_the_reason():
    of = no_normal()
    found = verified(of, add_one, EVERY)
    assert found.passed and [a.fill for a in found.tried] == ["uniform(1, 2)"]
    assert found.skipped == tuple(said(of, kind) for kind in FILLS[1:])
    with pytest.raises(NothingRanError, match="that constant inputs could be"):
        case_of(of, kind="constant")


def test_inputs_that_the_kernel_makes_itself_are_skipped_too():
    of = sized(8, 8, inputs=lambda m, k: {"x": np.ones((m, k), "float32")})
    assert len(verified(of, add_one, EVERY).skipped) == len(FILLS) - 1


@pytest.mark.parametrize(("shape", "kinds"), [((64,), ["one-hot"]), ((3,), ["one-hot", "non-finite"]), ((8, 8), [])], ids=str)
def test_a_kind_that_needs_a_matrix_or_more_elements_is_skipped_without_them(shape, kinds):
    of = sized(8, 8, inputs=lambda rng: {"x": rng.normal(shape, "float32")}, outputs=lambda: {"y": (shape, "float32")})
    found = verified(of, add_one, EVERY)
    assert found.passed and found.skipped == tuple(said(of, kind) for kind in kinds)
    assert len(found.tried) == len(FILLS) - len(kinds)


def test_random_integers_are_of_no_other_kind_and_stay_as_they_are():
    def inputs(m, k, rng):
        return {"x": rng.normal((m, k), "float32"), "i": rng.normal((m,), "int32")}

    of = sized(8, 8, inputs=inputs)
    assert verified(of, add_one, EVERY).passed
    first, other = (case_of(of, kind=kind).inputs["i"] for kind in ("normal", "constant"))
    assert (first == other).all() and str(other.dtype) == "int32"
    alone = sized(
        8, 8, inputs=lambda m, k, rng: {"x": rng.normal((m, k), "int32")}, outputs=lambda m, k: {"y": ((m, k), "int32")}
    )
    assert verified(alone, add_one, EVERY).skipped == tuple(said(alone, kind) for kind in FILLS[1:] if kind != "uniform")


def test_a_kernel_of_which_some_inputs_are_random_is_tried_with_those():
    def inputs(m, k, rng):
        return {"x": rng.normal((m, k), "float32"), "scale": np.full((k,), 2, "float32")}

    of = sized(8, 8, inputs=inputs, reference=lambda x, scale: {"y": x * scale})
    found = verified(of, lambda b: b["y"].__setitem__(..., b["x"] * 2), EVERY)
    assert found.passed and not found.skipped and found.tried[3].fill.startswith("constant 1; x mean 1 sd 0, scale mean 2")


def test_the_tried_kinds_are_said_in_their_order_and_what_failed_by_its_name():
    found = verified(gemm(64, 64, 32), multiplies(), EVERY)
    assert found.passed and [a.fill for a in found.tried] == [
        "normal(0, 1)", "uniform(-1, 1)", "one-hot rows, normal(0, 1)", "constant 1, constant 2", "normal(0, 1) * 2^31",
        "normal(0, 1) * 2^-31", "normal(0, 1) * 2^-128, mostly denormal, normal(0, 1)",
        "normal(0, 1) with NaN, inf and -inf, normal(0, 1)",
    ]  # fmt: skip

    def flushes_denormals(b):
        a = np.where(abs(b["a"].astype("float64")) < 2.0**-126, 0, b["a"].astype("float64"))
        b["c"][...] = (a @ b["b"].astype("float64").T).astype("float32")

    found = verified(gemm(64, 64, 32), flushes_denormals, EVERY)
    assert not found.passed and (found.kind, found.seed) == ("denormal", 3)
    assert len(found.tried) == 6 and found.controls and "mostly denormal" in found.fill


# ----------------------------------------------------------------------------------- what each makes visible


def failing(of, launch):
    """The kind of inputs at which a launch fails first."""
    found = verified(of, launch, EVERY)
    return None if found.passed else found.kind


def only(kind, of, launch):
    """Whether a launch passes on that kind of inputs alone."""
    return verified(of, launch, VerifyPolicy(seeds=1, fills=(kind,))).passed


def permutes_rows(b):
    multiplies()(b)
    b["c"][[8, 9]] = b["c"][[9, 8]]


def test_one_hot_rows_show_a_permutation_that_constants_hide():
    of = gemm(64, 64, 64)
    assert only("constant", of, permutes_rows) and not only("one-hot", of, permutes_rows)
    case = case_of(of, kind="one-hot")
    b = case.inputs["b"].astype("float32")
    assert (case.expected["c"] == b.T[(np.arange(64) + 3) % 64]).all(), "the product is B with its columns in order"


def test_one_hot_rows_show_terms_that_change_places():
    """Where the terms of a sum are alike in number, a swap of two shows in the two rows that read them."""

    def swaps_terms(b):
        a, terms = b["a"].astype("float64"), b["b"].astype("float64")
        terms[:, [8, 9]] = terms[:, [9, 8]]
        b["c"][...] = (a @ terms.T).astype("float32")

    found = verified(gemm(64, 64, 64), swaps_terms, VerifyPolicy(seeds=1, fills=("one-hot",)))
    assert not found.passed and found.outputs[0].worst_index[0] in (5, 6)
    assert only("constant", gemm(64, 64, 64), swaps_terms)


def test_constants_show_how_many_terms_a_sum_had():
    def drops_one(b):
        b["c"][...] = b["a"].astype("float64")[:, :-1] @ b["b"].astype("float64")[:, :-1].T

    found = verified(gemm(64, 64, 64), drops_one, VerifyPolicy(seeds=1, fills=("constant",)))
    assert found.outputs[0].wrong_elements == 64 * 64 and found.outputs[0].worst_actual == 126


def test_large_inputs_show_a_sum_in_half_precision():
    def overflows(b):
        b["c"][...] = (b["a"].astype("float64") @ b["b"].astype("float64").T).astype("float16").astype("float32")

    of = gemm(64, 64, 64, out="bfloat16", tolerance=lambda k: Tolerance(rtol=2**-7, atol=2**-7))
    assert failing(of, overflows) == "large"
    assert not only("large", of, overflows) and only("uniform", of, overflows)


def test_an_eight_bit_output_out_of_range_may_be_saturated_or_nan():
    def saturates(c, dtype):
        return np.clip(c, -LARGEST[dtype], LARGEST[dtype]).astype(numpy_dtype(dtype))

    for dtype in LARGEST:
        of = gemm(64, 64, 1000, "bfloat16", out=dtype)
        for launch in (multiplies(rounded=saturates), multiplies()):
            assert only("normal", of, launch) and only("large", of, launch) and only("constant", of, launch)

        def wrong_sign(b):
            multiplies(rounded=saturates)(b)
            b["c"][...] = abs(b["c"])

        assert not only("large", of, wrong_sign)
        assert not only("large", of, lambda b: b["c"].fill(0))


# -------------------------------------------------------------------------------------- NaN and infinity


NOT_FINITE = VerifyPolicy(seeds=1, fills=("non-finite",))


def after(change, epilogue=lambda c: c):
    """A right launch whose sums are changed before they are rounded."""
    return multiplies(lambda c: change(epilogue(c)))


def not_finite(launch, epilogue=lambda c: c, dtype="bfloat16"):
    return verified(gemm(64, 64, 32, dtype, epilogue=epilogue), launch, NOT_FINITE)


@pytest.mark.parametrize("dtype", FLOATS[2:])
@pytest.mark.parametrize("epilogue", [lambda c: c, relu], ids=["plain", "relu"])
def test_nan_and_infinity_spread_exactly_as_the_reference_says(dtype, epilogue):
    found = not_finite(multiplies(epilogue), epilogue, dtype)
    assert found.passed and found.outputs[0].wrong_elements == 0
    case = case_of(gemm(64, 64, 32, dtype, epilogue=epilogue), kind="non-finite")
    rows = np.flatnonzero(~np.isfinite(case.expected["c"]).all(1))
    assert 1 <= len(rows) <= 3, "rows of the output, and no others"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: np.where(np.isnan(c), 0, c),
        lambda c: np.where(np.isinf(c), np.nan, c),
        lambda c: np.where(np.isinf(c), np.copysign(3e38, c), c),
        lambda c: np.where(np.isinf(c), -c, c),
        lambda c: np.where(np.isnan(c), np.inf, c),
    ],
    ids=["NaN lost", "infinity to NaN", "infinity to the largest number", "the other infinity", "NaN to infinity"],
)
def test_what_is_not_finite_must_be_that_very_number(change):
    found = not_finite(after(change))
    assert not found.passed and found.outputs[0].wrong_elements > 0 and found.outputs[0].bound_share is None


def spreads(at):
    def change(c):
        c = c.copy()
        c[at] = np.nan
        return c

    return change


@pytest.mark.parametrize("at", [(0, 0), (63, 63), (17, 5)], ids=str)
def test_one_nan_more_fails(at):
    found = not_finite(after(spreads(at)))
    assert (found.outputs[0].wrong_elements, found.outputs[0].worst_index) == (1, at)


def test_nan_that_spreads_over_its_tile_fails():
    def over_the_tile(c):
        return np.where(np.isnan(c).reshape(4, 16, 64).any((1, 2)).repeat(16)[:, None], np.nan, c)

    found = not_finite(after(over_the_tile))
    assert not found.passed and found.outputs[0].worst_actual is None and found.outputs[0].worst_expected is not None


def test_a_relu_that_loses_nan_fails():
    """As max(x, 0) of C and of PTX without .NaN does."""
    found = not_finite(multiplies(lambda c: np.fmax(c, 0)), relu)
    assert not found.passed and found.outputs[0].worst_expected is None and found.outputs[0].worst_actual == 0


def test_the_rest_of_a_row_with_an_infinity_that_a_relu_took_away_must_be_exact():
    """The sum of |a||b| is infinite there, so that no bound follows from it."""

    def epilogue(c):
        return np.where(c == 0, 0, relu(c))

    def wrong(c):
        return np.where(c == -np.inf, 5, relu(c))

    case = case_of(gemm(64, 64, 32, epilogue=relu), kind="non-finite")
    assert ((case.expected["c"] == 0) & np.isinf(case.magnitude["c"])).any()
    assert not_finite(multiplies(epilogue), relu).passed
    found = not_finite(multiplies(wrong), relu)
    assert not found.passed and found.outputs[0].worst_actual == 5 and found.outputs[0].worst_expected == 0


def test_infinity_is_an_answer_where_a_finite_sum_leaves_the_format():
    of = kernel(
        outputs=lambda m, k: {"y": ((m, k), "float16")}, reference=lambda x: {"y": x * 0 + 1e5},
        tolerance=Tolerance(rtol=1e-3, atol=0),
    )  # fmt: skip
    assert verified(of, lambda b: b["y"].fill(np.inf)).outputs[0].passed
    assert not verified(of, lambda b: b["y"].fill(65504)).outputs[0].passed
