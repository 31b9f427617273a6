"""out = 2 * inp + 1: one thread loads a tile of bf16 by TMA, and 128 threads write FP32.

The barrier expects the bytes of an FP32 tile, twice what a bf16 tile brings: a hang.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "expect_tx counts four bytes per element of bf16"
DETECTORS = ("time-out", "simulator", "static")


def build(m, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    rows, columns = parts.TILE
    publish = parts.publish()

    @T.prim_func
    def widen(inp: T.Buffer((m, 64), "bfloat16"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // rows])
        thread = T.thread_id([128])
        pool = T.SMEMPool()
        full = TMABar(pool, 1)
        pool.move_base_to(1024)
        tile = pool.alloc((rows, columns), "bfloat16")
        full.init(1)
        pool.commit()
        publish()
        row = T.meta_var(block * rows)
        if thread == 0:
            full.arrive(0, rows * columns * (4 if faulty else 2))
            Tx.copy_async(tile[:, :], inp[row : row + rows, 0:columns], dispatch="tma_explicit", mbar=full.ptr_to([0]))
        full.wait(0, 0)
        for i in T.unroll(rows // 2):
            line = T.meta_var(i * 2 + thread // 64)
            out[row + line, thread % 64] = T.cast(tile[line, thread % 64], "float32") * T.float32(2) + T.float32(1)

    return widen


def inputs(m, rng):
    return {"inp": rng.normal((m, 64), "bfloat16")}


KERNEL = Kernel(name="sync_expect_tx_element_size", build=build, **{**parts.AFFINE, "inputs": inputs}, tunables={"faulty": True})
