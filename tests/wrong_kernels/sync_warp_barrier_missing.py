"""out = inp.T: a warp transposes a tile of 32 x 32 through shared memory, without another warp.

No __syncwarp stands between the lanes' writes and their reads, on the belief that a warp runs in step. The lanes mostly do,
so the numbers are mostly right all the same.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "lanes of a warp exchange shared memory without __syncwarp"
DETECTORS = ("sanitizer", "simulator")
OBSERVABLE = False  # the lanes of a warp come together again before they read


def build(m, n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def transpose(inp: T.Buffer((m, n), "float32"), out: T.Buffer((n, m), "float32")):
        T.device_entry()
        block = T.cta_id([m // 32 * (n // 32)])
        lane = T.thread_id([32])
        tile = T.alloc_buffer((32, 33), "float32", scope="shared")
        row = T.meta_var(block // (n // 32) * 32)
        column = T.meta_var(block % (n // 32) * 32)
        for i in T.unroll(32):
            tile[i, lane] = inp[row + i, column + lane]
        if not faulty:
            T.cuda.warp_sync()
        for i in T.unroll(32):
            out[column + i, row + lane] = tile[lane, i]

    return transpose


KERNEL = Kernel(name="sync_warp_barrier_missing", build=build, **parts.TRANSPOSE, tunables={"faulty": True})
