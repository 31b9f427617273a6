"""Kernel files for the GPU tests: one right, and one for each way of going wrong that only a GPU shows."""

FILE = """
from tirx_bench import Kernel, Tolerance, Work, Workload


def build(n):
    from tvm.script import tirx as T

    outside = 1 << 30 if n == 1024 else 0  # far beyond the buffer, for the small workload

    @T.prim_func
    def scale(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([n // 128])
        thread = T.thread_id([128])
        @BODY@

    return scale


def torch_mul(inp, out):
    import torch

    return lambda: torch.mul(inp, 2, out=out)


def zeros(inp, out):
    return lambda: out.zero_()


KERNEL = Kernel(
    name="scale",
    archs=("sm_90a", "sm_100a"),
    workloads=(Workload("small", dict(n=1024)), Workload("large", dict(n=1 << 20))),
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=lambda inp: {"out": inp * 2},
    tolerance=Tolerance(0, 0),
    work=lambda n: Work(flops=n, bytes=8 * n, dtype="float32"),
    baselines={"torch.mul": torch_mul, "zeros": zeros},
)
"""

BODIES = {
    "right": "out[block * 128 + thread] = inp[block * 128 + thread] * T.float32(2)",
    "wrong": "out[block * 128 + thread] = inp[block * 128 + thread] * T.float32(2) + T.float32(block // (n // 128 - 1))",
    "unwritten": "if block > 0:\n            out[block * 128 + thread] = inp[block * 128 + thread] * T.float32(2)",
    # A loop whose end depends on memory that nobody writes: what a missed barrier arrival looks like.
    "hangs": "while inp[0] < T.float32(1e30):\n            out[block * 128 + thread] = inp[block * 128 + thread]",
    "faults": "out[block * 128 + thread + outside] = inp[block * 128 + thread] * T.float32(2)",
}


def source(body: str) -> str:
    """The text of a kernel file whose PrimFunc has that body."""
    return FILE.replace("@BODY@", BODIES[body])
