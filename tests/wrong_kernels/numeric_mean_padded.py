"""out[r] = the mean of row r of inp in FP32, one warp per row; the tail of a row is padded with zeros in registers.

Fault: the sum is divided by the padded number of columns, so every mean is too small by cols / padded; where the columns fill
the padding it is right.
"""

from parts_simt import SETTINGS, tiles

from tirx_bench import Kernel, Tolerance, Workload

CLASS = "numeric"
FAULT = "the mean divides by the padded number of columns"
DETECTORS = ("numeric", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    padded = 32 * tiles(cols, 32)
    count = padded if faulty else cols

    @T.prim_func
    def row_mean(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows,), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for step in T.serial(padded // 32, unroll=False):
            if step * 32 + lane < cols:
                total[0] = total[0] + inp[row, step * 32 + lane]
        total[0] = T.cuda.warp_sum(total[0])
        if lane == 0:
            out[row] = total[0] / T.float32(count)

    return row_mean


KERNEL = Kernel(
    name="numeric_mean_padded",
    workloads=(Workload("64x90", {"rows": 64, "cols": 90}),),
    build=build,
    inputs=lambda rows, cols, rng: {"inp": rng.uniform((rows, cols), "float32")},
    outputs=lambda rows: {"out": ((rows,), "float32")},
    reference=lambda inp, cols: {"out": inp.sum(1) / cols},
    tolerance=Tolerance(rtol=1e-5, atol=0),
    **SETTINGS,
)
