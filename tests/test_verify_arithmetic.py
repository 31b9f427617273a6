"""What stands in the place of ``@`` in a reference, and numbers of fewer bits, against models in other arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from helpers_verify import FLOATS, ONCE, case_of, gemm, multiplies, sized, verified
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.device.fake import FakeDevice, numpy_dtype
from tirx_bench.model import BITS, RoundingBound, Tolerance
from tirx_bench.verify import refill
from tirx_bench.verify.arithmetic import LONG_SUM, MMA_TERMS, accumulated_in, exact, one_bit_less, without_last_terms

DEVICE = FakeDevice()


class Counting(FakeDevice):
    """Counts the products in FP64 by their number of terms."""

    def __init__(self):
        super().__init__()
        self.terms = []

    def matmul64(self, left, right):
        self.terms.append(left.shape[-1])
        return super().matmul64(left, right)


# ----------------------------------------------------------------------------------------- long sums


@pytest.mark.parametrize(("k", "long"), [(16, False), (LONG_SUM, False), (LONG_SUM + 1, True), (4 * LONG_SUM, True)])
def test_long_sums_are_computed_in_fp64_and_others_are_not(k, long):
    device = Counting()
    case = case_of(gemm(8, 8, k), device)
    assert device.terms == ([k] if long else [])
    a, b = (case.inputs[name].astype("float64") for name in ("a", "b"))
    right = (a @ b.T).astype("float32")
    if long:
        assert (case.expected["c"] == right).all() and case.expected["c"].dtype == "float32"
    else:
        assert abs(case.expected["c"] - right).max() <= 2**-20 * (abs(a) @ abs(b).T).max()


def test_other_values_and_controls_are_computed_in_fp64_too():
    device = Counting()
    of = gemm(16, 16, LONG_SUM + 20)
    case = case_of(of, device)
    refill(case, device, 9)
    assert device.terms == [LONG_SUM + 20] * 2
    device.terms.clear()
    assert verified(of, multiplies(), ONCE, device).passed
    assert device.terms == [LONG_SUM + 20, LONG_SUM + 4, LONG_SUM + 20], "what is expected, terms dropped, inputs rounded"


def test_a_long_sum_of_fp32_is_more_than_fp32_could_say():
    """Of one sign and of many sizes, which a sum in FP32 rounds many times."""
    of = gemm(4, 4, 1 << 14, "float32", tolerance=lambda k: RoundingBound(steps=k, unit=2.0**-24),
              inputs=lambda m, n, k, rng: {"a": rng.uniform((m, k), "float32"), "b": rng.uniform((n, k), "float32")})  # fmt: skip
    case = case_of(of)
    exactly = [math.fsum(x * y for x, y in zip(row.tolist(), column.tolist(), strict=True))
               for row in case.inputs["a"] for column in case.inputs["b"]]  # fmt: skip
    assert (case.expected["c"].reshape(-1) == np.array(exactly, "float32")).all()


def test_fp64_stays_fp64():
    device = Counting()
    of = gemm(8, 8, LONG_SUM + 1, "float64", tolerance=lambda k: RoundingBound(steps=k, unit=2.0**-53))
    case = case_of(of, device)
    assert device.terms == [] and case.expected["c"].dtype == "float64"
    assert (case.expected["c"] == case.inputs["a"] @ case.inputs["b"].T).all()
    assert (case.inputs["a"] != case.inputs["a"].astype("float32")).any(), "nor are the inputs those of FP32"
    assert verified(of, lambda b: np.matmul(b["a"], b["b"].T, out=b["c"])).passed
    assert not verified(of, lambda b: b["c"].__setitem__(..., b["a"].astype("float32") @ b["b"].astype("float32").T)).passed


def test_a_long_sum_without_a_product_is_the_references_own():
    device = Counting()
    of = sized(4, 5000, outputs=lambda m: {"y": ((m,), "float32")}, reference=lambda x: {"y": x.sum(1)},
               tolerance=Tolerance(rtol=0, atol=1e-2))  # fmt: skip
    assert case_of(of, device).expected["y"].shape == (4,) and device.terms == []


# ------------------------------------------------------------------------------------- fewer terms


def operands(m, k, n, seed, batch=()):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((*batch, m, k), "float32"), rng.standard_normal((*batch, k, n), "float32")


@pytest.mark.parametrize("k", [1, 15, 16, 17, 40, LONG_SUM + 40])
def test_the_last_terms_are_left_out_if_there_are_others(k):
    left, right = operands(3, k, 4, k)
    kept = k - MMA_TERMS if k > MMA_TERMS else k
    expected = left[:, :kept].astype("float64") @ right[:kept].astype("float64")
    assert np.allclose(without_last_terms(DEVICE)(left, right), expected, rtol=1e-5, atol=1e-4)


def by_hand(left, right, dtype):
    """One sum after the other, and in each one instruction's terms after the other."""
    kind = numpy_dtype(dtype)
    total = np.zeros((left.shape[0], right.shape[1]), "float32")
    for i in range(left.shape[0]):
        for j in range(right.shape[1]):
            held = np.float32(0)
            for start in range(0, left.shape[1], 16):
                part = left[i : i + 1, start : start + 16] @ right[start : start + 16, j : j + 1]
                held = np.float32((held + part[0, 0]).astype(kind))
            total[i, j] = held
    return total


@given(k=st.integers(1, 70), seed=st.integers(0, 999), dtype=st.sampled_from(["bfloat16", "float16", "float8_e5m2"]))
@settings(max_examples=20, deadline=None)
def test_a_narrow_accumulator_rounds_after_every_instructions_terms(k, seed, dtype):
    left, right = (np.round(array * 4) / 4 for array in operands(3, k, 4, seed))  # so that no order of sixteen terms matters
    assert (accumulated_in(dtype, DEVICE)(left, right) == by_hand(left, right, dtype)).all()


def test_a_narrow_accumulator_loses_what_a_wide_one_keeps():
    left, right = np.ones((1, 4096), "float32"), np.ones((4096, 1), "float32")
    assert exact(DEVICE)(left, right) == 4096
    assert accumulated_in("bfloat16", DEVICE)(left, right) == 4096, "each step adds 16, an 8-bit number of units of 16"
    left[0, ::16] += 1
    assert exact(DEVICE)(left, right) == 4096 + 256 and accumulated_in("bfloat16", DEVICE)(left, right) < 4096 + 256


@pytest.mark.parametrize("product", [exact, without_last_terms, lambda device: accumulated_in("bfloat16", device)])
@pytest.mark.parametrize("k", [24, LONG_SUM + 24])
def test_every_product_takes_vectors_and_batches(product, k):
    left, right = operands(3, k, 4, 1)
    whole = product(DEVICE)(left, right)
    close = {"rtol": 1e-2, "atol": 0.5}  # where another order of sixteen terms is rounded otherwise
    assert np.allclose(product(DEVICE)(left, right[:, 1]), whole[:, 1], **close)
    assert np.allclose(product(DEVICE)(left[2], right), whole[2], **close)
    assert np.allclose(product(DEVICE)(left[2], right[:, 1]), whole[2, 1], **close)
    batch = product(DEVICE)(np.stack([left, 2 * left]), np.stack([right, right]))
    assert np.allclose(batch, np.stack([whole, 2 * whole]), **close)


# --------------------------------------------------------------------------------------- fewer bits


def nearest(value: float, bits: int) -> set[Fraction]:
    """The numbers of that many significant bits nearest to a value, two where it is halfway, in whole numbers."""
    numerator, denominator = value.as_integer_ratio()
    sign, n = (-1 if numerator < 0 else 1), abs(numerator)
    shift = n.bit_length() - bits
    if shift <= 0:
        return {Fraction(value)}
    low, rest = n >> shift, n & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    chosen = {low} if rest < half else {low + 1} if rest > half else {low, low + 1}
    return {Fraction(sign * (c << shift), denominator) for c in chosen}


NORMAL32 = st.floats(2.0**-60, 2.0**60, width=32) | st.floats(-(2.0**60), -(2.0**-60), width=32)
NORMAL64 = st.floats(2.0**-60, 2.0**60) | st.floats(-(2.0**60), -(2.0**-60))
KEPT = {"float32": 11, "float64": 24, "float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}


@given(value=NORMAL32, dtype=st.sampled_from(["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]))
def test_one_bit_less_is_the_nearest_number_of_so_many_bits(value, dtype):
    assert Fraction(float(one_bit_less(np.array([value], "float32"), dtype)[0])) in nearest(value, KEPT[dtype])


@given(NORMAL64)
def test_one_bit_less_of_fp64_has_the_bits_of_fp32(value):
    (found,) = one_bit_less(np.array([value], "float64"), "float64")
    assert Fraction(float(found)) in nearest(value, KEPT["float64"]) and found.dtype == "float64"


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_bit_less_changes_half_of_a_formats_numbers_and_keeps_zero(dtype):
    device = FakeDevice()
    held = device.widen(device.rng(0).normal((5000,), dtype))
    found = one_bit_less(held, dtype)
    assert found.dtype == held.dtype and one_bit_less(0 * held[:1], dtype) == 0
    changed = (found != held).mean()
    few = {"float32": 0.99, "float64": 0.99}  # thirteen bits less, and twenty-nine
    assert changed > few[dtype] if dtype in few else 0.4 < changed < 0.6
    assert KEPT[dtype] == {"float32": 11, "float64": BITS["float32"]}.get(dtype, BITS[dtype] - 1)


def test_tf32_is_what_the_tensor_core_reads_of_fp32():
    """Ten bits of mantissa: one beyond keeps, and one less than that does not."""
    values = np.array([1 + 2**-10, 1 + 2**-12, 1 + 2**-11 + 2**-13], "float32")
    assert list(one_bit_less(values, "float32")) == [1 + 2**-10, 1, 1 + 2**-10]


# ---------------------------------------------------------------------------------- a watched array


def test_a_watched_product_is_an_ordinary_array_again():
    seen = []

    def product(left, right):
        seen.append((type(left), type(right)))
        return left @ right

    x = np.ones((3, 4), "float32")
    w = DEVICE.watched({"x": x}, product)["x"]
    found = DEVICE.plain((w + 1) @ w.T)
    assert type(found) is np.ndarray and (found == 8).all() and seen == [(np.ndarray, np.ndarray)]
    assert DEVICE.plain(x @ w.T).shape == (3, 3) and len(seen) == 2, "an ordinary array on the left"
    assert DEVICE.plain(w[0] @ w[1]) == 4 and len(seen) == 3
    assert type(DEVICE.plain(np.where(w > 0, w, 0) @ w.T)) is np.ndarray and len(seen) == 4


def test_rounding_is_to_nearest_and_widened_again():
    wide = np.array([1 + 2**-9, 1 + 3 * 2**-8, 3e38, math.nan], "float32")
    found = DEVICE.rounded(wide, "bfloat16")
    assert found.dtype == "float32" and list(found[:2]) == [1, 1 + 2**-6] and np.isnan(found[3])
    assert (found[:3].astype(ml_dtypes.bfloat16).astype("float32") == found[:3]).all()
