"""out = 2 * inp + 1: 128 threads write tiles to two staging slots by turns, and one thread stores them by TMA.

Thread 0 issues the TMA store when its own writes are done, and the other warps, which begin later, may still be writing: a
race, and wrong numbers in their rows.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a TMA store is issued without a barrier after the other threads' writes"
DETECTORS = ("numeric", "repeat", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    rows, columns = parts.TILE
    steps = m // rows // 4

    @T.prim_func
    def store(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([4])
        thread = T.thread_id([128])
        pool = T.SMEMPool()
        staging = pool.alloc((2, rows, columns), "float32", align=1024)
        pool.commit()
        for step in T.serial(steps):
            row = T.meta_var((block * steps + step) * rows)
            slot = T.meta_var(step % 2)
            if thread == 0:
                T.ptx["cp.async.bulk.wait_group.read"](1)
            T.cuda.cta_sync()
            if thread >= 32:
                T.cuda.nano_sleep(T.uint64(3000))
            for i in T.unroll(rows // 2):
                line = T.meta_var(i * 2 + thread // 64)
                staging[slot, line, thread % 64] = inp[row + line, thread % 64] * T.float32(2) + T.float32(1)
            T.ptx["fence.proxy.async.shared::cta"]()
            if not faulty:
                T.cuda.cta_sync()
            if thread == 0:
                Tx.copy_async(out[row : row + rows, 0:columns], staging[slot, :, :], dispatch="tma_explicit")
                T.ptx["cp.async.bulk.commit_group"]()
        if thread == 0:
            T.ptx["cp.async.bulk.wait_group"](0)

    return store


KERNEL = Kernel(name="sync_store_before_barrier", build=build, **parts.AFFINE, tunables={"faulty": True})
