# mypy: ignore-errors
# (TVM parses the kernel below; it is not typed Python.)
"""The Hopper GEMM that the sm_90a reference kernels share: persistent, warp-specialised TMA + wgmma.

One warp is the producer: it fills a ring of shared-memory stages by TMA. Two consumer warpgroups run wgmma on 64 rows
each of a 128 x bn tile, and write it out through shared memory by TMA stores. This is the design of CUTLASS's
cooperative kernel and of DeepGEMM. tvm is imported inside the functions only.
"""

from __future__ import annotations

from typing import Any

from tirx_bench.model import Constraint, Tile

CONSUMERS = 2  # warpgroups; 64 rows each, the M of every wgmma
BM = 64 * CONSUMERS
BK = 64  # columns of a stage: one row of the 128-byte swizzle in 16-bit values
CHUNK = 64  # columns of one TMA store: again one swizzle row
REGISTERS = (40, 232)  # producer, consumer: 128 * 40 + 256 * 232 = 384 * 168, what launch bounds (384, 1) leave

TUNABLES = {"bn": 256, "stages": 4, "group": 8, "sms": 132}
# Two blocks visit six tiles with tails on all sides; six stages' worth of K wrap a ring of four.
SMALL = {"m": 200, "n": 520, "k": 328, "sms": 2}
CONSTRAINTS = (
    Constraint("min(m, n, k) >= 1", "an empty matrix has no TMA descriptor"),
    Constraint("k % 8 == 0", "the row pitch of A and B, for TMA a multiple of 16 bytes"),
    Constraint("n % 8 == 0", "the row pitch of C, for TMA a multiple of 16 bytes"),
    Constraint("dtype == 'bfloat16' or dtype == 'float16'", "wgmma of 16-bit inputs with FP32 accumulators"),
    Constraint("64 <= bn <= 256 and bn % 64 == 0", "wgmma takes N up to 256, and a TMA store takes 64 columns"),
    Constraint("stages >= 2", "the consumers hold one stage while the producer fills another"),
    Constraint("group >= 1 and sms >= 1", "the scheduler's group of tile rows and number of blocks"),
    Constraint(
        "1024 + 128 * stages * (128 + bn) + 16384 * (bn // 64 if bn // 64 % 2 else 2) <= 232448",
        "barriers, stages of A and B, and staging of C fit the 227 KiB of a block",
    ),
)


def tiles(bn: int) -> dict[str, tuple[Tile, ...]]:
    """Who writes what of C: a block a tile, and each consumer warpgroup 64 rows of it, 64 columns at a time."""
    return {"c": (Tile("tile", (BM, bn)), Tile("consumer warpgroup", (64, bn)), Tile("store", (64, CHUNK)))}


def staging_slots(bn: int) -> int:
    """Staging buffers per consumer: the number of stores of a tile is a multiple of it.

    So chunk j of every tile lands in slot j % slots, and `wait_group.read(slots - 1)` frees exactly that slot, across
    tiles too. Two slots with an odd number of chunks would reuse the slot of the store still in flight.
    """
    chunks = bn // CHUNK
    return 2 if chunks % 2 == 0 else chunks


def gemm(m: int, n: int, k: int, dtype: str, relu: bool, bn: int, stages: int, group: int, sms: int) -> Any:
    """The PrimFunc of C = A @ B.T or relu(A @ B.T): a (m, k), b (n, k), c (m, n), row-major, FP32 accumulation.

    `dtype` is bfloat16 or float16. min(`sms`, tiles) blocks visit tiles of 128 x `bn` in groups of `group` tile rows,
    for reuse in L2. TMA reads zeros outside of A and B and writes nothing outside of C, so m, n and k need not be
    multiples of the tile. The parameters must satisfy CONSTRAINTS; nothing is checked here.
    """
    from tvm.backend.cuda.lang.pipeline import MBarrier, PipelineState, TMABar
    from tvm.backend.cuda.lang.tile_scheduler import ClusterPersistentScheduler2D
    from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx
    from tvm.tirx.cuda.iket import IketProfiler

    def swizzled(*shape):
        return mma_shared_layout(dtype, SwizzleMode.SWIZZLE_128B_ATOM, shape)

    tiles_m, tiles_n, k_blocks = -(-m // BM), -(-n // bn), -(-k // BK)
    blocks = min(sms, tiles_m * tiles_n)
    slots = staging_slots(bn)
    ptx_type = {"bfloat16": "bf16", "float16": "f16"}[dtype]
    wgmma = T.ptx[f"wgmma.mma_async.sync.aligned.m64n{bn}k16.f32.{ptx_type}.{ptx_type}"]
    convert = T.ptx[f"cvt.rn.{'relu.' if relu else ''}{ptx_type}x2.f32"]
    # wgmma descriptors count in units of 16 bytes.
    a_stage, b_stage, a_consumer = BM * BK * 2 // 16, bn * BK * 2 // 16, 64 * BK * 2 // 16

    @T.prim_func
    def gemm(a: T.Buffer((m, k), dtype), b: T.Buffer((n, k), dtype), c: T.Buffer((m, n), dtype)):
        T.device_entry()
        T.attr({"tirx.launch_bounds_min_blocks_per_sm": 1})  # without a known cap, ptxas may ignore setmaxnreg
        iket = IketProfiler()
        block = T.cta_id([blocks])
        warpgroup = T.warpgroup_id([1 + CONSUMERS])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])

        # Shared memory comes from the pool only: a static array would shift it, and the swizzle needs 1024-byte steps.
        pool = T.SMEMPool()
        full = TMABar(pool, stages)
        empty = MBarrier(pool, stages)
        pool.move_base_to(1024)
        a_smem = pool.alloc((stages, BM, BK), dtype, layout=swizzled(stages, BM, BK))
        b_smem = pool.alloc((stages, bn, BK), dtype, layout=swizzled(stages, bn, BK))
        c_smem = pool.alloc((CONSUMERS, slots, 64, CHUNK), dtype, layout=swizzled(CONSUMERS, slots, 64, CHUNK))
        full.init(1)
        empty.init(CONSUMERS)
        pool.commit()
        T.ptx["fence.mbarrier_init.release.cluster"]()
        T.ptx["fence.proxy.async.shared::cta"]()
        T.cuda.cta_sync()

        tile = ClusterPersistentScheduler2D(
            "tile", num_m_tiles=tiles_m, num_n_tiles=tiles_n, num_clusters=blocks, l2_group_size=group
        )
        tile.init(block)
        row = T.meta_var(tile.m_idx * BM)
        column = T.meta_var(tile.n_idx * bn)

        if warpgroup == 0:
            T.ptx["setmaxnreg.dec.sync.aligned.u32"](REGISTERS[0])
            if warp == 0:
                fill = PipelineState(stages, phase=1)  # the ring starts empty: the first waits pass
                if T.filter(lane, T.cuda.elect_sync()):
                    while tile.valid():
                        iket.range_push("load")
                        for kb in T.serial(k_blocks):
                            empty.wait(fill.stage, fill.phase)
                            full.arrive(fill.stage, (BM + bn) * BK * 2)
                            Tx.copy_async(
                                a_smem[fill.stage, :, :], a[row : row + BM, kb * BK : kb * BK + BK],
                                dispatch="tma_explicit", mbar=full.ptr_to([fill.stage]),
                            )  # fmt: skip
                            Tx.copy_async(
                                b_smem[fill.stage, :, :], b[column : column + bn, kb * BK : kb * BK + BK],
                                dispatch="tma_explicit", mbar=full.ptr_to([fill.stage]),
                            )  # fmt: skip
                            fill.advance()
                        iket.range_pop()
                        tile.next_tile()
        else:
            T.ptx["setmaxnreg.inc.sync.aligned.u32"](REGISTERS[1])
            consumer = T.meta_var(warpgroup - 1)
            leader = T.meta_var((warp == 0) & (lane == 0))
            use = PipelineState(stages, phase=0)
            done = PipelineState(stages, phase=0)  # one stage behind: its wgmma have read it
            accumulators = T.alloc_local((bn // 2,), "float32")
            words = T.alloc_local((CHUNK // 4,), "uint32")
            a_desc = T.alloc_local((1,), "uint64")
            b_desc = T.alloc_local((1,), "uint64")
            # 128-byte swizzle (3), 64 * 16 bytes from one group of 8 rows to the next; the leading offset is not used.
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a_desc[0]), a_smem.ptr_to([0, 0, 0]), 1, 64, 3)
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(b_desc[0]), b_smem.ptr_to([0, 0, 0]), 1, 64, 3)
            a_desc[0] = a_desc[0] + T.cast(consumer * a_consumer, "uint64")

            @T.inline
            def release():
                if leader:
                    empty.arrive(done.stage)
                done.advance()

            @T.inline
            def multiply():
                for kb in T.serial(k_blocks):
                    full.wait(use.stage, use.phase)
                    T.ptx["wgmma.fence.sync.aligned"]()
                    for step in T.unroll(BK // 16):
                        wgmma(
                            *[accumulators[i] for i in range(bn // 2)],
                            a_desc[0] + T.cast(use.stage * a_stage + step * 2, "uint64"),
                            b_desc[0] + T.cast(use.stage * b_stage + step * 2, "uint64"),
                            T.Or(kb != 0, step != 0), 1, 1, 0, 0,
                        )  # fmt: skip
                    T.ptx["wgmma.commit_group.sync.aligned"]()
                    use.advance()
                    T.ptx["wgmma.wait_group.sync.aligned"](1)
                    if kb >= 1:
                        release()
                T.ptx["wgmma.wait_group.sync.aligned"](0)
                release()

            @T.inline
            def store():
                # A thread holds two neighbouring columns of rows r and r + 8 in every group of 8 columns (PTX ISA,
                # "Register Fragments for wgmma.mma_async.m64nNk16"): the fragment that stmatrix writes.
                for j in T.unroll(bn // CHUNK):
                    for i in T.unroll(CHUNK // 4):
                        convert(words[i], accumulators[j * 32 + 2 * i + 1], accumulators[j * 32 + 2 * i])
                    if leader:
                        T.ptx["cp.async.bulk.wait_group.read"](slots - 1)
                    T.cuda.warpgroup_sync(consumer + 1)
                    for q in T.unroll(CHUNK // 16):
                        T.ptx["stmatrix.sync.aligned.m8n8.x4.shared.b16"](
                            c_smem.ptr_to([consumer, j % slots, warp * 16 + lane % 16, q * 16 + lane // 16 * 8]),
                            *[words[4 * q + i] for i in range(4)],
                        )
                    T.ptx["fence.proxy.async.shared::cta"]()
                    T.cuda.warpgroup_sync(consumer + 1)
                    if leader:
                        top = T.meta_var(row + consumer * 64)
                        left = T.meta_var(column + j * CHUNK)
                        Tx.copy_async(
                            c[top : top + 64, left : left + CHUNK], c_smem[consumer, j % slots, :, :],
                            dispatch="tma_explicit",
                        )  # fmt: skip
                        T.ptx["cp.async.bulk.commit_group"]()

            while tile.valid():
                iket.range_push("multiply")
                multiply()
                iket.range_pop()
                iket.range_push("store")
                store()
                iket.range_pop()
                tile.next_tile()
            if leader:
                T.ptx["cp.async.bulk.wait_group"](0)

    return gemm.with_attr("global_symbol", "gemm_relu" if relu else "gemm")
