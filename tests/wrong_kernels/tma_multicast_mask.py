"""c = a @ b.T with wgmma in clusters of two blocks: each loads half of B by TMA and sends it to both.

The multicast mask names the sending block alone, so each block gets one half of B and waits for the other: a hang.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "tma"
FAULT = "the mask of a multicast load leaves the other block out"
DETECTORS = ("time-out", "simulator")


def build(m, k, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    publish, multiply, write_product = parts.publish(), parts.multiply(), parts.write_product()

    @T.prim_func
    def product(a: T.Buffer((m, k), "bfloat16"), b: T.Buffer((64, k), "bfloat16"), c: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // 64])
        rank, _ = T.cta_id_in_cluster([2, 1])
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
        T.cuda.cluster_sync()
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
                half = T.meta_var(rank * 32)
                Tx.copy_async(
                    b_smem[half : half + 32, :], b[half : half + 32, column : column + 64],
                    dispatch="tma_explicit", mbar=full.ptr_to([0]), cta_mask=T.shift_left(1, rank) if faulty else 3,
                )  # fmt: skip
            full.wait(0, kb % 2)
            T.ptx["wgmma.fence.sync.aligned"]()
            multiply(acc, a_desc[0], b_desc[0], kb != 0)
            T.ptx["wgmma.commit_group.sync.aligned"]()
            T.ptx["wgmma.wait_group.sync.aligned"](0)
            T.cuda.cluster_sync()
        write_product(c, acc, block * 64, warp, lane)

    return product


KERNEL = Kernel(name="tma_multicast_mask", build=build, **parts.PRODUCT, tunables={"faulty": True})
