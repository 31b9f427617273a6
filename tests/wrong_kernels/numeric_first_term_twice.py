"""out[c] = the sum of column c of inp in FP32, one thread per column, the accumulator initialised with the first row.

Fault: the loop starts at row 0 although the accumulator already holds it, so the first term counts twice.
"""

from parts_simt import FP32_SUM, SETTINGS, matrix

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "the accumulator starts with the first term, and the loop adds it again"
DETECTORS = ("numeric", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    begin = 0 if faulty else 1

    @T.prim_func
    def column_sum(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((cols,), "float32")):
        T.device_entry()
        block = T.cta_id([cols // 64])
        thread = T.thread_id([64])
        col = T.meta_var(block * 64 + thread)
        total = T.alloc_local((1,), "float32")
        total[0] = inp[0, col]
        for row in T.serial(begin, rows, unroll=False):
            total[0] = total[0] + inp[row, col]
        out[col] = total[0]

    return column_sum


KERNEL = Kernel(
    name="numeric_first_term_twice",
    workloads=(Workload("100x256", {"rows": 100, "cols": 256}),),
    build=build,
    inputs=matrix,
    outputs=lambda cols: {"out": ((cols,), "float32")},
    reference=lambda inp: {"out": inp.sum(0)},
    tolerance=FP32_SUM,
    constraints=(Constraint("cols % 64 == 0", "no tail"),),
    **SETTINGS,
)
