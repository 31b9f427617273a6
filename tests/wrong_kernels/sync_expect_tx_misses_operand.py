"""out = x + y: one thread loads a tile of each by TMA, with one barrier for both.

The barrier expects the bytes of one operand. It opens when that many have come, of either, and the rest may still be on its
way: a race that gives wrong numbers in some tiles.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "expect_tx counts one of the two loads"
DETECTORS = ("time-out", "numeric", "repeat", "simulator", "static")


def build(m, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    rows, columns = parts.TILE
    publish = parts.publish()

    @T.prim_func
    def add(x: T.Buffer((m, 64), "float32"), y: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // rows])
        thread = T.thread_id([128])
        pool = T.SMEMPool()
        full = TMABar(pool, 1)
        pool.move_base_to(1024)
        x_smem = pool.alloc((rows, columns), "float32")
        y_smem = pool.alloc((rows, columns), "float32")
        full.init(1)
        pool.commit()
        publish()
        row = T.meta_var(block * rows)
        if thread == 0:
            full.arrive(0, rows * columns * 4 * (1 if faulty else 2))
            Tx.copy_async(x_smem[:, :], x[row : row + rows, 0:columns], dispatch="tma_explicit", mbar=full.ptr_to([0]))
            Tx.copy_async(y_smem[:, :], y[row : row + rows, 0:columns], dispatch="tma_explicit", mbar=full.ptr_to([0]))
        full.wait(0, 0)
        for i in T.unroll(rows // 2):
            line = T.meta_var(i * 2 + thread // 64)
            out[row + line, thread % 64] = x_smem[line, thread % 64] + y_smem[line, thread % 64]

    return add


KERNEL = Kernel(name="sync_expect_tx_misses_operand", build=build, **parts.SUM, tunables={"faulty": True})
