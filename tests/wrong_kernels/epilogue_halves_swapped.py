"""out = inp + 1 from FP32 to bf16: a thread packs two neighbouring results into a word and stores it.

Fault: `cvt.rn.bf16x2.f32 d, a, b` puts a into the upper half and b into the lower one, and the operands stand in the order of
memory instead, so every pair of neighbours is swapped.
"""

from parts_simt import SETTINGS

from tirx_bench import Constraint, Kernel, Tolerance, Workload

CLASS = "epilogue"
FAULT = "the halves of a packed pair are swapped: cvt takes the upper half first"
DETECTORS = ("numeric", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    upper = 0 if faulty else 1

    @T.prim_func
    def add_one(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "bfloat16")):
        T.device_entry()
        block = T.cta_id([n // 256])
        thread = T.thread_id([128])
        first = T.meta_var(block * 256 + thread * 2)
        pair = T.alloc_local((2,), "float32")
        word = T.alloc_local((1,), "uint32")
        for i in T.unroll(2):
            pair[i] = inp[first + i] + T.float32(1)
        T.ptx["cvt.rn.bf16x2.f32"](word[0], pair[upper], pair[1 - upper])
        T.ptx["st.global.b32"](out.ptr_to([first]), word[0])

    return add_one


KERNEL = Kernel(
    name="epilogue_halves_swapped",
    workloads=(Workload("4096", {"n": 4096}),),
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "bfloat16")},
    reference=lambda inp: {"out": inp + 1},
    tolerance=Tolerance(rtol=2**-8, atol=0),  # half a unit of 8 bits
    constraints=(Constraint("n % 256 == 0", "no tail"),),
    **SETTINGS,
)
