"""c = a @ b.T with wgmma: one warpgroup computes 64 x 64, and loads two blocks of columns ahead by TMA.

In the loop the load that refills a slot takes the next block of columns, not the one after it: block 1 is used twice, the
later ones come a step late, and the last never. Wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "tma"
FAULT = "a prefetch asks for the block that the other slot holds"
DETECTORS = ("numeric",)


def build(m, k, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    publish, multiply, write_product = parts.publish(), parts.multiply(), parts.write_product()

    @T.prim_func
    def product(a: T.Buffer((m, k), "bfloat16"), b: T.Buffer((64, k), "bfloat16"), c: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // 64])
        warp = T.warp_id([4])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = TMABar(pool, 2)
        pool.move_base_to(1024)
        a_smem = pool.alloc((2, 64, 64), "bfloat16", layout=parts.swizzled(2, 64, 64))
        b_smem = pool.alloc((2, 64, 64), "bfloat16", layout=parts.swizzled(2, 64, 64))
        full.init(1)
        pool.commit()
        publish()
        acc = T.alloc_local((32,), "float32")
        a_desc = T.alloc_local((1,), "uint64")
        b_desc = T.alloc_local((1,), "uint64")
        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a_desc[0]), a_smem.ptr_to([0, 0, 0]), 1, 64, 3)
        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(b_desc[0]), b_smem.ptr_to([0, 0, 0]), 1, 64, 3)
        leader = T.meta_var((warp == 0) & (lane == 0))

        @T.inline
        def load(slot, kb):
            row = T.meta_var(block * 64)
            column = T.meta_var(kb * 64)
            full.arrive(slot, 2 * 64 * 64 * 2)
            Tx.copy_async(
                a_smem[slot, :, :], a[row : row + 64, column : column + 64],
                dispatch="tma_explicit", mbar=full.ptr_to([slot]),
            )  # fmt: skip
            Tx.copy_async(b_smem[slot, :, :], b[0:64, column : column + 64], dispatch="tma_explicit", mbar=full.ptr_to([slot]))

        if leader:
            load(0, 0)
            load(1, 1)
        for kb in T.serial(k // 64):
            slot = T.meta_var(kb % 2)
            offset = T.meta_var(T.cast(slot * (64 * 64 * 2 // 16), "uint64"))
            full.wait(slot, kb // 2 % 2)
            T.ptx["wgmma.fence.sync.aligned"]()
            multiply(acc, a_desc[0] + offset, b_desc[0] + offset, kb != 0)
            T.ptx["wgmma.commit_group.sync.aligned"]()
            T.ptx["wgmma.wait_group.sync.aligned"](0)
            T.cuda.cta_sync()
            if leader & (kb + 2 < k // 64):
                load(slot, kb + (1 if faulty else 2))
        write_product(c, acc, block * 64, warp, lane)

    return product


KERNEL = Kernel(name="tma_prefetch_off_by_one", build=build, **parts.PRODUCT, tunables={"faulty": True})
