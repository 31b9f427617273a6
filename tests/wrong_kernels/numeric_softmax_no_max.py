"""out = softmax of the rows of inp in FP32, base 2, one warp per row. The inputs are large, as logits can be.

Fault: the row's maximum is not subtracted first, so 2**x overflows to infinity for x >= 128 and the row becomes NaN; inputs
that are normal with deviation 1 do not show it.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, Tolerance, Workload

CLASS = "numeric"
FAULT = "softmax without the subtraction of the maximum overflows"
DETECTORS = ("numeric", "simulator")
LARGEST = 160


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def softmax(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows, cols), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        shift = T.alloc_local((1,), "float32")
        total = T.alloc_local((1,), "float32")
        shift[0] = T.float32(0)
        if not faulty:
            shift[0] = inp[row, lane]
            for step in T.serial(cols // 32, unroll=False):
                shift[0] = T.max(shift[0], inp[row, step * 32 + lane])
            shift[0] = T.cuda.warp_max(shift[0])
        total[0] = T.float32(0)
        for step in T.serial(cols // 32, unroll=False):
            total[0] = total[0] + T.exp2(inp[row, step * 32 + lane] - shift[0])
        total[0] = T.cuda.warp_sum(total[0])
        for step in T.serial(cols // 32, unroll=False):
            out[row, step * 32 + lane] = T.exp2(inp[row, step * 32 + lane] - shift[0]) / total[0]

    return softmax


def reference(inp):
    powers = 2.0 ** (inp - LARGEST)  # any shift gives the same softmax
    return {"out": powers / powers.sum(1)[:, None]}


KERNEL = Kernel(
    name="numeric_softmax_no_max",
    workloads=(Workload("32x256", {"rows": 32, "cols": 256}),),
    build=build,
    inputs=lambda rows, cols, rng: {"inp": rng.uniform((rows, cols), "float32", LARGEST - 20, LARGEST)},
    outputs=lambda rows, cols: {"out": ((rows, cols), "float32")},
    reference=reference,
    tolerance=Tolerance(rtol=1e-5, atol=1e-8),
    constraints=(Constraint("cols % 32 == 0", "no tail"),),
    **SETTINGS,
)
