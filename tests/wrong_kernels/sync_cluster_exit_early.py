"""out = sum of the two tiles of a cluster of two blocks: each reads half of the other's tile from its shared memory.

No barrier of the cluster stands at the end, and the second block is late, so the first ends before its shared memory is read:
a fault, or wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a block ends while the other block of its cluster may still read its shared memory"
DETECTORS = ("fault", "numeric", "simulator")


def build(m, faulty):
    from tvm.script import tirx as T

    rows, columns = parts.TILE
    remote = parts.remote()

    @T.prim_func
    def pairs(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m // 2, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // rows])
        rank, _ = T.cta_id_in_cluster([2, 1])
        thread = T.thread_id([128])
        pool = T.SMEMPool()
        tile = pool.alloc((rows, columns), "float32", align=1024)
        pool.commit()
        value = T.alloc_local((1,), "float32")
        for i in T.unroll(rows // 2):
            line = T.meta_var(i * 2 + thread // 64)
            tile[line, thread % 64] = inp[block * rows + line, thread % 64]
        T.cuda.cta_sync()  # TVM's cluster_sync orders nothing for the compiler
        T.cuda.cluster_sync()
        if rank == 1:
            T.cuda.nano_sleep(T.uint64(100000))
        for i in T.unroll(rows // 4):
            line = T.meta_var(rank * (rows // 2) + i * 2 + thread // 64)
            remote(value, tile.ptr_to([line, thread % 64]), 1 - rank)
            out[block // 2 * rows + line, thread % 64] = tile[line, thread % 64] + value[0]
        if not faulty:
            T.cuda.cluster_sync()

    return pairs


KERNEL = Kernel(name="sync_cluster_exit_early", build=build, **parts.PAIRS, tunables={"faulty": True})
