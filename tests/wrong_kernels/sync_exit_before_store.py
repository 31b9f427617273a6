"""out = 2 * inp + 1: 128 threads write tiles to two staging slots by turns, and one thread stores them by TMA.

The block ends without waiting for its last TMA stores, so its shared memory may go to another block while they read it. The
numbers are mostly right all the same.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a block ends while its TMA stores are in flight"
DETECTORS = ("simulator",)
OBSERVABLE = False  # the TMA has read the slot long before the next block could write it


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
            for i in T.unroll(rows // 2):
                line = T.meta_var(i * 2 + thread // 64)
                staging[slot, line, thread % 64] = inp[row + line, thread % 64] * T.float32(2) + T.float32(1)
            T.ptx["fence.proxy.async.shared::cta"]()
            T.cuda.cta_sync()
            if thread == 0:
                Tx.copy_async(out[row : row + rows, 0:columns], staging[slot, :, :], dispatch="tma_explicit")
                T.ptx["cp.async.bulk.commit_group"]()
        if not faulty:
            if thread == 0:
                T.ptx["cp.async.bulk.wait_group"](0)

    return store


KERNEL = Kernel(name="sync_exit_before_store", build=build, **parts.AFFINE, tunables={"faulty": True})
