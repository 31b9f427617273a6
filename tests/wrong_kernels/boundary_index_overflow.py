"""out[i] = inp[i * source // n]: resampling of `source` elements to n by the nearest one below.

Fault: the product i * source is computed in 32 bits and wraps at 2**32: elements past the wrap come from the start of inp
again. The index stays in bounds, and a shape that is a little smaller is right.
"""

from parts_simt import EXACT, SETTINGS, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the product of two indices is computed in 32 bits and wraps"
DETECTORS = ("numeric", "static", "simulator")


def build(n, source, faulty):
    from tvm.script import tirx as T

    wide = "uint32" if faulty else "uint64"

    @T.prim_func
    def resample(inp: T.Buffer((source,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([tiles(n, 256)])
        thread = T.thread_id([256])
        i = T.meta_var(block * 256 + thread)
        if i < n:
            out[i] = inp[T.cast(T.cast(i, wide) * T.cast(source, wide) // T.cast(n, wide), "int32")]

    return resample


KERNEL = Kernel(
    name="boundary_index_overflow",
    workloads=(Workload("70001-80000", {"n": 80000, "source": 70001}),),
    build=build,
    inputs=lambda source, rng: {"inp": rng.normal((source,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=lambda inp, n, source: {"out": inp[[i * source // n for i in range(n)]]},
    tolerance=EXACT,
    **SETTINGS,
)
