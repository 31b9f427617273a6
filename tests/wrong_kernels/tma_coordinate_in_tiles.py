"""c = a @ b.T with wgmma: one warpgroup computes 64 x 64, from one slot that it loads by TMA again and again.

The load of B takes the number of the block of columns for its first column: columns 1 to 64 in place of 64 to 127, and so
on. Wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "tma"
FAULT = "a coordinate of a TMA load counts tiles, not elements"
DETECTORS = ("fault", "numeric")


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
        full = TMABar(pool, 1)
        pool.move_base_to(1024)
        a_smem = pool.alloc((64, 64), "bfloat16", layout=parts.swizzled(64, 64))
        b_smem = pool.alloc((64, 64), "bfloat16", layout=parts.swizzled(64, 64))
        full.init(1)
        pool.commit()
        publish()
        acc = T.alloc_local((32,), "float32")
        a_desc = T.alloc_local((1,), "uint64")
        b_desc = T.alloc_local((1,), "uint64")
        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a_desc[0]), a_smem.ptr_to([0, 0]), 1, 64, 3)
        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(b_desc[0]), b_smem.ptr_to([0, 0]), 1, 64, 3)
        row = T.meta_var(block * 64)
        for kb in T.serial(k // 64):
            column = T.meta_var(kb * 64)
            if (warp == 0) & (lane == 0):
                full.arrive(0, 2 * 64 * 64 * 2)
                Tx.copy_async(a_smem, a[row : row + 64, column : column + 64], dispatch="tma_explicit", mbar=full.ptr_to([0]))
                start = T.meta_var(kb if faulty else column)
                Tx.copy_async(b_smem, b[0:64, start : start + 64], dispatch="tma_explicit", mbar=full.ptr_to([0]))
            full.wait(0, kb % 2)
            T.ptx["wgmma.fence.sync.aligned"]()
            multiply(acc, a_desc[0], b_desc[0], kb != 0)
            T.ptx["wgmma.commit_group.sync.aligned"]()
            T.ptx["wgmma.wait_group.sync.aligned"](0)
            T.cuda.cta_sync()
        write_product(c, acc, block * 64, warp, lane)

    return product


KERNEL = Kernel(name="tma_coordinate_in_tiles", build=build, **parts.PRODUCT, tunables={"faulty": True})
