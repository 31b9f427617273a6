"""What the GEMM kernels have in common: C = A @ B.T with A (m, k), B (n, k), C (m, n), row-major, in bf16 or fp16."""

from __future__ import annotations

from typing import Any

from tirx_bench.model import RoundingBound, Shape, Work, Workload


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


def magnitude(a: Any, b: Any) -> dict[str, Any]:
    return {"c": abs(a) @ abs(b).T}


def tolerance(k: int) -> RoundingBound:
    """C is rounded once to its dtype; the tensor core truncates its FP32 sum once for every 16 products."""
    return RoundingBound(steps=-(-k // 16))
