"""out = inp.T: each of two warpgroups transposes tiles of 32 x 32 through its own shared memory, with its own named barrier.

The named barrier of a warpgroup counts the 256 threads of the block, and only 128 come: a hang.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a named barrier waits for more threads than use it"
DETECTORS = ("time-out", "sanitizer", "simulator")


def build(m, n, faulty):
    from tvm.script import tirx as T

    threads = 256 if faulty else 128

    @T.prim_func
    def transpose(inp: T.Buffer((m, n), "float32"), out: T.Buffer((n, m), "float32")):
        T.device_entry()
        block = T.cta_id([m // 32 * (n // 64)])
        warpgroup = T.warpgroup_id([2])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((2, 32, 33), "float32", scope="shared")
        row = T.meta_var(block // (n // 64) * 32)
        column = T.meta_var(block % (n // 64) * 64 + warpgroup * 32)
        for i in T.unroll(8):
            tile[warpgroup, i * 4 + warp, lane] = inp[row + i * 4 + warp, column + lane]
        T.ptx["bar.sync"](T.cast(warpgroup + 1, "uint32"), T.uint32(threads))
        for i in T.unroll(8):
            out[column + i * 4 + warp, row + lane] = tile[warpgroup, lane, i * 4 + warp]

    return transpose


KERNEL = Kernel(name="sync_named_barrier_count", build=build, **parts.TRANSPOSE, tunables={"faulty": True})
