"""c = a @ b.T + bias in FP32, where bias has an element per column of c.

Fault: the bias is indexed by the row, so every element of a row gets the same one. c has no more rows than columns, so the
index stays in bounds, and a bias of equal elements does not show it.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Constraint, Kernel, Workload

CLASS = "epilogue"
FAULT = "the bias is indexed by the row of c"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def matmul_bias(
        a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"),
        bias: T.Buffer((n,), "float32"), c: T.Buffer((m, n), "float32"),
    ):  # fmt: skip
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([256])
        row = T.meta_var(tile_m * 16 + thread // 16)
        col = T.meta_var(tile_n * 16 + thread % 16)
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for p in T.serial(k, unroll=False):
            total[0] = total[0] + a[row, p] * b[col, p]
        c[row, col] = total[0] + bias[row if faulty else col]

    return matmul_bias


KERNEL = Kernel(
    name="epilogue_bias_by_row",
    workloads=(Workload("48x64x32", {"m": 48, "n": 64, "k": 32}),),
    build=build,
    inputs=lambda m, n, k, rng: {**matmul_operands(m, n, k, rng), "bias": rng.normal((n,), "float32")},
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda a, b, bias: {"c": a @ b.T + bias},
    tolerance=FP32_SUM,
    constraints=(*TILED, Constraint("m <= n", "the wrong variant stays in bounds")),
    **SETTINGS,
)
