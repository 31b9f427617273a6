"""C = A @ B.T: bf16 or fp16 in and out, FP32 accumulation, Hopper wgmma. A is (m, k), B is (n, k), C is (m, n)."""

from tirx_bench import Baseline, Kernel, TimingPolicy, bench, hopper, script
from tirx_bench.gemm_problem import WORKLOADS, inputs, magnitude, outputs, tolerance, work


def build(m, n, k, dtype, bn, stages, group, sms):
    return hopper.gemm(m, n, k, dtype, relu=False, bn=bn, stages=stages, group=group, sms=sms)


def reference(a, b):
    return {"c": a @ b.T}


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
    tolerance=tolerance,
    magnitude=magnitude,
    tiles=hopper.tiles,
    work=work,
    baselines={"torch.mm": Baseline(torch_mm, tuning="cuBLAS's own choice, no search")},
    tunables=hopper.TUNABLES,
    constraints=hopper.CONSTRAINTS,
    small=hopper.SMALL,
)


def run_bench(workload="4096", **policy):
    return bench(KERNEL, workload, TimingPolicy(**policy))


if __name__ == "__main__":
    script(run_bench)
