"""out = 2 * inp + 1: one thread loads a tile of 32 x 32 by TMA with the 128-byte swizzle, and 128 threads read it.

The slot begins 128 bytes after a multiple of 1024. TMA swizzles by bits of the address, and the reader by the row of the
slot: wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "tma"
FAULT = "a slot with the 128-byte swizzle is aligned to 128 bytes, not to 1024"
DETECTORS = ("numeric", "static", "simulator")


def build(m, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    publish = parts.publish()

    @T.prim_func
    def affine(inp: T.Buffer((m, 64), "float32"), out: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // 32 * 2])
        thread = T.thread_id([128])
        pool = T.SMEMPool()
        full = TMABar(pool, 1)
        pool.move_base_to(128 if faulty else 1024)
        tile = pool.alloc((32, 32), "float32", align=128, layout=parts.swizzled(32, 32, dtype="float32"))
        full.init(1)
        pool.commit()
        publish()
        row = T.meta_var(block // 2 * 32)
        column = T.meta_var(block % 2 * 32)
        if thread == 0:
            full.arrive(0, 32 * 32 * 4)
            Tx.copy_async(tile, inp[row : row + 32, column : column + 32], dispatch="tma_explicit", mbar=full.ptr_to([0]))
        full.wait(0, 0)
        for i in T.unroll(8):
            line = T.meta_var(i * 4 + thread // 32)
            out[row + line, column + thread % 32] = tile[line, thread % 32] * T.float32(2) + T.float32(1)

    return affine


KERNEL = Kernel(name="tma_slot_alignment", build=build, **parts.AFFINE, tunables={"faulty": True})
