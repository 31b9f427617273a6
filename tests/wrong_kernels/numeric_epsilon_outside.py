"""out = inp / sqrt(mean of inp**2 + 1e-5) by rows in FP32 (RMS norm), one warp per row. The inputs are about 1e-3 in size.

Fault: epsilon is added to the root and not under it, so small rows are scaled up to 3 times too far; with rows of size 1 the
difference is 1e-5 and no tolerance shows it.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, Tolerance, Workload
from tirx_bench.ops import sqrt

CLASS = "numeric"
FAULT = "epsilon is added outside of the root"
DETECTORS = ("numeric", "simulator")
EPSILON = 1e-5


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    def root(mean):
        return T.sqrt(mean) + T.float32(EPSILON) if faulty else T.sqrt(mean + T.float32(EPSILON))

    @T.prim_func
    def rms_norm(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows, cols), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for step in T.serial(cols // 32, unroll=False):
            total[0] = total[0] + inp[row, step * 32 + lane] * inp[row, step * 32 + lane]
        total[0] = root(T.cuda.warp_sum(total[0]) / T.float32(cols))
        for step in T.serial(cols // 32, unroll=False):
            out[row, step * 32 + lane] = inp[row, step * 32 + lane] / total[0]

    return rms_norm


KERNEL = Kernel(
    name="numeric_epsilon_outside",
    workloads=(Workload("32x256", {"rows": 32, "cols": 256}),),
    build=build,
    inputs=lambda rows, cols, rng: {"inp": rng.normal((rows, cols), "float32") / 1000},
    outputs=lambda rows, cols: {"out": ((rows, cols), "float32")},
    reference=lambda inp, cols: {"out": inp / sqrt((inp * inp).sum(1) / cols + EPSILON)[:, None]},
    tolerance=Tolerance(rtol=1e-5, atol=0),
    constraints=(Constraint("cols % 32 == 0", "no tail"),),
    **SETTINGS,
)
