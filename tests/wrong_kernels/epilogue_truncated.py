"""out = 3 * inp, computed in FP32 and rounded to the nearest bf16.

Fault: the upper 16 bits of the FP32 value are taken as they are, which rounds towards zero: up to twice the error, always
to the same side, so that sums over many elements do not average it out. Only a tolerance of half a unit of bf16 shows it.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, Tolerance, Workload

CLASS = "epilogue"
FAULT = "the output is truncated to bf16 instead of rounded to the nearest"
DETECTORS = ("numeric", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    def narrow(x):
        if faulty:
            return T.reinterpret("bfloat16", T.cast(T.shift_right(T.reinterpret("uint32", x), T.uint32(16)), "uint16"))
        return T.cast(x, "bfloat16")

    @T.prim_func
    def triple(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "bfloat16")):
        T.device_entry()
        block = T.cta_id([n // 128])
        thread = T.thread_id([128])
        value = T.alloc_local((1,), "float32")
        value[0] = inp[block * 128 + thread] * T.float32(3)
        out[block * 128 + thread] = narrow(value[0])

    return triple


KERNEL = Kernel(
    name="epilogue_truncated",
    workloads=(Workload("4096", {"n": 4096}),),
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "bfloat16")},
    reference=lambda inp: {"out": inp * 3},
    tolerance=Tolerance(rtol=2**-8, atol=0),  # half a unit of 8 bits
    constraints=(Constraint("n % 128 == 0", "no tail"),),
    **SETTINGS,
)
