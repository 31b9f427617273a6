"""c = a @ b.T: a producer warp fills a ring of blocks of columns by TMA, a consumer warpgroup multiplies them with wgmma.

The consumer gives a stage back when it has issued its wgmma, not when they are done, so the producer may overwrite what they
still read: a race, and wrong numbers where the load is early.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel

CLASS = "synchronisation"
FAULT = "a stage is given back before the wgmma that read it are done"
DETECTORS = ("simulator",)
OBSERVABLE = False  # the wgmma are done long before a load could arrive


def build(m, k, faulty):
    from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    publish, multiply, write_product = parts.publish(), parts.multiply(), parts.write_product()

    @T.prim_func
    def product(a: T.Buffer((m, k), "bfloat16"), b: T.Buffer((64, k), "bfloat16"), c: T.Buffer((m, 64), "float32")):
        T.device_entry()
        block = T.cta_id([m // 64])
        warpgroup = T.warpgroup_id([2])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = TMABar(pool, 2)
        empty = MBarrier(pool, 2)
        pool.move_base_to(1024)
        a_smem = pool.alloc((2, 64, 64), "bfloat16", layout=parts.swizzled(2, 64, 64))
        b_smem = pool.alloc((2, 64, 64), "bfloat16", layout=parts.swizzled(2, 64, 64))
        full.init(1)
        empty.init(128)
        pool.commit()
        publish()
        if warpgroup == 0:
            if warp == 0:
                fill = PipelineState(2, phase=1)
                if T.filter(lane, T.cuda.elect_sync()):
                    for kb in T.serial(k // 64):
                        empty.wait(fill.stage, fill.phase)
                        full.arrive(fill.stage, 2 * 64 * 64 * 2)
                        Tx.copy_async(
                            a_smem[fill.stage, :, :], a[block * 64 : block * 64 + 64, kb * 64 : kb * 64 + 64],
                            dispatch="tma_explicit", mbar=full.ptr_to([fill.stage]),
                        )  # fmt: skip
                        Tx.copy_async(
                            b_smem[fill.stage, :, :], b[0:64, kb * 64 : kb * 64 + 64],
                            dispatch="tma_explicit", mbar=full.ptr_to([fill.stage]),
                        )  # fmt: skip
                        fill.advance()
        else:
            use = PipelineState(2, phase=0)
            acc = T.alloc_local((32,), "float32")
            a_desc = T.alloc_local((1,), "uint64")
            b_desc = T.alloc_local((1,), "uint64")
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a_desc[0]), a_smem.ptr_to([0, 0, 0]), 1, 64, 3)
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(b_desc[0]), b_smem.ptr_to([0, 0, 0]), 1, 64, 3)
            for kb in T.serial(k // 64):
                offset = T.meta_var(T.cast(use.stage * (64 * 64 * 2 // 16), "uint64"))
                full.wait(use.stage, use.phase)
                T.ptx["wgmma.fence.sync.aligned"]()
                multiply(acc, a_desc[0] + offset, b_desc[0] + offset, kb != 0)
                T.ptx["wgmma.commit_group.sync.aligned"]()
                if faulty:
                    empty.arrive(use.stage)
                T.ptx["wgmma.wait_group.sync.aligned"](0)
                if not faulty:
                    empty.arrive(use.stage)
                use.advance()
            write_product(c, acc, block * 64, warp, lane)

    return product


KERNEL = Kernel(name="sync_stage_released_early", build=build, **parts.PRODUCT, tunables={"faulty": True})
