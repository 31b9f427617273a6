"""c = a @ b.T with wgmma: one warpgroup computes 64 x 64, and one thread loads by TMA with tensor maps made by hand.

The tensor map of A does not swizzle, while the matrix descriptor, as everything else, says 128 bytes: wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "tma"
FAULT = "the tensor map of A does not swizzle and its reader does by 128 bytes"
DETECTORS = ("numeric", "simulator", "static")


def build(m, k, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T

    encode, publish, multiply, write_product = parts.encode(), parts.publish(), parts.multiply(), parts.write_product()
    load = T.ptx[parts.LOAD]

    @T.prim_func
    def product(a: T.Buffer((m, k), "bfloat16"), b: T.Buffer((64, k), "bfloat16"), c: T.Buffer((m, 64), "float32")):
        a_map: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
        b_map: T.let[T.TensorMap()] = T.tvm_stack_alloca("tensormap", 1)
        encode(a_map, a, k, m, k * 2, 64, 64, swizzle=0 if faulty else 3)
        encode(b_map, b, k, 64, k * 2, 64, 64, swizzle=3)
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
                load(a_smem.ptr_to([0, 0]), T.address_of(a_map), column, row, full.ptr_to([0]))
                load(b_smem.ptr_to([0, 0]), T.address_of(b_map), column, 0, full.ptr_to([0]))
            full.wait(0, kb % 2)
            T.ptx["wgmma.fence.sync.aligned"]()
            multiply(acc, a_desc[0], b_desc[0], kb != 0)
            T.ptx["wgmma.commit_group.sync.aligned"]()
            T.ptx["wgmma.wait_group.sync.aligned"](0)
            T.cuda.cta_sync()
        write_product(c, acc, block * 64, warp, lane)

    return product


KERNEL = Kernel(name="tma_swizzle_mode", build=build, **parts.PRODUCT, tunables={"faulty": True})
