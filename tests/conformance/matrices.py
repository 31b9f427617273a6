"""ldmatrix, stmatrix and mma.sync."""

import numpy as np
from conformance.suite import case, numbers, words


def _store(count, trans):
    name = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"

    @case(name, {"inp": words(32 * count, 10)}, {"out": ((32 * count,), "uint32")})
    def build():
        from tvm.script import tirx as T

        total = 32 * count

        @T.prim_func
        def kernel(inp: T.Buffer((total,), "uint32"), out: T.Buffer((total,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            tile = T.alloc_buffer((total,), "uint32", scope="shared")
            held = T.alloc_local((count,), "uint32")
            for i in T.unroll(count):
                held[i] = inp[i * 32 + lane]
            T.ptx[name](T.address_of(tile[lane % (8 * count) * 4]), *[held[i] for i in range(count)])
            T.cuda.warp_sync()
            for i in T.unroll(count):
                out[i * 32 + lane] = tile[i * 32 + lane]

        return kernel


def _load(count, trans):
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"

    @case(name, {"inp": words(32 * count, 11)}, {"out": ((32 * count,), "uint32")})
    def build():
        from tvm.script import tirx as T

        total = 32 * count

        @T.prim_func
        def kernel(inp: T.Buffer((total,), "uint32"), out: T.Buffer((total,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            tile = T.alloc_buffer((total,), "uint32", scope="shared")
            held = T.alloc_local((count,), "uint32")
            for i in T.unroll(count):
                tile[i * 32 + lane] = inp[i * 32 + lane]
            T.cuda.warp_sync()
            T.ptx[name](*[held[i] for i in range(count)], T.address_of(tile[lane % (8 * count) * 4]))
            for i in T.unroll(count):
                out[i * 32 + lane] = held[i]

        return kernel


for count in (1, 2, 4):
    for trans in (False, True):
        _store(count, trans)
        _load(count, trans)


def _multiply(kind, deep):
    dtype = {"bf16": "bfloat16", "f16": "float16"}[kind]
    a_words, b_words = deep // 4, deep // 8

    inputs = {
        "a": numbers(32 * a_words * 2, -8, 9, dtype, 12).view(np.uint32),
        "b": numbers(32 * b_words * 2, -8, 9, dtype, 13).view(np.uint32),
        "c": numbers(128, -100, 100, "float32", 14),
    }

    @case(f"mma.sync m16n8k{deep} {kind}", inputs, {"out": ((128,), "float32")})
    def build():
        from tvm.script import tirx as T

        @T.prim_func
        def kernel(
            a: T.Buffer((32 * a_words,), "uint32"), b: T.Buffer((32 * b_words,), "uint32"), c: T.Buffer((128,), "float32"),
            out: T.Buffer((128,), "float32"),
        ):  # fmt: skip
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            left = T.alloc_local((a_words,), "uint32")
            right = T.alloc_local((b_words,), "uint32")
            total = T.alloc_local((4,), "float32")
            added = T.alloc_local((4,), "float32")
            for i in T.unroll(a_words):
                left[i] = a[i * 32 + lane]
            for i in T.unroll(b_words):
                right[i] = b[i * 32 + lane]
            for i in T.unroll(4):
                added[i] = c[i * 32 + lane]
            T.ptx[f"mma.sync.aligned.m16n8k{deep}.row.col.f32.{kind}.{kind}.f32"](
                *[total[i] for i in range(4)], *[left[i] for i in range(a_words)], *[right[i] for i in range(b_words)],
                *[added[i] for i in range(4)],
            )  # fmt: skip
            for i in T.unroll(4):
                out[i * 32 + lane] = total[i]

        return kernel


for kind in ("bf16", "f16"):
    for deep in (8, 16):
        _multiply(kind, deep)
