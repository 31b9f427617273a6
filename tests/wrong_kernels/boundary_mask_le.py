"""out[r] = the sum of row r of inp in FP32: one warp per row, and a last step in which not every lane has a column.

Fault: the mask of the last step is `<=` instead of `<`, so one lane adds the first element of the next row; only the last
row's warp leaves the buffer, by one element.
"""

from parts_simt import FP32_SUM, SETTINGS, matrix, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the mask of the last step is <= instead of <: a row's sum takes the next row's first element"
DETECTORS = ("numeric", "sanitizer", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def row_sum(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows,), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for step in T.serial(tiles(cols, 32)):
            col = T.meta_var(step * 32 + lane)
            if col <= cols if faulty else col < cols:
                total[0] = total[0] + inp[row, col]
        total[0] = T.cuda.warp_sum(total[0])
        if lane == 0:
            out[row] = total[0]

    return row_sum


KERNEL = Kernel(
    name="boundary_mask_le",
    workloads=(Workload("64x200", {"rows": 64, "cols": 200}),),
    build=build,
    inputs=matrix,
    outputs=lambda rows: {"out": ((rows,), "float32")},
    reference=lambda inp: {"out": inp.sum(1)},
    tolerance=FP32_SUM,
    **SETTINGS,
)
