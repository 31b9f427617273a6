"""out = inp.T: a block of 256 threads transposes a tile of 32 x 32 through shared memory.

No block barrier stands between the writes of the tile and its reads: a warp reads what other warps have not written yet. A
race, and wrong numbers nearly always.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "shared memory that other warps wrote is read without a block barrier"
DETECTORS = ("numeric", "sanitizer", "repeat", "simulator")


def build(m, n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def transpose(inp: T.Buffer((m, n), "float32"), out: T.Buffer((n, m), "float32")):
        T.device_entry()
        block = T.cta_id([m // 32 * (n // 32)])
        warp = T.warp_id([8])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((32, 33), "float32", scope="shared")
        row = T.meta_var(block // (n // 32) * 32)
        column = T.meta_var(block % (n // 32) * 32)
        for i in T.unroll(4):
            tile[i * 8 + warp, lane] = inp[row + i * 8 + warp, column + lane]
        if not faulty:
            T.cuda.cta_sync()
        for i in T.unroll(4):
            out[column + i * 8 + warp, row + lane] = tile[lane, i * 8 + warp]

    return transpose


KERNEL = Kernel(name="sync_block_barrier_missing", build=build, **parts.TRANSPOSE, tunables={"faulty": True})
