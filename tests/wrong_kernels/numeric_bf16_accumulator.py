"""out[r] = the sum of row r of a bf16 inp, accumulated in FP32 by one warp per row, out in FP32.

Fault: the accumulator is bf16, so the sum is rounded to 8 bits after each of a lane's additions and loses most of what is
added once it is large: here half of the sum, and nearly nothing with few columns.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, RoundingBound, Workload

CLASS = "numeric"
FAULT = "the accumulator is bf16 instead of FP32"
DETECTORS = ("numeric", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    accumulate = "bfloat16" if faulty else "float32"

    @T.prim_func
    def row_sum(inp: T.Buffer((rows, cols), "bfloat16"), out: T.Buffer((rows,), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        total = T.alloc_local((1,), accumulate)
        row_total = T.alloc_local((1,), "float32")
        total[0] = T.cast(T.float32(0), accumulate)
        for step in T.serial(cols // 32, unroll=False):
            total[0] = total[0] + T.cast(inp[row, step * 32 + lane], accumulate)
        row_total[0] = T.cuda.warp_sum(T.cast(total[0], "float32"))
        if lane == 0:
            out[row] = row_total[0]

    return row_sum


KERNEL = Kernel(
    name="numeric_bf16_accumulator",
    workloads=(Workload("16x32768", {"rows": 16, "cols": 32768}),),
    build=build,
    inputs=lambda rows, cols, rng: {"inp": rng.uniform((rows, cols), "bfloat16")},
    outputs=lambda rows: {"out": ((rows,), "float32")},
    reference=lambda inp: {"out": inp.sum(1)},
    tolerance=lambda cols: RoundingBound(steps=cols // 32 + 5, unit=2**-24),
    magnitude=lambda inp: {"out": abs(inp).sum(1)},
    constraints=(Constraint("cols % 32 == 0", "no tail"),),
    **SETTINGS,
)
