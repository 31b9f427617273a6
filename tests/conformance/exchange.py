# ruff: noqa: F821 (in TVM's script, an annotation declares a register)
"""Between lanes: shfl, vote, redux, elect, match of masks; and atomics."""

import numpy as np
from conformance.suite import case, words

VALUES = words(32, 1)
ONE = {"out": ((32,), "uint32")}


def _shuffle(mode, b, c):
    @case(f"shfl.{mode} {b} clamp {c:#x}", {"inp": VALUES}, ONE)
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((32,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            found: T.uint32
            T.ptx[f"shfl_sync.{mode}.b32"](found, inp[lane], T.uint32(b), T.uint32(c), T.uint32(0xFFFFFFFF))
            out[lane] = found

        return kernel


for mode, b, c in (
    ("up", 1, 0), ("up", 5, 0), ("up", 3, 0x1800), ("down", 1, 0x1F), ("down", 9, 0x1F), ("down", 2, 0x181F),
    ("bfly", 1, 0x1F), ("bfly", 16, 0x1F), ("idx", 7, 0x1F), ("idx", 5, 0x181F),
):  # fmt: skip
    _shuffle(mode, b, c)


def _vote(mode, pattern):
    @case(f"vote.{mode} of {pattern:#x}", {"inp": np.array([pattern >> lane & 1 for lane in range(32)], np.uint32)}, ONE)
    def build():
        from tvm.script import tirx as T

        kind = "b32" if mode == "ballot" else "pred"

        @T.prim_func
        def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((32,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            found: T.uint32
            T.ptx[f"vote_sync.{mode}.{kind}"](found, T.ptx.pred(inp[lane]), T.uint32(0xFFFFFFFF))
            out[lane] = found

        return kernel


for mode in ("all", "any", "uni", "ballot"):
    for pattern in (0, 0xFFFFFFFF, 0x80000100):
        _vote(mode, pattern)


def _redux(operator, kind):
    signed = kind == "s32"

    @case(f"redux.{operator}.{kind}", {"inp": VALUES}, ONE)
    def build():
        from tvm.script import tirx as T

        dtype = "int32" if signed else "uint32"

        @T.prim_func
        def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((32,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            found = T.alloc_local((1,), dtype)
            T.ptx[f"redux_sync.{operator}.{kind}"](found[0], T.cast(inp[lane], dtype), T.uint32(0xFFFFFFFF))
            out[lane] = T.cast(found[0], "uint32")

        return kernel


for operator, kind in (
    ("add", "u32"), ("min", "u32"), ("max", "u32"), ("add", "s32"), ("min", "s32"), ("max", "s32"), ("and", "b32"),
    ("or", "b32"), ("xor", "b32"),
):  # fmt: skip
    _redux(operator, kind)


def _intrinsic(name):
    @case(f"cuda.{name}", {"inp": VALUES}, ONE)
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((32,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            out[lane] = getattr(T.cuda, name)(T.uint32(0xFFFFFFFF), inp[lane], 3, 32)

        return kernel


for name in ("__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync"):
    _intrinsic(name)


@case("elect.sync", {"inp": VALUES}, ONE)
def elect():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((32,), "uint32")):
        T.device_entry()
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        out[lane] = inp[lane]
        if T.cuda.elect_sync():
            out[lane] = T.uint32(lane + 1)

    return kernel


@case("warp_reduce", {"inp": np.arange(32, dtype=np.float32) * np.float32(0.37)}, {"out": ((96,), "float32")})
def warp_reduce():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((32,), "float32"), out: T.Buffer((96,), "float32")):
        T.device_entry()
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        out[lane] = T.cuda.warp_sum(inp[lane])
        out[32 + lane] = T.cuda.warp_max(inp[lane], 8)
        out[64 + lane] = T.cuda.warp_min(inp[lane])

    return kernel


def _atomic(operator, space):
    """Every lane on one of four places; the total does not depend on the order."""

    @case(f"red.{space}.{operator}.u32", {"inp": VALUES}, {"out": ((4,), "uint32")})
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((32,), "uint32"), out: T.Buffer((4,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            places = T.alloc_buffer((4,), "uint32", scope="shared")
            if lane < 4:
                places[lane] = T.uint32(12345)
                out[lane] = T.uint32(54321)
            T.cuda.warp_sync()
            if space == "global":
                T.ptx[f"red.relaxed.gpu.global.{operator}.u32"](T.address_of(out[lane % 4]), inp[lane])
            else:
                T.ptx[f"red.relaxed.cta.shared.{operator}.u32"](T.address_of(places[lane % 4]), inp[lane])
                T.cuda.warp_sync()
                if lane < 4:
                    out[lane] = places[lane]

        return kernel


for operator in ("add", "min", "max"):
    for space in ("global", "shared"):
        _atomic(operator, space)
