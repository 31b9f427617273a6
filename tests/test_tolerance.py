"""How far an element may be off: what each bound grants, what the rms error adds, and that right kernels are never rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers_verify import FLOATS, case_of, check, gemm, multiplies, sized, verified
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tirx_bench.device.fake import FakeDevice, numpy_dtype
from tirx_bench.model import FILLS, ROUNDOFF, SMALLEST, RoundingBound, Tile, Tolerance, UsageError, VerifyPolicy, owner_of
from tirx_bench.ops import relu
from tirx_bench.verify import compare
from tirx_bench.verify.elements import NORM_ELEMENTS, NORM_SHARE, bound_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy says what torch does not

NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
DTYPES = st.sampled_from(NARROW + ("float32",))
SEEDS = st.integers(0, 1 << 20)
QUICK = settings(max_examples=30, deadline=None)


# ----------------------------------------------------------------------------------------- the values


@pytest.mark.parametrize("c", [4.1, 100, math.inf, math.nan, 0, -1])
def test_c_is_above_zero_and_at_most_four(c):
    with pytest.raises(UsageError, match="c is above 0 and at most 4"):
        RoundingBound(steps=1, c=c)
    assert RoundingBound(c=4).c == 4 and RoundingBound(c=0.5).c == 0.5


@pytest.mark.parametrize("wrong", [{"steps": -1}, {"unit": 0}, {"unit": -1.0}, {"unit": 0.2}, {"unit": math.nan}], ids=str)
def test_what_no_arithmetic_has_is_refused(wrong):
    with pytest.raises(UsageError, match="cannot be"):
        RoundingBound(**{"steps": 4, **wrong})


def test_the_accumulators_error_grows_with_the_root_of_its_steps():
    assert RoundingBound(steps=256).eps_acc == 16 * 2.0**-23
    assert RoundingBound(steps=256, unit=2.0**-24).eps_acc == 16 * 2.0**-24
    assert RoundingBound().eps_acc == 0


def test_a_bound_says_what_it_grants():
    assert str(RoundingBound(steps=256)) == "|y - r| <= 4 * 1.91e-06 sum|a||b| + eps_out |r|, every element"
    assert str(RoundingBound()) == "|y - r| <= eps_out |r|, every element"
    assert str(Tolerance(rtol=0.01, atol=0.001)) == "|y - r| <= 0.001 + 0.01 |r|, flat, every element"


def test_steps_need_the_kernels_magnitude():
    of = gemm(magnitude=None)
    with pytest.raises(UsageError, match="gemm: a RoundingBound over 4 steps needs the kernel's magnitude") as caught:
        of.tolerance_for(of.params(of.workloads[0]))
    assert "abs(a) @ abs(b).T" in caught.value.hint
    sized(6, 5).tolerance_for({}), gemm().tolerance_for({"k": 64})


def test_a_bound_may_depend_on_the_parameters():
    of = gemm(k=1000)
    assert of.tolerance_for(of.params(of.workloads[0])) == RoundingBound(steps=63)


# ------------------------------------------------------------------------------------------ the bound


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("steps", [0, 9])
def test_the_bound_is_as_it_says_in_every_dtype(dtype, steps):
    """eps_out is half the distance of 1 and the next number; the least number is granted too, as around zero no share is."""
    bound = RoundingBound(steps=steps, unit=2.0**-24, c=3)
    of = gemm(16, 16, 9, "float32", out=dtype, tolerance=bound)
    case = case_of(of)
    a, b, r = case.inputs["a"].astype("float64"), case.inputs["b"].astype("float64"), case.expected["c"].astype("float64")
    following = np.nextafter(numpy_dtype(dtype).type(1), numpy_dtype(dtype).type(2))
    eps_out = (float(following) - 1) / 2
    expected = 3 * 2.0**-24 * math.sqrt(steps) * (abs(a) @ abs(b).T) + eps_out * abs(r) + SMALLEST[dtype]
    found = bound_of(case, "c", abs(case.expected["c"]), dtype, bound)
    assert np.allclose(found, expected, rtol=1e-5, atol=0)


def test_a_flat_bound_is_the_same_in_every_dtype():
    case = case_of(gemm(8, 8, 8))
    for dtype in FLOATS:
        assert (bound_of(case, "c", np.array([0.0, 2.0]), dtype, Tolerance(rtol=0.25, atol=1)) == [1, 1.5]).all()


@pytest.mark.parametrize("dtype", NARROW)
def test_a_sum_halfway_between_two_numbers_may_be_either_and_no_other(dtype):
    """Of every two neighbours that the format has."""
    kind = numpy_dtype(dtype)
    every = np.arange(1 << 8 * kind.itemsize).astype(f"uint{8 * kind.itemsize}").view(kind).astype("float32")
    numbers = np.unique(every[np.isfinite(every)])
    below, low, high, above = (numbers[n : len(numbers) - 3 + n] for n in range(4))
    halfway = low / 2 + high / 2
    of = sized(len(low), 1, outputs=lambda m: {"y": ((m,), dtype)}, reference=lambda x: {"y": halfway.copy()})

    def wrong_of(values):
        return verified(of, lambda b: b["y"].__setitem__(..., values)).outputs[0].wrong_elements

    assert wrong_of(low) == wrong_of(high) == 0
    small = abs(halfway) <= SMALLEST[dtype] / ROUNDOFF[dtype]  # here the least number is more than rounding
    assert wrong_of(below) >= (~small).sum() - 2 and wrong_of(above) >= (~small).sum() - 2  # but where distances double


def test_integers_have_nothing_to_round():
    of = sized(6, 5, outputs=lambda m, k: {"y": ((m, k), "int32")}, reference=lambda x: {"y": (x > 0) * 7})
    assert check(lambda b: b["y"].__setitem__(..., (b["x"] > 0) * 7), of).passed
    assert not check(lambda b: b["y"].__setitem__(..., (b["x"] > 0) * 7 + 1), of).passed


# -------------------------------------------------------------------------------- the rms of the errors


def truncated(c, dtype):
    """Toward zero, as an epilogue does that stores the upper bits."""
    kind = numpy_dtype(dtype)
    found = c.astype(kind)
    return np.where(abs(found.astype("float32")) > abs(c), np.nextafter(found, kind.type(0)), found).astype(kind)


def away(c, dtype):
    """The other neighbour than the nearest."""
    kind = numpy_dtype(dtype)
    found = c.astype(kind)
    towards = np.where(found.astype("float32") < c, np.inf, -np.inf).astype(kind)
    return np.nextafter(found, towards)


@given(m=st.integers(33, 80), n=st.integers(33, 80), k=st.integers(16, 300), seed=SEEDS, dtype=st.sampled_from(NARROW))
@QUICK
def test_an_epilogue_that_truncates_fails(m, n, k, seed, dtype):
    assert not verified(gemm(m, n, k, dtype), multiplies(rounded=truncated), seed=seed).passed
    assert not verified(gemm(m, n, k, dtype), multiplies(rounded=away), seed=seed).passed


@given(
    m=st.integers(33, 80), n=st.integers(33, 80), k=st.integers(1, 300), seed=SEEDS, dtype=DTYPES,
    kind=st.sampled_from(["normal", "uniform"]), through_relu=st.booleans(),
)  # fmt: skip
@QUICK
def test_rounding_to_nearest_is_never_too_far_off_as_a_whole(m, n, k, seed, dtype, kind, through_relu):
    epilogue = relu if through_relu else lambda c: c
    of = gemm(m, n, k, dtype, epilogue=epilogue)
    found = verified(of, multiplies(epilogue), VerifyPolicy(seeds=1, fills=(kind,)), seed=seed)
    assert found.passed, found.outputs


def shares(share):
    """Every element off by that share of its bound."""

    def launch(b):
        case = launch.case
        bound = bound_of(case, "c", abs(case.expected["c"]), "float32", RoundingBound(steps=16))
        b["c"][...] = case.expected["c"] + np.float32(share) * bound

    return launch


def shifted(share, shape=(32, 32), kind="normal", tolerance=None):
    launch = shares(share)
    of = gemm(*shape, 256, "bfloat16", "float32", **({"tolerance": tolerance} if tolerance else {}))
    launch.case = case_of(of, kind=kind)
    return verified(of, launch, VerifyPolicy(seeds=1, fills=(kind,)))


def test_errors_that_are_each_within_the_bound_fail_when_all_are_large():
    assert shifted(0.6).passed
    found = shifted(0.9)
    assert not found.passed and found.outputs[0].wrong_elements == 0
    assert found.outputs[0].problem == "has an rms error of 0.90 of its bound, and rounding to nearest stays below 0.65"
    assert not shifted(1.1).passed and shifted(1.1).outputs[0].wrong_elements == 1024


def test_the_rms_is_of_many_random_numbers_and_of_the_arithmetics_bound():
    assert 31 * 32 < NORM_ELEMENTS <= 32 * 32 and NORM_SHARE < 0.9
    assert shifted(0.9, (31, 32)).passed, "few elements may all be far off by chance"
    assert not shifted(0.9, kind="uniform").passed
    assert shifted(0.9, kind="constant").passed, "equal inputs err equally"
    assert not shifted(0.9, tolerance=Tolerance(rtol=1, atol=1)).outputs[0].problem, "a flat tolerance is no model of errors"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_outputs_of_few_distinct_values_may_all_be_rounded_far(dtype):
    """One number just below the middle of its neighbours is rounded to nearest, and off by all that rounding can be."""
    middle = 1 + ROUNDOFF[dtype]
    of = sized(64, 64, dtype, reference=lambda x: {"y": 0 * x + np.float32(middle * (1 - 2.0**-20))})
    found = verified(of, lambda b: b["y"].fill(1))
    assert found.passed and found.outputs[0].bound_share > 0.99
    assert not verified(of, lambda b: b["y"].fill(1 + 4 * ROUNDOFF[dtype])).outputs[0].passed


@given(rows=st.integers(1, 4), seed=SEEDS, dtype=st.sampled_from(["bfloat16", "float16"]))
@QUICK
def test_a_mean_that_is_spread_over_its_row_is_not_rejected(rows, seed, dtype):
    of = sized(rows, 2048, dtype, reference=lambda x: {"y": 0 * x + x.mean(1).reshape(-1, 1)}, tolerance=RoundingBound())
    case, device = case_of(of, seed=seed), FakeDevice()
    case.outputs["y"][...] = case.expected["y"]
    assert compare(case, case.outputs, device).passed


# ---------------------------------------------------------------------------------------- any element


@given(
    m=st.integers(1, 40), n=st.integers(1, 40), seed=SEEDS, place=st.integers(0), dtype=DTYPES,
    far=st.floats(1.01, 1e3) | st.floats(-1e3, -1.01),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_element_that_is_off_by_more_than_its_bound_fails_wherever_it_is(m, n, seed, place, dtype, far):
    of, device = gemm(m, n, 32, dtype), FakeDevice()
    case = case_of(of, seed=seed)
    multiplies()(case.buffers)
    assert compare(case, case.outputs, device).passed
    at = np.unravel_index(place % (m * n), (m, n))
    r = float(case.expected["c"][at])
    bound = float(bound_of(case, "c", abs(case.expected["c"]), dtype, of.tolerance_for(case.params))[at])
    case.outputs["c"][at] = r + far * bound
    assume(abs(float(case.outputs["c"][at]) - r) > bound * (1 + 1e-5))
    (output,) = compare(case, case.outputs, device).outputs
    assert (output.passed, output.wrong_elements, output.worst_index) == (False, 1, at)


@given(m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 99), seed=SEEDS, dtype=DTYPES)
@QUICK
def test_any_output_within_half_its_bound_passes(m, n, k, seed, dtype):
    of = gemm(m, n, k, "float32", out=dtype, tolerance=lambda k: RoundingBound(steps=k))
    case, device = case_of(of, seed=seed), FakeDevice()
    r = case.expected["c"].astype("float64")
    bound = bound_of(case, "c", abs(case.expected["c"]), dtype, of.tolerance_for(case.params)).astype("float64")
    off = (r + np.random.default_rng(seed).uniform(-0.5, 0.5, r.shape) * bound).astype(numpy_dtype(dtype))
    near = abs(off.astype("float64") - r) <= bound / 2
    case.outputs["c"][...] = np.where(near, off, r.astype(numpy_dtype(dtype)))
    assert compare(case, case.outputs, device).passed


@given(
    m=st.integers(1, 70), n=st.integers(1, 70), k=st.integers(1, 150), seed=SEEDS, dtype=DTYPES, through_relu=st.booleans(),
    out=st.sampled_from([None, "float32", "bfloat16"]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_a_right_kernel_is_never_rejected_whatever_its_inputs_are(m, n, k, seed, dtype, through_relu, out):
    epilogue = relu if through_relu else lambda c: c
    found = verified(gemm(m, n, k, dtype, out, epilogue), multiplies(epilogue), VerifyPolicy(seeds=2, fills=FILLS), seed=seed)
    assert found.passed, (found.kind, found.outputs, found.accepted)
    assert len(found.tried) + len(found.skipped) == 1 + len(FILLS)


@given(m=st.integers(1, 70), k=st.integers(1, 70), seed=SEEDS, dtype=st.sampled_from(FLOATS))
@settings(max_examples=25, deadline=None)
def test_a_right_kernel_without_sums_is_never_rejected(m, k, seed, dtype):
    def launch(b):
        b["y"][...] = b["x"].astype("float64") + 1

    found = verified(sized(m, k, dtype), launch, VerifyPolicy(seeds=2, fills=FILLS), seed=seed)
    assert found.passed, (found.kind, found.outputs, found.accepted)


# -------------------------------------------------------------------------------------------- owners


CTA, WARP, LANE = Tile("CTA tile", (128, 256)), Tile("consumer warpgroup", (64, 256)), Tile("lane", (1, 8))


@pytest.mark.parametrize(
    ("index", "shape", "tiles", "owner"),
    [
        ((5,), (100,), (Tile("block", (32,)),), "block [0]"),
        ((99,), (100,), (Tile("block", (32,)), Tile("warp", (8,))), "block [3], warp [0]"),
        ((0, 0), (4096, 4096), (CTA, WARP), "CTA tile [0, 0], consumer warpgroup [0]"),
        ((450, 1300), (4096, 4096), (CTA, WARP), "CTA tile [3, 5], consumer warpgroup [1]"),
        ((450, 1300), (4096, 4096), (CTA, WARP, LANE), "CTA tile [3, 5], consumer warpgroup [1], lane [2, 2]"),
        ((450, 255), (4096, 256), (CTA, WARP), "CTA tile [3], consumer warpgroup [1]"),
        ((7, 9), (100, 100), (CTA, WARP), "CTA tile [0], consumer warpgroup [0]"),
        ((1, 200, 70), (2, 256, 128), (Tile("CTA tile", (1, 128, 128)), Tile("warp", (1, 128, 32))),
         "CTA tile [1, 1], warp [2]"),
        ((1, 2, 3), (2, 3, 4), (), ""),
        ((1, 2), (2, 3), (Tile("whole", (2, 3)),), "whole [0]"),
    ],
    ids=str,
)  # fmt: skip
def test_an_element_has_an_owner_in_every_level(index, shape, tiles, owner):
    assert owner_of(index, shape, tiles) == owner


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_two_elements_have_one_owner_if_and_only_if_they_are_in_one_tile(data):
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 60)) for _ in range(rank))
    inner = tuple(data.draw(st.integers(1, 8)) for _ in range(rank))
    outer = tuple(extent * data.draw(st.integers(1, 4)) for extent in inner)
    tiles = (Tile("tile", outer), Tile("warp", inner))
    first, second = (tuple(data.draw(st.integers(0, extent - 1)) for extent in shape) for _ in range(2))
    same = all(a // extent == b // extent for a, b, extent in zip(first, second, inner, strict=True))
    assert (owner_of(first, shape, tiles) == owner_of(second, shape, tiles)) is same
