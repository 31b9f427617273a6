"""Tensor copies of every rank, with every swizzle, clipped and filled; bulk copies of bytes; multicast."""

import math

from conformance.suite import case, words

G2S = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
S2G = "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group"


def _parts(dims, box, swizzle):
    """The arguments of a tensor map of uint32 values: dimensions from the innermost."""
    strides = [4 * math.prod(dims[: i + 1]) for i in range(len(dims) - 1)]
    return [*dims, *strides, *box, *[1] * len(dims), 0, swizzle, 0, 0]


def _load(name, dims, box, at, swizzle=0):
    size, total, rank = math.prod(dims), math.prod(box), len(dims)

    @case(name, {"inp": words(size, 20)}, {"out": ((total,), "uint32")})
    def build():
        from tvm.script import tirx as T

        described = _parts(dims, box, swizzle)

        @T.prim_func
        def kernel(inp: T.Buffer((size,), "uint32"), out: T.Buffer((total,), "uint32")):
            tensor_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed("runtime.cuTensorMapEncodeTiled", tensor_map, "uint32", rank, inp.data, *described)
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            full = pool.alloc((1,), "uint64", align=8)
            pool.move_base_to(1024)
            tile = pool.alloc((total,), "uint32")
            pool.commit()
            if lane == 0:
                T.ptx["mbarrier.init.shared.b64"](full.ptr_to([0]), T.uint32(1))
                T.ptx["fence.mbarrier_init.release.cluster"]()
            T.cuda.cta_sync()
            if lane == 0:
                T.ptx["mbarrier.arrive.expect_tx.shared.b64"](full.ptr_to([0]), T.uint32(total * 4))
                T.ptx[G2S.format(rank)](tile.ptr_to([0]), T.address_of(tensor_map), *at, full.ptr_to([0]))
            T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
            for i in T.serial(total // 32):
                out[i * 32 + lane] = tile[i * 32 + lane]

        return kernel


def _store(name, dims, box, at, swizzle=0):
    size, total, rank = math.prod(dims), math.prod(box), len(dims)

    @case(name, {"inp": words(total, 21)}, {"out": ((size,), "uint32")})
    def build():
        from tvm.script import tirx as T

        described = _parts(dims, box, swizzle)

        @T.prim_func
        def kernel(inp: T.Buffer((total,), "uint32"), out: T.Buffer((size,), "uint32")):
            tensor_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
            T.call_packed("runtime.cuTensorMapEncodeTiled", tensor_map, "uint32", rank, out.data, *described)
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            pool.move_base_to(1024)
            tile = pool.alloc((total,), "uint32")
            pool.commit()
            for i in T.serial(total // 32):
                tile[i * 32 + lane] = inp[i * 32 + lane]
            T.ptx["fence.proxy.async.shared::cta"]()
            T.cuda.cta_sync()
            if lane == 0:
                T.ptx[S2G.format(rank)](T.address_of(tensor_map), *at, tile.ptr_to([0]))
                T.ptx["cp.async.bulk.commit_group"]()
                T.ptx["cp.async.bulk.wait_group"](0)

        return kernel


SHAPES = {
    1: ((96,), (32,)), 2: ((40, 12), (16, 4)), 3: ((16, 6, 5), (8, 4, 2)), 4: ((8, 5, 4, 3), (8, 2, 2, 2)),
    5: ((8, 4, 3, 3, 3), (4, 2, 2, 2, 2)),
}  # fmt: skip
for rank, (dims, box) in SHAPES.items():
    for name, make in (("load", _load), ("store", _store)):
        make(f"tensor {name}, rank {rank}", dims, box, [4] + [1] * (rank - 1))
        ends = [-4] + [-1] * (rank - 2) + [dims[-1] - 1] if rank > 1 else [dims[0] - 4]
        make(f"tensor {name}, rank {rank}, outside at both ends", dims, box, ends)
        make(f"tensor {name}, rank {rank}, from 4 bytes", dims, box, [1] * rank)
for swizzle, columns in ((1, 8), (2, 16), (3, 32)):
    _load(f"tensor load, {columns * 4}-byte swizzle", (64, 40), (columns, 32), [8, 3], swizzle)
    _store(f"tensor store, {columns * 4}-byte swizzle", (64, 40), (columns, 32), [8, 3], swizzle)
_load("tensor load, 128-byte swizzle, clipped", (48, 20), (32, 16), [24, 11], 3)
_store("tensor store, 128-byte swizzle, clipped", (48, 20), (32, 16), [24, 11], 3)


@case("bulk copy there and back", {"inp": words(256, 22)}, {"out": ((256,), "uint32")})
def bulk():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((256,), "uint32"), out: T.Buffer((256,), "uint32")):
        T.device_entry()
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = pool.alloc((1,), "uint64", align=8)
        pool.move_base_to(1024)
        tile = pool.alloc((256,), "uint32")
        pool.commit()
        if lane == 0:
            T.ptx["mbarrier.init.shared.b64"](full.ptr_to([0]), T.uint32(1))
            T.ptx["fence.mbarrier_init.release.cluster"]()
        T.cuda.cta_sync()
        if lane == 0:
            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](full.ptr_to([0]), T.uint32(1024))
            T.ptx["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"](
                tile.ptr_to([0]), T.address_of(inp[0]), T.uint32(1024), full.ptr_to([0])
            )
        T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
        for i in T.serial(8):
            tile[i * 32 + lane] = tile[i * 32 + lane] + T.uint32(1)
        T.ptx["fence.proxy.async.shared::cta"]()
        T.cuda.cta_sync()
        if lane == 0:
            T.ptx["cp.async.bulk.global.shared::cta.bulk_group"](T.address_of(out[0]), tile.ptr_to([0]), T.uint32(1024))
            T.ptx["cp.async.bulk.commit_group"]()
            T.ptx["cp.async.bulk.wait_group.read"](0)
            T.ptx["cp.async.bulk.wait_group"](0)

    return kernel


@case("multicast to both blocks", {"inp": words(128, 23)}, {"out": ((2, 64), "uint32")})
def multicast():
    from tvm.script import tirx as T

    described = _parts((32, 4), (32, 2), 0)

    @T.prim_func
    def kernel(inp: T.Buffer((128,), "uint32"), out: T.Buffer((2, 64), "uint32")):
        tensor_map: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
        T.call_packed("runtime.cuTensorMapEncodeTiled", tensor_map, "uint32", 2, inp.data, *described)
        T.device_entry()
        block, _ = T.cta_id_in_cluster([2, 1])
        _grid = T.cta_id([2])
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = pool.alloc((1,), "uint64", align=8)
        pool.move_base_to(1024)
        tile = pool.alloc((64,), "uint32")
        pool.commit()
        if lane == 0:
            T.ptx["mbarrier.init.shared.b64"](full.ptr_to([0]), T.uint32(1))
            T.ptx["fence.mbarrier_init.release.cluster"]()
            T.ptx["mbarrier.arrive.expect_tx.shared.b64"](full.ptr_to([0]), T.uint32(256))
        T.cuda.cluster_sync()
        if (lane == 0) & (block == 1):
            T.ptx["cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"](
                tile.ptr_to([0]), T.address_of(tensor_map), 0, 1, full.ptr_to([0]), T.uint16(3)
            )
        T.cuda.mbarrier_wait(full.ptr_to([0]), 0)
        for i in T.serial(2):
            out[block, i * 32 + lane] = tile[i * 32 + lane]
        T.cuda.cluster_sync()

    return kernel
