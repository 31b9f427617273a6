"""out[2i], out[2i + 1] = inp[2i] + inp[2i + 1], inp[2i] - inp[2i + 1] in FP32: a Haar step, each lane one element, by shuffles.

Fault: the odd lane computes its own value minus the other's, as the even lane would, so every difference has the wrong sign.
"""

from parts_simt import EXACT, SETTINGS

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "the operands of the difference are swapped: the lane takes its own value minus its neighbour's"
DETECTORS = ("numeric", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    def difference(own, other):
        return own - other if faulty else other - own

    @T.prim_func
    def haar(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([n // 128])
        thread = T.thread_id([128])
        own = T.alloc_local((1,), "float32")
        other = T.alloc_local((1,), "float32")
        own[0] = inp[block * 128 + thread]
        other[0] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), own[0], 1, 32, 32)
        if thread % 2 == 0:
            out[block * 128 + thread] = own[0] + other[0]
        else:
            out[block * 128 + thread] = difference(own[0], other[0])

    return haar


def reference(inp):
    out = inp + 0
    out[0::2] += inp[1::2]
    out[1::2] = inp[0::2] - inp[1::2]
    return {"out": out}


KERNEL = Kernel(
    name="numeric_operands_swapped",
    workloads=(Workload("1024", {"n": 1024}),),
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=reference,
    tolerance=EXACT,
    constraints=(Constraint("n % 128 == 0", "no tail"),),
    **SETTINGS,
)
