"""out[i] = sum of row i of inp: 64 threads put 16 rows into shared memory and one adds them up, 16 after 16.

No barrier stands between the sums of some rows and the writes of the next. The other warp goes ahead and overwrites what is
being added: a race, and wrong numbers nearly always.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel, Tolerance

CLASS = "synchronisation"
FAULT = "shared scratch is written for the next rows while these are still read"
DETECTORS = ("numeric", "sanitizer", "repeat", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T

    passes = m // 16 // 16

    @T.prim_func
    def row_sum(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m,), "float32")):
        T.device_entry()
        block = T.cta_id([16])
        thread = T.thread_id([64])
        scratch = T.alloc_buffer((16, 64), "float32", scope="shared")
        total = T.alloc_local((1,), "float32")
        for i in T.serial(passes):
            row = T.meta_var((block * passes + i) * 16)
            for r in T.unroll(16):
                scratch[r, thread] = inp[row + r, thread]
            T.cuda.cta_sync()
            if thread == 0:
                for r in T.serial(16):
                    total[0] = T.float32(0)
                    for j in T.serial(64):
                        total[0] = total[0] + scratch[r, j]
                    out[row + r] = total[0]
            if not faulty:
                T.cuda.cta_sync()

    return row_sum


CHANGES = {
    "outputs": lambda m: {"out": ((m,), "float32")},
    "reference": lambda inp: {"out": inp.sum(1)},
    "tolerance": Tolerance(rtol=1e-5, atol=1e-4),
    "small": {"m": 512},
}


KERNEL = Kernel(name="sync_scratch_reused", build=build, **{**parts.AFFINE, **CHANGES}, tunables={"faulty": True})
