"""out[i] = sum of row i of inp: 64 threads put a row into shared memory and one adds it up, row after row.

No barrier stands between the sum of a row and the writes of the next. The other warp goes ahead and overwrites what is being
added: a race, and wrong numbers nearly always.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel, Tolerance

CLASS = "synchronisation"
FAULT = "shared scratch is written for the next row while this row is still read"
DETECTORS = ("numeric", "sanitizer", "repeat", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T

    rows = m // 16

    @T.prim_func
    def row_sum(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m,), "float32")):
        T.device_entry()
        block = T.cta_id([16])
        thread = T.thread_id([64])
        scratch = T.alloc_buffer((64,), "float32", scope="shared")
        total = T.alloc_local((1,), "float32")
        for i in T.serial(rows):
            scratch[thread] = inp[block * rows + i, thread]
            T.cuda.cta_sync()
            if thread == 0:
                total[0] = T.float32(0)
                for j in T.serial(64):
                    total[0] = total[0] + scratch[j]
                out[block * rows + i] = total[0]
            if not faulty:
                T.cuda.cta_sync()

    return row_sum


CHANGES = {
    "outputs": lambda m: {"out": ((m,), "float32")},
    "reference": lambda inp: {"out": inp.sum(1)},
    "tolerance": Tolerance(rtol=1e-5, atol=1e-4),
}


KERNEL = Kernel(name="sync_scratch_reused", build=build, **{**parts.AFFINE, **CHANGES}, tunables={"faulty": True})
