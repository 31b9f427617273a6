"""total[c] += the sum of column c of an integer inp: one atomic addition per element, so in any order.

Fault: the total is bf16 instead of FP32. In FP32 these sums of small integers are exact in every order; in bf16 each addition
rounds, so additions to a large total are lost, and how many depends on the order: the result changes from run to run.
"""

from parts_simt import EXACT, SETTINGS

from tirx_bench import Constraint, Kernel, Workload

CLASS = "numeric"
FAULT = "atomics in random order on a bf16 total"
DETECTORS = ("numeric", "repeat", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    kept = "bfloat16" if faulty else "float32"

    @T.prim_func
    def add_rows(inp: T.Buffer((rows, cols), "int32"), total: T.Buffer((cols,), kept)):
        T.device_entry()
        row = T.cta_id([rows])
        thread = T.thread_id([cols])
        T.evaluate(T.cuda.atomic_add(T.address_of(total[thread]), T.cast(inp[row, thread], kept)))

    return add_rows


def inputs(rows, cols, rng, faulty):
    kept = "bfloat16" if faulty else "float32"
    return {"inp": rng.uniform((rows, cols), "int32", 0, 8), "total": rng.uniform((cols,), kept, 0, 0)}


KERNEL = Kernel(
    name="numeric_atomics_bf16",
    workloads=(Workload("2048x128", {"rows": 2048, "cols": 128}),),
    build=build,
    inputs=inputs,
    outputs=lambda cols, faulty: {"total": ((cols,), "bfloat16" if faulty else "float32")},
    inplace=("total",),
    reference=lambda inp, total: {"total": total + inp.sum(0)},
    tolerance=EXACT,
    constraints=(Constraint("cols % 32 == 0 and cols <= 1024", "a thread per column"), Constraint("rows <= 1 << 21", "exact")),
    **SETTINGS,
)
