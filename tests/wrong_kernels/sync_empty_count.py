"""out = 2 * inp + 1: a producer warp fills a ring of tiles by TMA, a consumer warpgroup empties it.

The empty barriers expect one arrival and get one from each of four warps. Four phases pass instead of one, which is the
parity of none: the producer waits for ever, or passes while three warps still read.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "an mbarrier is initialised for one arrival and four warps arrive"
DETECTORS = ("time-out", "fault", "numeric", "simulator")


def build(m, stages, faulty):
    from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    rows, columns = parts.TILE
    steps = m // rows // 4
    publish, affine_tile = parts.publish(), parts.affine_tile()

    @T.prim_func
    def ring(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([4])
        warpgroup = T.warpgroup_id([2])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = TMABar(pool, stages)
        empty = MBarrier(pool, stages)
        pool.move_base_to(1024)
        tiles = pool.alloc((stages, rows, columns), "float32")
        full.init(1)
        empty.init(1 if faulty else 4)
        pool.commit()
        publish()
        if warpgroup == 0:
            if warp == 0:
                fill = PipelineState(stages, phase=1)
                if T.filter(lane, T.cuda.elect_sync()):
                    for step in T.serial(steps):
                        row = T.meta_var((block * steps + step) * rows)
                        empty.wait(fill.stage, fill.phase)
                        full.arrive(fill.stage, rows * columns * 4)
                        Tx.copy_async(
                            tiles[fill.stage, :, :], inp[row : row + rows, 0:columns],
                            dispatch="tma_explicit", mbar=full.ptr_to([fill.stage]),
                        )  # fmt: skip
                        fill.advance()
        else:
            use = PipelineState(stages, phase=0)
            for step in T.serial(steps):
                full.wait(use.stage, use.phase)
                affine_tile(out, tiles, use.stage, (block * steps + step) * rows, warp * 32 + lane)
                T.cuda.warp_sync()
                if lane == 0:
                    empty.arrive(use.stage)
                use.advance()

    return ring


KERNEL = Kernel(name="sync_empty_count", build=build, **parts.AFFINE, tunables={"stages": 3, "faulty": True})
