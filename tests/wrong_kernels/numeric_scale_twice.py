"""scores = a @ b.T / sqrt(k) in FP32 for k = 64; a is scaled when it is loaded into shared memory.

Fault: the product is scaled again when it is stored, so every score is an eighth of what it should be.
"""

from parts_simt import FP32_SUM, SETTINGS, matmul_operands

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "the scale is applied to the operand and again to the product"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def scores(a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"), out: T.Buffer((m, n), "float32")):
        T.device_entry()
        row = T.cta_id([m])
        thread = T.thread_id([64])
        query = T.alloc_buffer((k,), "float32", scope="shared")
        total = T.alloc_local((1,), "float32")
        query[thread] = a[row, thread] * T.float32(k**-0.5)
        T.cuda.cta_sync()
        for i in T.serial(n // 64, unroll=False):
            total[0] = T.float32(0)
            for p in T.serial(k, unroll=False):
                total[0] = total[0] + query[p] * b[i * 64 + thread, p]
            if faulty:
                total[0] = total[0] * T.float32(k**-0.5)
            out[row, i * 64 + thread] = total[0]

    return scores


KERNEL = Kernel(
    name="numeric_scale_twice",
    workloads=(Workload("32x128x64", {"m": 32, "n": 128, "k": 64}),),
    build=build,
    inputs=matmul_operands,
    outputs=lambda m, n: {"out": ((m, n), "float32")},
    reference=lambda a, b, k: {"out": a @ b.T * k**-0.5},
    tolerance=FP32_SUM,
    constraints=(Constraint("k == 64 and n % 64 == 0", "a thread of the 64 loads one element of a, and no tail"),),
    **SETTINGS,
)
