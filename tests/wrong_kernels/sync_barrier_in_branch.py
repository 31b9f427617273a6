"""out = 2 * inp + 1: the first warpgroup copies two halves of a tile to shared memory, the second computes on them.

Between the two halves the first warpgroup calls the block barrier, alone. It meets the barrier that the second waits at
before it reads, so the second half is read before it is written: wrong numbers, perhaps a hang.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a block barrier in one branch meets another one outside of it"
DETECTORS = ("sanitizer", "numeric", "time-out", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T

    rows, columns = parts.TILE

    @T.prim_func
    def roles(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // rows])
        warpgroup = T.warpgroup_id([2])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((rows, columns), "float32", scope="shared")
        thread = T.meta_var(warp * 32 + lane)
        if warpgroup == 0:
            for i in T.unroll(rows // 4):
                tile[i * 2 + thread // 64, thread % 64] = inp[block * rows + i * 2 + thread // 64, thread % 64]
            if faulty:
                T.cuda.cta_sync()
            for i in T.unroll(rows // 4):
                line = T.meta_var(rows // 2 + i * 2 + thread // 64)
                tile[line, thread % 64] = inp[block * rows + line, thread % 64]
        T.cuda.cta_sync()
        if warpgroup == 1:
            for i in T.unroll(rows // 2):
                line = T.meta_var(i * 2 + thread // 64)
                out[block * rows + line, thread % 64] = tile[line, thread % 64] * T.float32(2) + T.float32(1)

    return roles


KERNEL = Kernel(name="sync_barrier_in_branch", build=build, **parts.AFFINE, tunables={"faulty": True})
