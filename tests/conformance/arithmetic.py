# ruff: noqa: F821 (in TVM's script, an annotation declares a register)
"""Registers: conversions with their special values, integers at their limits, floats, loops and branches of lanes."""

import numpy as np
from conformance.suite import case, words

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.00390625, 1.01171875, -1.00390625, 3.3895314e38, 3.4e38, -3.4e38, 65504.0, 65520.0, 65535.0, 1e-40,
     -1e-40, 1e-45, 6.1e-5, 5.9604645e-08, 2.98e-08, 2.9e-08, np.inf, -np.inf, np.nan, -np.nan, 0.1, -0.3, 1e10, -7e-6, 2.5, 3.5,
     -2.5, 1e-8],
    np.float32,
)  # fmt: skip


def _pack(name):
    @case(name, {"a": SPECIAL, "b": SPECIAL[::-1].copy()}, {"out": ((32,), "uint32")})
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32"), out: T.Buffer((32,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            word: T.uint32
            T.ptx[name](word, a[lane], b[lane])
            out[lane] = word

        return kernel


for pair in ("bf16x2", "f16x2"):
    for how in ("rn", "rn.relu", "rz", "rz.relu", "rn.satfinite"):
        _pack(f"cvt.{how}.{pair}.f32")


def _elementwise(name, inputs, source, target, expression, count=32):
    @case(name, inputs, {"out": ((count,), target)})
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(inp: T.Buffer((count,), source), out: T.Buffer((count,), target)):
            T.device_entry()
            _warp = T.warp_id([count // 32])
            lane = T.lane_id([32])
            out[_warp * 32 + lane] = expression(T, inp[_warp * 32 + lane])

        return kernel


WIDE = np.concatenate([words(28, 3), np.array([0, 1, 0x7FFFFFFF, 0x80000000], np.uint32)]).view(np.int32)
for label, expression in {
    "add wraps": lambda T, x: x + 0x12345678,
    "mul wraps": lambda T, x: x * 48271,
    "shift left": lambda T, x: x << 5,
    "shift right is arithmetic": lambda T, x: x >> 3,
    "truncated division": lambda T, x: T.truncdiv(x, 7),
    "truncated remainder": lambda T, x: T.truncmod(x, 7),
    "floor division": lambda T, x: T.floordiv(x, 7),
    "floor remainder": lambda T, x: T.floormod(x, 7),
    "bits": lambda T, x: (x & 0xFF0F) ^ (x | 0x1234),
    "min and max": lambda T, x: T.max(T.min(x, 1000), -1000),
}.items():
    _elementwise(f"int32 {label}", {"inp": WIDE}, "int32", "int32", expression)
_elementwise("uint32 add wraps", {"inp": words(32, 4)}, "uint32", "uint32", lambda T, x: x + T.uint32(0xF0000000))
_elementwise("uint32 to float32", {"inp": words(32, 5)}, "uint32", "float32", lambda T, x: T.cast(x, "float32"))
_elementwise("int32 to float32", {"inp": WIDE}, "int32", "float32", lambda T, x: T.cast(x, "float32"))
SAFE = np.where(np.isnan(SPECIAL), np.float32(1), SPECIAL)
_elementwise("float32 to int32 truncates", {"inp": SAFE}, "float32", "int32", lambda T, x: T.cast(x, "int32"))
_elementwise("float32 to float16", {"inp": SAFE}, "float32", "float16", lambda T, x: T.cast(x, "float16"))
_elementwise("float32 to bfloat16", {"inp": SAFE}, "float32", "bfloat16", lambda T, x: T.cast(x, "bfloat16"))
_elementwise("float32 add", {"inp": SAFE}, "float32", "float32", lambda T, x: x + T.float32(1.5))
_elementwise("float32 division", {"inp": SAFE}, "float32", "float32", lambda T, x: x / T.float32(3))
_elementwise("select", {"inp": SAFE}, "float32", "float32", lambda T, x: T.Select(x > T.float32(0), x, T.float32(2)))


@case("branches and loops of lanes", {"inp": words(64, 6).view(np.int32) & 0xFFFFF}, {"out": ((64,), "int32")})
def lanes():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((64,), "int32"), out: T.Buffer((64,), "int32")):
        T.device_entry()
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        rest = T.alloc_local((1,), "int32")
        steps = T.alloc_local((1,), "int32")
        rest[0] = inp[warp * 32 + lane]
        steps[0] = 0
        while rest[0] > 0:
            if rest[0] % 2 == 1:
                steps[0] = steps[0] + 1
            rest[0] = rest[0] // 2
        if lane < 8:
            steps[0] = steps[0] + 100
        for i in T.serial(lane % 5):
            steps[0] = steps[0] * 3 + i
        out[warp * 32 + lane] = steps[0]

    return kernel
