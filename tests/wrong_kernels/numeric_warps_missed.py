"""out[r] = the sum of row r of inp in FP32: eight warps per row, their sums added in shared memory.

Fault: the last step adds the sums of four warps, as it was right when a block had 128 threads, so half of every row is lost.
"""

from parts_simt import FP32_SUM, SETTINGS, matrix

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "the last step of a block's reduction takes four of the eight warps"
DETECTORS = ("numeric", "simulator")
WARPS = 8


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    combined = 4 if faulty else WARPS

    @T.prim_func
    def row_sum(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows,), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        warp = T.warp_id([WARPS])
        lane = T.lane_id([32])
        sums = T.alloc_buffer((WARPS,), "float32", scope="shared")
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for step in T.serial(cols // 256, unroll=False):
            total[0] = total[0] + inp[row, step * 256 + warp * 32 + lane]
        total[0] = T.cuda.warp_sum(total[0])
        if lane == 0:
            sums[warp] = total[0]
        T.cuda.cta_sync()
        if warp == 0:
            total[0] = T.cuda.warp_sum(sums[lane % WARPS], combined)
            if lane == 0:
                out[row] = total[0]

    return row_sum


KERNEL = Kernel(
    name="numeric_warps_missed",
    workloads=(Workload("32x1024", {"rows": 32, "cols": 1024}),),
    build=build,
    inputs=matrix,
    outputs=lambda rows: {"out": ((rows,), "float32")},
    reference=lambda inp: {"out": inp.sum(1)},
    tolerance=FP32_SUM,
    constraints=(Constraint("cols % 256 == 0", "no tail"),),
    **SETTINGS,
)
