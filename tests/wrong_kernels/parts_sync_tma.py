"""What the kernels of synchronisation and TMA faults share: their problems, and statements that are right in all of them.

The functions that return `@T.inline` statements import tvm when a build calls them, as a kernel file's own build does.
"""

from tirx_bench import Tolerance, Workload

ARCHS = ("sm_90a",)
TILE = (32, 64)  # FP32 elements of one stage of a ring, 8 KiB
WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"

# The rest of a Kernel(...), for a build of its own.
# out = 2 * inp + 1, where inp has `m` rows of 64 FP32
AFFINE = {
    "archs": ARCHS,
    "workloads": (Workload("small", {"m": 2048}),),
    "inputs": lambda m, rng: {"inp": rng.normal((m, 64), "float32")},
    "outputs": lambda m: {"out": ((m, 64), "float32")},
    "reference": lambda inp: {"out": inp * 2 + 1},
    "tolerance": Tolerance(rtol=0, atol=0),
    "work": None,
}
# out = x + y, of the same shape
SUM = {
    **AFFINE,
    "inputs": lambda m, rng: {"x": rng.normal((m, 64), "float32"), "y": rng.normal((m, 64), "float32")},
    "reference": lambda x, y: {"out": x + y},
}
# out = the sum of each two tiles that follow each other
PAIRS = {
    **AFFINE,
    "outputs": lambda m: {"out": ((m // 2, 64), "float32")},
    "reference": lambda inp: {"out": inp.reshape(-1, 2, TILE[0] * TILE[1]).sum(1).reshape(-1, 64)},
}
# out = inp.T in FP32
TRANSPOSE = {
    "archs": ARCHS,
    "workloads": (Workload("small", {"m": 256, "n": 512}),),
    "inputs": lambda m, n, rng: {"inp": rng.normal((m, n), "float32")},
    "outputs": lambda m, n: {"out": ((n, m), "float32")},
    "reference": lambda inp: {"out": inp.T},
    "tolerance": Tolerance(rtol=0, atol=0),
    "work": None,
}
# c = a @ b.T: a (m, k) and b (64, k) in bf16, c (m, 64) in FP32
PRODUCT = {
    "archs": ARCHS,
    "workloads": (Workload("small", {"m": 256, "k": 512}),),
    "inputs": lambda m, k, rng: {"a": rng.normal((m, k), "bfloat16"), "b": rng.normal((64, k), "bfloat16")},
    "outputs": lambda m: {"c": ((m, 64), "float32")},
    "reference": lambda a, b: {"c": a @ b.T},
    "tolerance": lambda k: Tolerance(rtol=1e-4, atol=k * 2**-16),
    "work": None,
}


def swizzled(*shape, dtype="bfloat16"):
    """The layout of a shared buffer that TMA and wgmma see with the 128-byte swizzle."""
    from tvm.backend.cuda.tile_primitive.tma_utils import SwizzleMode, mma_shared_layout

    return mma_shared_layout(dtype, SwizzleMode.SWIZZLE_128B_ATOM, shape)


def encode():
    """A statement before `T.device_entry()`: make a tensor map by hand.

    `pitch` is in bytes; `swizzle` is 0 for none, then 32, 64 and 128 bytes.
    """
    from tvm.script import tirx as T

    @T.inline
    def statement(tensor_map, data, columns, rows, pitch, box_columns, box_rows, swizzle):
        T.tensormap_encode_tiled(
            tensor_map, data.data, columns, rows, pitch, box_columns, box_rows, 1, 1,
            descriptor_dtype=data.dtype, rank=2, interleave=0, swizzle=swizzle, l2_promotion=2, oob_fill=0, force_cu_dtype=-1,
        )  # fmt: skip

    return statement


def publish():
    """A statement: mbarriers that were initialised are seen by TMA and, from here on, by every thread of the block."""
    from tvm.script import tirx as T

    @T.inline
    def statement():
        T.ptx["fence.mbarrier_init.release.cluster"]()
        T.ptx["fence.proxy.async.shared::cta"]()
        T.cuda.cta_sync()

    return statement


def remote():
    """A statement: `value[0]` becomes what block `rank` of the cluster holds at `pointer` into its shared memory."""
    from tvm.script import tirx as T

    @T.inline
    def statement(value, pointer, rank):
        address = T.alloc_local((1,), "uint32")
        T.ptx.mapa.shared__cluster.u32(address[0], T.cuda.cvta_generic_to_shared(pointer), T.cast(rank, "uint32"))
        T.ptx["ld.shared::cluster.f32"](value[0], address[0])

    return statement


def affine_tile():
    """A statement: 128 threads write 2 * x + 1 of the TILE in slot `slot` of `tiles` to the rows of `out` from `row`."""
    from tvm.script import tirx as T

    @T.inline
    def statement(out, tiles, slot, row, thread):
        for i in T.unroll(TILE[0] // 2):
            line = T.meta_var(i * 2 + thread // 64)
            out[row + line, thread % 64] = tiles[slot, line, thread % 64] * T.float32(2) + T.float32(1)

    return statement


def multiply():
    """A statement: issue the four m64n64k16 of one block of 64 columns; the first of all overwrites `acc` if `keep` is false."""
    from tvm.script import tirx as T

    wgmma = T.ptx[WGMMA]

    @T.inline
    def statement(acc, a_desc, b_desc, keep):
        for step in T.unroll(4):
            wgmma(
                *[acc[i] for i in range(32)],
                a_desc + T.cast(step * 2, "uint64"), b_desc + T.cast(step * 2, "uint64"),
                T.Or(keep, step != 0), 1, 1, 0, 0,
            )  # fmt: skip

    return statement


def write_product():
    """A statement: 128 threads write the accumulators of one m64n64 to the rows of `c` from `row`."""
    from tvm.script import tirx as T

    @T.inline
    def statement(c, acc, row, warp, lane):
        for j in T.unroll(8):
            for i in T.unroll(4):
                c[row + warp * 16 + lane // 4 + i // 2 * 8, j * 8 + lane % 4 * 2 + i % 2] = acc[j * 4 + i]

    return statement
