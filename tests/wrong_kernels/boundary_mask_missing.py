"""out = 2 * inp in FP32, with n not a multiple of the 128 elements of a block.

Fault: the mask of the last block is missing, so its threads past the end read and write beyond both buffers. Every element
is right; only what stands behind the output shows it.
"""

from parts_simt import EXACT, SETTINGS, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the last block has no mask: it reads and writes past the end"
DETECTORS = ("numeric", "sanitizer", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def scale(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([tiles(n, 128)])
        thread = T.thread_id([128])
        i = T.meta_var(block * 128 + thread)
        if True if faulty else i < n:
            out[i] = inp[i] * T.float32(2)

    return scale


KERNEL = Kernel(
    name="boundary_mask_missing",
    workloads=(Workload("1000", {"n": 1000}),),
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=lambda inp: {"out": inp * 2},
    tolerance=EXACT,
    **SETTINGS,
)
