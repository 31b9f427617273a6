"""out = 2 * inp + 1: 128 threads write tiles to one staging slot, and one thread stores them by TMA.

Nothing waits until the TMA store of a tile has read the slot, and the values of the next tile are in registers already: a race,
and wrong numbers where a store is later than they are.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a staging slot is written while its TMA store still reads it"
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
        staging = pool.alloc((rows, columns), "float32", align=1024)
        pool.commit()
        ahead = T.alloc_local((rows // 2,), "float32")
        for step in T.serial(steps):
            row = T.meta_var((block * steps + step) * rows)
            for i in T.unroll(rows // 2):
                ahead[i] = inp[row + i * 2 + thread // 64, thread % 64]
            if step > 0:
                if thread == 0:
                    Tx.copy_async(out[row - rows : row, 0:columns], staging, dispatch="tma_explicit")
                    T.ptx["cp.async.bulk.commit_group"]()
                    if not faulty:
                        T.ptx["cp.async.bulk.wait_group.read"](0)
            T.cuda.cta_sync()
            for i in T.unroll(rows // 2):
                staging[i * 2 + thread // 64, thread % 64] = ahead[i] * T.float32(2) + T.float32(1)
            T.ptx["fence.proxy.async.shared::cta"]()
            T.cuda.cta_sync()
        if thread == 0:
            last = T.meta_var((block * steps + steps) * rows)
            Tx.copy_async(out[last - rows : last, 0:columns], staging, dispatch="tma_explicit")
            T.ptx["cp.async.bulk.commit_group"]()
            T.ptx["cp.async.bulk.wait_group"](0)

    return store


KERNEL = Kernel(name="sync_store_source_reused", build=build, **parts.AFFINE, tunables={"faulty": True})
