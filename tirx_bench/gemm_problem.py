"""What the GEMM kernels have in common: C = A @ B.T with A (m, k), B (n, k), C (m, n), row-major, in bf16 or fp16."""

from __future__ import annotations

from typing import Any

from tirx_bench.model import Shape, Tolerance, Work, Workload


def gemm_workload(label: str, m: int, n: int, k: int, dtype: str = "bfloat16") -> Workload:
    return Workload(label, {"m": m, "n": n, "k": k, "dtype": dtype})


WORKLOADS = (
    gemm_workload("4096", 4096, 4096, 4096),
    gemm_workload("512", 512, 512, 512),
    gemm_workload("1024", 1024, 1024, 1024),
    gemm_workload("2048", 2048, 2048, 2048),
    gemm_workload("8192", 8192, 8192, 8192),
    gemm_workload("4096-fp16", 4096, 4096, 4096, "float16"),
    gemm_workload("4096x14336x4096", 4096, 14336, 4096),
    gemm_workload("8192x1024x8192", 8192, 1024, 8192),
    gemm_workload("1000x1032x520", 1000, 1032, 520),
)


def inputs(m: int, n: int, k: int, dtype: str, rng: Any) -> dict[str, Any]:
    return {"a": rng.normal((m, k), dtype), "b": rng.normal((n, k), dtype)}


def outputs(m: int, n: int, dtype: str) -> dict[str, tuple[Shape, str]]:
    return {"c": ((m, n), dtype)}


def work(m: int, n: int, k: int, dtype: str) -> Work:
    """2 m n k operations; every matrix crosses memory once."""
    return Work(flops=2 * m * n * k, bytes=2 * (m * k + n * k + m * n), dtype=dtype)


def tolerance(k: int, dtype: str) -> Tolerance:
    """What a right kernel meets on every element, for inputs from a standard normal distribution and k up to 16384.

    rtol is the unit roundoff of the output type: C is rounded once. atol is for the FP32 sum, which the tensor core
    truncates at each step of 16 products (Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025). In an
    emulation of that, 10^4 elements differ from a sequential FP32 sum by at most 12 k 2^-24 at k = 16384 and 8 k 2^-24
    at k = 4096. The largest of 16384^2 elements is about twice that; atol is 64 k 2^-24, which is 2^-11 of the standard
    deviation of C at k = 16384, and less below.
    """
    return Tolerance(rtol={"bfloat16": 2**-8, "float16": 2**-11}[dtype], atol=k * 2**-18)
