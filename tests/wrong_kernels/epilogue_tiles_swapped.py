"""c = a @ b.T in FP32, one tile of 16 x 16 per block, for a square c.

Fault: the store takes the tile's row for its column and the other way round, so the tiles of c stand transposed, each right
in itself; the tiles on the diagonal are where they belong, and nothing is out of bounds.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Constraint, Kernel, Workload

CLASS = "epilogue"
FAULT = "the store swaps the tile's row and column"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def matmul(a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"), c: T.Buffer((m, n), "float32")):
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([256])
        row = T.meta_var(tile_m * 16 + thread // 16)
        col = T.meta_var(tile_n * 16 + thread % 16)
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for p in T.serial(k, unroll=False):
            total[0] = total[0] + a[row, p] * b[col, p]
        if faulty:
            c[tile_n * 16 + thread // 16, tile_m * 16 + thread % 16] = total[0]
        else:
            c[row, col] = total[0]

    return matmul


KERNEL = Kernel(
    name="epilogue_tiles_swapped",
    workloads=(Workload("64x64x32", {"m": 64, "n": 64, "k": 32}),),
    build=build,
    inputs=matmul_operands,
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda a, b: {"c": a @ b.T},
    tolerance=FP32_SUM,
    constraints=(*TILED, Constraint("m == n", "the wrong variant stays in bounds")),
    **SETTINGS,
)
