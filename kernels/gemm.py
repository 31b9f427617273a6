"""C = A @ B.T: bf16 or fp16 in and out, FP32 accumulation, Hopper wgmma. A is (m, k), B is (n, k), C is (m, n)."""

from tirx_bench import Kernel, TimingPolicy, Work, Workload, bench, hopper, script


def gemm_workload(label, m, n, k, dtype="bfloat16"):
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


def build(m, n, k, dtype, bn, stages, group, sms):
    return hopper.gemm(m, n, k, dtype, relu=False, bn=bn, stages=stages, group=group, sms=sms)


def inputs(m, n, k, dtype, rng):
    return {"a": rng.normal((m, k), dtype), "b": rng.normal((n, k), dtype)}


def outputs(m, n, dtype):
    return {"c": ((m, n), dtype)}


def reference(a, b):
    return {"c": a @ b.T}


def work(m, n, k, dtype):
    return Work(flops=2 * m * n * k, bytes=2 * (m * k + n * k + m * n), dtype=dtype)


def torch_mm(a, b, c):
    import torch

    return lambda: torch.mm(a, b.T, out=c)


KERNEL = Kernel(
    name="gemm",
    archs=("sm_90a",),
    workloads=WORKLOADS,
    build=build,
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    tolerance=hopper.tolerance,
    work=work,
    baselines={"torch.mm": torch_mm},
    tunables=hopper.TUNABLES,
    constraints=hopper.CONSTRAINTS,
)


def run_bench(workload="4096", **policy):
    return bench(KERNEL, workload, TimingPolicy(**policy))


if __name__ == "__main__":
    script(run_bench)
