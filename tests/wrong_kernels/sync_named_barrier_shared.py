"""out = inp.T: each of two warpgroups transposes tiles of 32 x 32, one after the other, through its own shared memory.

Both warpgroups use the same named barrier. Any four warps of the eight open it, so a warpgroup may read a tile that its own
warps are still writing: a race, and wrong numbers when the warpgroups are out of step.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "two warpgroups use one named barrier for themselves"
DETECTORS = ("time-out", "simulator", "numeric", "repeat", "sanitizer")


def build(m, n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def transpose(inp: T.Buffer((m, n), "float32"), out: T.Buffer((n, m), "float32")):
        T.device_entry()
        block = T.cta_id([m // 32])
        warpgroup = T.warpgroup_id([2])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((2, 32, 33), "float32", scope="shared")
        barrier = T.meta_var(1 if faulty else warpgroup + 1)
        for step in T.serial(n // 64):
            column = T.meta_var(step * 64 + warpgroup * 32)
            for i in T.unroll(8):
                tile[warpgroup, i * 4 + warp, lane] = inp[block * 32 + i * 4 + warp, column + lane]
            T.cuda.warpgroup_sync(barrier)
            for i in T.unroll(8):
                out[column + i * 4 + warp, block * 32 + lane] = tile[warpgroup, lane, i * 4 + warp]
            T.cuda.warpgroup_sync(barrier)

    return transpose


KERNEL = Kernel(name="sync_named_barrier_shared", build=build, **parts.TRANSPOSE, tunables={"faulty": True})
