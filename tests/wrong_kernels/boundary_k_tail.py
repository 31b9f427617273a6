"""c = a @ b.T in FP32 with 16 x 16 x 16 tiles in shared memory, and k not a multiple of 16.

Fault: the tail of k is not zeroed in shared memory: columns past k keep what the tile before left there, and the product of
those stale values is added to every element. All accesses are in bounds.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the tail of k is not zeroed in shared memory: the last tile multiplies stale values of the tile before"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def matmul(a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"), c: T.Buffer((m, n), "float32")):
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([256])
        y, x = T.meta_var(thread // 16), T.meta_var(thread % 16)
        a_tile = T.alloc_buffer((16, 17), "float32", scope="shared")
        b_tile = T.alloc_buffer((16, 17), "float32", scope="shared")
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for step in T.serial((k + 15) // 16, unroll=False):
            if step * 16 + x < k:
                a_tile[y, x] = a[tile_m * 16 + y, step * 16 + x]
                b_tile[y, x] = b[tile_n * 16 + y, step * 16 + x]
            elif not faulty:
                a_tile[y, x] = T.float32(0)
                b_tile[y, x] = T.float32(0)
            T.cuda.cta_sync()
            for p in T.serial(16):
                total[0] = total[0] + a_tile[y, p] * b_tile[x, p]
            T.cuda.cta_sync()
        c[tile_m * 16 + y, tile_n * 16 + x] = total[0]

    return matmul


KERNEL = Kernel(
    name="boundary_k_tail",
    workloads=(Workload("32x48x40", {"m": 32, "n": 48, "k": 40}),),
    build=build,
    inputs=matmul_operands,
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda a, b: {"c": a @ b.T},
    tolerance=FP32_SUM,
    constraints=TILED,
    **SETTINGS,
)
