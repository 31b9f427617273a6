"""c = a @ b.T in FP32, a tile of 16 x 16 per block; a thread holds two elements of a column, of an even row and the odd below.

Fault: the store takes the first of the two, so nobody writes the odd rows: on hardware they keep what was there before.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Kernel, Workload

CLASS = "epilogue"
FAULT = "the store takes one of the two rows that a thread holds: the odd rows are never written"
DETECTORS = ("numeric", "static", "simulator")
HELD = 2  # rows per thread


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    stored = 1 if faulty else HELD

    @T.prim_func
    def matmul(a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"), c: T.Buffer((m, n), "float32")):
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([128])
        row = T.meta_var(tile_m * 16 + thread // 16 * HELD)
        col = T.meta_var(tile_n * 16 + thread % 16)
        total = T.alloc_local((HELD,), "float32")
        for i in T.unroll(HELD):
            total[i] = T.float32(0)
        for p in T.serial(k, unroll=False):
            for i in T.unroll(HELD):
                total[i] = total[i] + a[row + i, p] * b[col, p]
        for i in T.unroll(stored):
            c[row + i, col] = total[i]

    return matmul


KERNEL = Kernel(
    name="epilogue_even_rows",
    workloads=(Workload("48x64x32", {"m": 48, "n": 64, "k": 32}),),
    build=build,
    inputs=matmul_operands,
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda a, b: {"c": a @ b.T},
    tolerance=FP32_SUM,
    constraints=TILED,
    **SETTINGS,
)
