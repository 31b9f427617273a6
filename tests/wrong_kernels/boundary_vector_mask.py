"""arena[:n] = 2 * inp in place; arena[n:] belongs to somebody else. A thread takes four elements.

Fault: the mask tests the first of a thread's four elements and not each, so the thread across the end writes up to three
elements into the guard region. The arena is one allocation: no access is out of bounds.
"""

from parts_simt import EXACT, SETTINGS, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the mask tests the first of a thread's four elements: the last thread writes into the region behind"
DETECTORS = ("numeric", "simulator")
GUARD = 64  # elements


def build(n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def fill(inp: T.Buffer((n + GUARD,), "float32"), arena: T.Buffer((n + GUARD,), "float32")):
        T.device_entry()
        block = T.cta_id([tiles(n, 512)])
        thread = T.thread_id([128])
        first = T.meta_var(block * 512 + thread * 4)
        for j in T.unroll(4):
            if first < n if faulty else first + j < n:
                arena[first + j] = inp[first + j] * T.float32(2)

    return fill


def reference(inp, arena, n):
    arena[:n] = 2 * inp[:n]
    return {"arena": arena}


KERNEL = Kernel(
    name="boundary_vector_mask",
    workloads=(Workload("1001", {"n": 1001}),),
    build=build,
    inputs=lambda n, rng: {name: rng.normal((n + GUARD,), "float32") for name in ("inp", "arena")},
    outputs=lambda n: {"arena": ((n + GUARD,), "float32")},
    inplace=("arena",),
    reference=reference,
    tolerance=EXACT,
    **SETTINGS,
)
