"""out = 2 * inp + 1: a warpgroup that gives registers away fills a tile, two that take them compute on it.

The two take 240 registers each and the one gives back down to 40: more than the block was launched with. The second
setmaxnreg.inc waits for ever: a hang.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "setmaxnreg asks for more registers than the block has"
DETECTORS = ("static", "time-out", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T

    rows, columns = parts.TILE

    @T.prim_func
    def roles(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})
        block = T.cta_id([m // rows])
        warpgroup = T.warpgroup_id([3])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((rows, columns), "float32", scope="shared")
        if warpgroup == 0:
            T.ptx["setmaxnreg.dec.sync.aligned.u32"](40)
            for i in T.unroll(rows // 2):
                line = T.meta_var(i * 2 + warp // 2)
                tile[line, warp % 2 * 32 + lane] = inp[block * rows + line, warp % 2 * 32 + lane]
        else:
            T.ptx["setmaxnreg.inc.sync.aligned.u32"](240 if faulty else 232)
        T.cuda.cta_sync()
        if warpgroup != 0:
            for i in T.unroll(rows // 4):
                line = T.meta_var((warpgroup - 1) * (rows // 2) + i * 2 + warp // 2)
                column = T.meta_var(warp % 2 * 32 + lane)
                out[block * rows + line, column] = tile[line, column] * T.float32(2) + T.float32(1)

    return roles


KERNEL = Kernel(name="sync_setmaxnreg_pool", build=build, **parts.AFFINE, tunables={"faulty": True})
