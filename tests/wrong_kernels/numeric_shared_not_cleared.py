"""out[r, b] = how many of the 1024 elements of row r of inp are b, counted by atomic additions in shared memory.

Fault: the counters are not set to zero first. A block starts with what the block before it left in its shared memory, so the
first wave may be right, and later blocks count on from somebody else's numbers.
"""

from parts_simt import EXACT, SETTINGS

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "counters in shared memory are used without being cleared"
DETECTORS = ("numeric", "repeat", "static", "simulator")
BINS = 32


def build(rows, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def histogram(inp: T.Buffer((rows, 1024), "int32"), out: T.Buffer((rows, BINS), "int32")):
        T.device_entry()
        row = T.cta_id([rows])
        thread = T.thread_id([1024])
        counts = T.alloc_buffer((BINS,), "int32", scope="shared")
        if not faulty:
            if thread < BINS:
                counts[thread] = 0
            T.cuda.cta_sync()
        T.evaluate(T.cuda.atomic_add(T.address_of(counts[inp[row, thread]]), T.int32(1)))
        T.cuda.cta_sync()
        if thread < BINS:
            out[row, thread] = counts[thread]

    return histogram


def reference(inp):
    out = inp[:, :BINS] * 0
    for b in range(BINS):
        out[:, b] = (inp == b).sum(1)
    return {"out": out}


KERNEL = Kernel(
    name="numeric_shared_not_cleared",
    workloads=(Workload("1024", {"rows": 1024}),),  # two blocks fit on an SM: four waves
    small={"rows": 2},
    build=build,
    inputs=lambda rows, rng: {"inp": rng.uniform((rows, 1024), "int32", 0, BINS)},
    outputs=lambda rows: {"out": ((rows, BINS), "int32")},
    reference=reference,
    tolerance=EXACT,
    constraints=(Constraint("rows >= 1", "a block per row"),),
    **SETTINGS,
)
