# ruff: noqa: F821 (in TVM's script, an annotation declares a register)
"""mbarriers, named barriers and clusters: what the threads see after them."""

import numpy as np
from conformance.suite import case, words

VALUES = words(64, 40)
BOTH = {"out": ((64,), "uint32")}


@case("mbarrier of 33 arrivals, three phases", {"inp": VALUES}, BOTH)
def phases():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        gate = pool.alloc((1,), "uint64", align=8)
        word = pool.alloc((64,), "uint32")
        pool.commit()
        total = T.alloc_local((1,), "uint32")
        if (warp == 0) & (lane == 0):
            T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(33))
        T.cuda.cta_sync()
        total[0] = T.uint32(0)
        for phase in T.serial(3, unroll=False):
            if warp == 0:
                word[lane] = inp[lane] + T.uint32(phase)
                T.ptx["mbarrier.arrive.shared.b64"](gate.ptr_to([0]), T.uint32(1))
            else:
                if lane == 0:
                    T.ptx["mbarrier.arrive.shared.b64"](gate.ptr_to([0]))
                T.cuda.mbarrier_wait(gate.ptr_to([0]), phase % 2)
                total[0] = total[0] * T.uint32(3) + word[lane ^ 1]
            T.cuda.cta_sync()
        out[warp * 32 + lane] = total[0]

    return kernel


@case("mbarrier.test_wait before and after", {"inp": VALUES}, BOTH)
def test_wait():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        gate = pool.alloc((1,), "uint64", align=8)
        pool.commit()
        before: T.uint32
        after: T.uint32
        if (warp == 0) & (lane == 0):
            T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(1))
        T.cuda.cta_sync()
        T.ptx["mbarrier.test_wait.parity.shared.b64"](before, gate.ptr_to([0]), T.uint32(0))
        T.cuda.cta_sync()
        if (warp == 1) & (lane == 5):
            T.ptx["mbarrier.arrive.shared.b64"](gate.ptr_to([0]))
        T.cuda.cta_sync()
        T.ptx["mbarrier.test_wait.parity.shared.b64"](after, gate.ptr_to([0]), T.uint32(0))
        out[warp * 32 + lane] = inp[warp * 32 + lane] + before * T.uint32(2) + after

    return kernel


@case("bar.arrive and bar.sync", {"inp": VALUES}, BOTH)
def arrive():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        word = T.alloc_buffer((32,), "uint32", scope="shared")
        if warp == 0:
            word[lane] = inp[lane]
            T.ptx["bar.arrive"](T.uint32(3), T.uint32(64))
            out[lane] = T.uint32(1)
        else:
            T.ptx["bar.sync"](T.uint32(3), T.uint32(64))
            out[32 + lane] = word[31 - lane]

    return kernel


@case("bar.sync of some and of all", {"inp": VALUES}, BOTH)
def some():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        word = T.alloc_buffer((64,), "uint32", scope="shared")
        word[warp * 32 + lane] = inp[warp * 32 + lane]
        T.ptx["bar.sync"](T.cast(warp + 1, "uint32"), T.uint32(32))
        held = T.alloc_local((1,), "uint32")
        held[0] = word[warp * 32 + 31 - lane]
        T.cuda.warp_sync()
        word[warp * 32 + lane] = held[0] + T.uint32(5)
        T.ptx["bar.sync"](T.uint32(0))
        out[warp * 32 + lane] = word[63 - (warp * 32 + lane)]

    return kernel


@case("shared memory of the other block", {"inp": VALUES}, BOTH)
def cluster():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        block, _ = T.cta_id_in_cluster([2, 1])
        _grid = T.cta_id([2])
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        word = T.alloc_buffer((32,), "uint32", scope="shared")
        address: T.uint32
        found: T.uint32
        word[lane] = inp[block * 32 + lane]
        T.ptx["barrier.cluster.arrive.aligned"]()
        T.ptx["barrier.cluster.wait.aligned"]()
        T.ptx["mapa.shared::cluster.u32"](
            address, T.cuda.cvta_generic_to_shared(T.address_of(word[lane ^ 3])), T.uint32(1) - T.cast(block, "uint32")
        )
        T.ptx["ld.shared::cluster.u32"](found, address)
        out[block * 32 + lane] = found
        T.cuda.cluster_sync()

    return kernel


@case("arrival on the other block's mbarrier", {"inp": VALUES}, BOTH)
def remote():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        block, _ = T.cta_id_in_cluster([2, 1])
        _grid = T.cta_id([2])
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        gate = pool.alloc((1,), "uint64", align=8)
        pool.commit()
        address: T.uint32
        if lane == 0:
            T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(32))
            T.ptx["fence.mbarrier_init.release.cluster"]()
        T.cuda.cluster_sync()
        T.ptx["mapa.shared::cluster.u32"](
            address, T.cuda.cvta_generic_to_shared(gate.ptr_to([0])), T.uint32(1) - T.cast(block, "uint32")
        )
        T.ptx["mbarrier.arrive.shared::cluster.b64"](address)
        T.cuda.mbarrier_wait(gate.ptr_to([0]), 0)
        out[block * 32 + lane] = inp[block * 32 + lane] + T.uint32(7)
        T.cuda.cluster_sync()

    return kernel


@case("named warps keep their registers", {"inp": np.arange(64, dtype=np.uint32)}, BOTH)
def divided():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "uint32"), out: T.Buffer((64,), "uint32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        gate = pool.alloc((1,), "uint64", align=8)
        pool.commit()
        held = T.alloc_local((1,), "uint32")
        if (warp == 0) & (lane == 0):
            T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(2))
        T.cuda.cta_sync()
        held[0] = inp[warp * 32 + lane]
        if lane < 16:
            T.cuda.mbarrier_wait(gate.ptr_to([0]), 0)
            held[0] = held[0] + T.uint32(100)
        else:
            if lane == 16:
                T.ptx["mbarrier.arrive.shared.b64"](gate.ptr_to([0]))
            held[0] = held[0] + T.uint32(200)
        out[warp * 32 + lane] = held[0]

    return kernel
