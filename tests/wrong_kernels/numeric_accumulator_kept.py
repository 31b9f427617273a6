"""out[r] = the sum of row r of inp in FP32: a block of one warp walks over four rows.

Fault: the accumulator is set to zero once per block and not once per row, so a row's sum also holds those of the rows before
it in the block; the first row of every block is right.
"""

from parts_simt import FP32_SUM, SETTINGS, matrix

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "the accumulator is not reset between the rows that a block walks over"
DETECTORS = ("numeric", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def row_sum(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows,), "float32")):
        T.device_entry()
        block = T.cta_id([rows // 4])
        lane = T.thread_id([32])
        total = T.alloc_local((1,), "float32")
        row_total = T.alloc_local((1,), "float32")
        if faulty:
            total[0] = T.float32(0)
        for i in T.serial(4, unroll=False):
            if not faulty:
                total[0] = T.float32(0)
            for step in T.serial(cols // 32, unroll=False):
                total[0] = total[0] + inp[block * 4 + i, step * 32 + lane]
            row_total[0] = T.cuda.warp_sum(total[0])
            if lane == 0:
                out[block * 4 + i] = row_total[0]

    return row_sum


KERNEL = Kernel(
    name="numeric_accumulator_kept",
    workloads=(Workload("64x256", {"rows": 64, "cols": 256}),),
    build=build,
    inputs=matrix,
    outputs=lambda rows: {"out": ((rows,), "float32")},
    reference=lambda inp: {"out": inp.sum(1)},
    tolerance=FP32_SUM,
    constraints=(Constraint("rows % 4 == 0 and cols % 32 == 0", "no tail"),),
    **SETTINGS,
)
