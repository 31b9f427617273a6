"""c = c + a @ b.T in FP32, in place.

Fault: the residual is read from c after the product was stored there, so twice the product comes out, and what c held is
lost; the two are the same for a caller that passes c = a @ b.T.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Kernel, Workload

CLASS = "epilogue"
FAULT = "the residual is read after it was overwritten in place"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def accumulate(a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"), c: T.Buffer((m, n), "float32")):
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([256])
        row = T.meta_var(tile_m * 16 + thread // 16)
        col = T.meta_var(tile_n * 16 + thread % 16)
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for p in T.serial(k, unroll=False):
            total[0] = total[0] + a[row, p] * b[col, p]
        residual = T.alloc_local((1,), "float32")
        if not faulty:
            residual[0] = c[row, col]
        c[row, col] = total[0]
        if faulty:
            residual[0] = c[row, col]
        c[row, col] = total[0] + residual[0]

    return accumulate


KERNEL = Kernel(
    name="epilogue_residual_lost",
    workloads=(Workload("48x64x32", {"m": 48, "n": 64, "k": 32}),),
    build=build,
    inputs=lambda m, n, k, rng: {**matmul_operands(m, n, k, rng), "c": rng.normal((m, n), "float32")},
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    inplace=("c",),
    reference=lambda a, b, c: {"c": c + a @ b.T},
    tolerance=FP32_SUM,
    constraints=TILED,
    **SETTINGS,
)
