"""out = max(a, b) by element in FP32, 256 elements per block, with a mask for the last block.

Fault: the number of blocks is n divided by 256 rounded down, so nobody writes the last n % 256 elements: on hardware they
keep what was there before, which is the right answer where a test runs twice into the same memory.
"""

from parts_simt import EXACT, SETTINGS, tiles

from tirx_bench import Kernel, Workload
from tirx_bench.ops import where

CLASS = "boundary"
FAULT = "the grid rounds down: the last n % 256 elements are never written"
DETECTORS = ("numeric", "static", "simulator")


def build(n, faulty):
    from tvm.script import tirx as T

    blocks = n // 256 if faulty else tiles(n, 256)

    @T.prim_func
    def larger(a: T.Buffer((n,), "float32"), b: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([blocks])
        thread = T.thread_id([256])
        i = T.meta_var(block * 256 + thread)
        if i < n:
            out[i] = T.max(a[i], b[i])

    return larger


KERNEL = Kernel(
    name="boundary_grid_rounds_down",
    workloads=(Workload("1000", {"n": 1000}),),
    build=build,
    inputs=lambda n, rng: {"a": rng.normal((n,), "float32"), "b": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    reference=lambda a, b: {"out": where(a > b, a, b)},
    tolerance=EXACT,
    **SETTINGS,
)
