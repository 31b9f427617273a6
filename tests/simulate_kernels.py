"""Small kernels with one thing wrong, and their right twins, for the tests of the simulator."""

import numpy as np
from conformance.suite import Case

VALUES = np.arange(64, dtype=np.float32)
OUT = {"out": ((64,), "float32")}


def lanes_exchange(synced):
    """Lane i reads what lane 31 - i wrote."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            warp = T.warp_id([2])
            lane = T.lane_id([32])
            word = T.alloc_buffer((64,), "float32", scope="shared")
            word[warp * 32 + lane] = inp[warp * 32 + lane]
            if synced:
                T.cuda.warp_sync()
            out[warp * 32 + lane] = word[warp * 32 + 31 - lane]

        return kernel

    return Case("lanes", build, {"inp": VALUES}, OUT)


def one_lane_waits(all_wait):
    """A copy fills shared memory; all lanes read it, and one or all of them have waited for it."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            full = pool.alloc((1,), "uint64", align=8)
            pool.move_base_to(1024)
            tile = pool.alloc((64,), "float32")
            pool.commit()
            if lane == 0:
                T.ptx["mbarrier.init.shared.b64"](full.ptr_to([0]), T.uint32(1))
                T.ptx["fence.mbarrier_init.release.cluster"]()
                T.ptx["mbarrier.arrive.expect_tx.shared.b64"](full.ptr_to([0]), T.uint32(256))
                T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                    tile.ptr_to([0]), T.address_of(inp[0]), T.uint32(256), full.ptr_to([0])
                )
                T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
            if all_wait:
                T.cuda.cta_sync()
            for i in T.serial(2):
                out[i * 32 + lane] = tile[i * 32 + lane]

        return kernel

    return Case("one lane", build, {"inp": VALUES}, OUT)


def blocks_share(atomic):
    """Two blocks add to one place."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            _block = T.cta_id([2])
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            if atomic:
                T.evaluate(T.cuda.atomic_add(T.address_of(out[lane]), inp[lane]))
            else:
                out[lane] = out[lane] + inp[lane]

        return kernel

    return Case("blocks", build, {"inp": VALUES}, OUT)


def ticket(fenced):
    """The block that comes last, by an atomic, reads what the others announced."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(
            inp: T.Buffer((64,), "float32"), count: T.Buffer((1,), "int32"), part: T.Buffer((2, 32), "float32"),
            out: T.Buffer((64,), "float32"),
        ):  # fmt: skip
            T.device_entry()
            block = T.cta_id([2])
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            last = T.alloc_buffer((1,), "int32", scope="shared")
            part[block, lane] = inp[block * 32 + lane]
            T.cuda.cta_sync()
            if lane == 0:
                if fenced:
                    T.ptx["fence.acq_rel.gpu"]()
                last[0] = T.cuda.atomic_add(T.address_of(count[0]), T.int32(1))
            T.cuda.cta_sync()
            if last[0] == 1:
                out[lane] = part[0, lane] + part[1, lane]

        return kernel

    outputs = {**OUT, "part": ((2, 32), "float32")}
    return Case("ticket", build, {"inp": VALUES, "count": np.zeros(1, np.int32)}, outputs)


def outside(by):
    """A load and a store beyond the end of a tensor."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            _warp = T.warp_id([2])
            lane = T.lane_id([32])
            out[_warp * 32 + lane] = inp[_warp * 32 + lane + by]

        return kernel

    return Case("outside", build, {"inp": VALUES}, OUT)


def waits_for_nobody():
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            warp = T.warp_id([2])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            gate = pool.alloc((1,), "uint64", align=8)
            pool.commit()
            if (warp == 0) & (lane == 0):
                T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(2))
            T.cuda.cta_sync()
            if warp == 0:
                if lane == 0:
                    T.ptx["mbarrier.arrive.shared.b64"](gate.ptr_to([0]))
            else:
                T.cuda.mbarrier_wait(gate.ptr_to([0]), 0)
            out[warp * 32 + lane] = inp[warp * 32 + lane]

        return kernel

    return Case("nobody", build, {"inp": VALUES}, OUT)


def unknown():
    """An instruction that the simulator does not have."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            _warp = T.warp_id([2])
            lane = T.lane_id([32])
            T.ptx["discard.global.L2"](T.address_of(out[0]))
            out[_warp * 32 + lane] = inp[_warp * 32 + lane]

        return kernel

    return Case("unknown", build, {"inp": VALUES}, OUT)


def element_copies(waits, synced):
    """Every thread copies its word by cp.async, and reads its neighbour's."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            warp = T.warp_id([2])
            lane = T.lane_id([32])
            word = T.alloc_buffer((64,), "float32", scope="shared")
            T.ptx["cp.async.ca.shared.global"](T.address_of(word[warp * 32 + lane]), T.address_of(inp[warp * 32 + lane]), 4)
            T.ptx["cp.async.commit_group"]()
            if waits:
                T.ptx["cp.async.wait_group"](0)
            if synced:
                T.cuda.cta_sync()
            out[warp * 32 + lane] = word[warp * 32 + (lane ^ 1)]

        return kernel

    return Case("element copies", build, {"inp": VALUES}, OUT)


def fenced_by_another():
    """All lanes write; behind a barrier one of them fences, for all, and a bulk store reads what they wrote."""

    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
            T.device_entry()
            warp = T.warp_id([2])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            tile = pool.alloc((64,), "float32", align=128)
            pool.commit()
            tile[warp * 32 + lane] = inp[warp * 32 + lane]
            T.cuda.cta_sync()
            if (warp == 0) & (lane == 0):
                T.ptx["fence.proxy.async.shared::cta"]()
                T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](T.address_of(out[0]), tile.ptr_to([0]), T.uint32(256))
                T.ptx["cp.async.bulk.commit_group"]()
                T.ptx["cp.async.bulk.wait_group"](0)

        return kernel

    return Case("fenced by another", build, {"inp": VALUES}, OUT)
