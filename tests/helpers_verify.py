"""Kernels for verification on a fake device, right launches of them, and what a launch does that it must not do."""

from __future__ import annotations

from helpers_records import kernel

from tirx_bench import gemm_problem
from tirx_bench.device import BAND
from tirx_bench.device.fake import FakeDevice, numpy_dtype
from tirx_bench.model import VerifyPolicy, Workload
from tirx_bench.verify import prepare, verify

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
ONCE = VerifyPolicy(seeds=1)


def sized(m, k, dtype="float32", **changes):
    """y = x + 1 over (m, k), with the bound that fits every dtype: one rounding."""
    return kernel(workloads=(Workload("small", {"m": m, "k": k, "dtype": dtype}),), **changes)


def case_of(of, device=None, seed=3, kind="normal"):
    return prepare(of, of.params(of.workloads[0]), device or FakeDevice(), seed, kind)


def verified(of, launch, policy=ONCE, device=None, seed=3):
    device = device or FakeDevice()
    return verify(case_of(of, device, seed, policy.fills[0]), launch, device, policy)


def check(launch, of=None):
    """The verification of two launches, and its only output."""
    found = verified(of or kernel(), launch)
    (output,) = found.outputs
    assert found.passed == output.passed
    return output


def add_one(buffers):
    """In FP32, rounded once."""
    buffers["y"][...] = buffers["x"].astype("float64") + 1


def counts_from_zero(buffers):
    """Right where the workspace was zero before; a counter that every launch sets back, and nobody before the first."""
    buffers["tickets"] += 1
    if (buffers["tickets"] == 1).all():
        add_one(buffers)
    buffers["tickets"].fill(0)


TICKETS = {"workspace": lambda m: {"tickets": ((m,), "int32")}}


def shifts(by, at=...):
    """A launch of y = x + 1 whose elements `at` are off."""

    def launch(buffers):
        add_one(buffers)
        buffers["y"][at] += by

    return launch


# --------------------------------------------------------------------------------------------- matrices


def gemm(m=64, n=64, k=64, dtype="bfloat16", out=None, epilogue=lambda c: c, **changes):
    """c = epilogue(a @ b.T) with the bound of the GEMM kernels, for a fake device."""
    values = {
        "name": "gemm", "workloads": (gemm_problem.gemm_workload("small", m, n, k, dtype),), "build": lambda m: None,
        "inputs": gemm_problem.inputs, "outputs": lambda m, n: {"c": ((m, n), out or dtype)},
        "reference": lambda a, b: {"c": epilogue(a @ b.T)}, "tolerance": gemm_problem.tolerance,
        "magnitude": gemm_problem.magnitude,
    }  # fmt: skip
    return kernel(**{**values, **changes})


def multiplies(epilogue=lambda c: c, rounded=lambda c, dtype: c.astype(numpy_dtype(dtype))):
    """A right launch of `gemm`: sums in FP64, so that it is not the reference that is compared with itself, and one rounding."""

    def launch(buffers):
        a, b = (buffers[name].astype("float64") for name in ("a", "b"))
        buffers["c"][...] = rounded(epilogue((a @ b.T).astype("float32")), str(buffers["c"].dtype))

    return launch


# ----------------------------------------------------------------------------------------------- memory


def around(array):
    """The memory of an array and of what lies in front of it and behind it, and how many elements are in front."""
    return array.base.view(array.dtype), BAND // array.dtype.itemsize
