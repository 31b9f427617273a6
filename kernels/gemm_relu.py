"""C = relu(A @ B.T): bf16 or fp16 in and out, FP32 accumulation, Hopper wgmma. A is (m, k), B is (n, k), C is (m, n).

The ReLU costs no instruction: it is a modifier of the conversion of the accumulators, `cvt.rn.relu`.
"""

from tirx_bench import Baseline, Kernel, TimingPolicy, bench, hopper, script
from tirx_bench.gemm_problem import WORKLOADS, inputs, magnitude, outputs, tolerance, work
from tirx_bench.ops import relu


def build(m, n, k, dtype, bn, stages, group, sms):
    return hopper.gemm(m, n, k, dtype, relu=True, bn=bn, stages=stages, group=group, sms=sms)


def reference(a, b):
    return {"c": relu(a @ b.T)}


def mm_then_clamp(a, b, c):
    import torch

    def call():
        torch.mm(a, b.T, out=c)
        c.clamp_min_(0)

    return call


def cublaslt_relu(a, b, c):
    """cuBLASLt's own ReLU epilogue, which PyTorch reaches only with a bias: here a vector of zeros."""
    import torch

    bias = torch.zeros(c.shape[1], dtype=c.dtype, device=c.device)
    return lambda: torch._addmm_activation(bias, a, b.T, use_gelu=False, out=c)


KERNEL = Kernel(
    name="gemm_relu",
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
    baselines={
        "torch.mm + clamp_min": Baseline(mm_then_clamp, tuning="cuBLAS's own choice, no search"),
        "cuBLASLt ReLU epilogue": Baseline(cublaslt_relu, tuning="cuBLASLt's first heuristic, no search"),
    },
    tunables=hopper.TUNABLES,
    constraints=hopper.CONSTRAINTS,
    small=hopper.SMALL,
)


def run_bench(workload="4096", **policy):
    return bench(KERNEL, workload, TimingPolicy(**policy))


if __name__ == "__main__":
    script(run_bench)
