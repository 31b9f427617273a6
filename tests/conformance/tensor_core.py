"""wgmma: types, shapes, layouts of operands, signs and accumulation. Small integers, so that FP32 sums are exact."""

import numpy as np
from conformance.suite import case, numbers

KINDS = {"bf16": "bfloat16", "f16": "float16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
DEPTH = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}
B_START = 16384  # bytes behind the beginning of A


def _memory(kind):
    values = numbers(49152 // np.dtype(KINDS[kind] if kind in ("f16", "tf32") else "uint8").itemsize, -3, 4, "float32", 30)
    import ml_dtypes

    dtype = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}.get(kind)
    size = DEPTH_BYTES // DEPTH[kind]
    return values[: 49152 // size].astype(dtype or KINDS[kind]).view(np.uint32)


DEPTH_BYTES = 32  # of K in one instruction


def _wgmma(name, n=64, kind="bf16", a=(1, 64, 3), b=(1, 64, 3), major=(0, 0), signs=(1, 1), steps=1, keep=False, half=False,
           from_registers=False):  # fmt: skip
    """`a` and `b` are leading offset, stride and swizzle of their descriptors; `steps` instructions on neighbouring columns."""
    words = n // 4 if half else n // 2
    total = 128 * words
    result = "uint32" if half else "float32"
    inputs = {"inp": _memory(kind), "start": numbers(total * (2 if half else 1), -9, 9, "float16" if half else "float32", 31)}
    if half:
        inputs["start"] = inputs["start"].view(np.uint32)

    @case(f"wgmma {name}", inputs, {"out": ((total,), result)})
    def build():
        from tvm.script import tirx as T

        out_kind = "f16" if half else "f32"
        text = f"wgmma.mma_async.sync.aligned.m64n{n}k{DEPTH[kind]}.{out_kind}.{kind}.{kind}"
        transposed = ([major[1]] if from_registers else list(major)) if kind in ("bf16", "f16") else []

        @T.prim_func
        def kernel(inp: T.Buffer((12288,), "uint32"), start: T.Buffer((total,), result), out: T.Buffer((total,), result)):
            T.device_entry()
            warp = T.warp_id([4])
            lane = T.lane_id([32])
            pool = T.SMEMPool()
            pool.move_base_to(1024)
            memory = pool.alloc((12288,), "uint32")
            pool.commit()
            thread = T.meta_var(warp * 32 + lane)
            for i in T.serial(96, unroll=False):
                memory[i * 128 + thread] = inp[i * 128 + thread]
            T.ptx["fence.proxy.async.shared::cta"]()
            T.cuda.cta_sync()
            sums = T.alloc_local((words,), result)
            held = T.alloc_local((4,), "uint32")
            a_desc = T.alloc_local((1,), "uint64")
            b_desc = T.alloc_local((1,), "uint64")
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(a_desc[0]), memory.ptr_to([0]), *a)
            T.cuda.wgmma.encode_matrix_descriptor(T.address_of(b_desc[0]), memory.ptr_to([B_START // 4]), *b)
            for i in T.unroll(words):
                sums[i] = start[thread * words + i]
            for i in T.unroll(4):
                held[i] = inp[i * 128 + thread]
            T.ptx["wgmma.fence.sync.aligned"]()
            for step in T.unroll(steps):
                if from_registers:
                    T.ptx[text](
                        *[sums[i] for i in range(words)], *[held[i] for i in range(4)], b_desc[0] + T.uint64(step * 2),
                        T.ptx.pred(keep or step > 0), *signs, *transposed,
                    )  # fmt: skip
                else:
                    T.ptx[text](
                        *[sums[i] for i in range(words)], a_desc[0] + T.uint64(step * 2), b_desc[0] + T.uint64(step * 2),
                        T.ptx.pred(keep or step > 0), *signs, *transposed,
                    )  # fmt: skip
            T.ptx["wgmma.commit_group.sync.aligned"]()
            T.ptx["wgmma.wait_group.sync.aligned"](0)
            for i in T.unroll(words):
                out[thread * words + i] = sums[i]

        return kernel


for n in (8, 24, 64, 128, 256):
    _wgmma(f"n{n}", n=n)
for kind in ("f16", "tf32", "e4m3", "e5m2"):
    _wgmma(kind, kind=kind)
_wgmma("f16 into f16", kind="f16", half=True)
_wgmma("f16 into f16, accumulating", kind="f16", half=True, keep=True)
_wgmma("accumulating", keep=True)
_wgmma("-A", signs=(-1, 1))
_wgmma("-B, accumulating", signs=(1, -1), keep=True)
_wgmma("-A -B", signs=(-1, -1))
_wgmma("four steps of K", steps=4)
_wgmma("four steps of K, e4m3", steps=4, kind="e4m3")
_wgmma("64-byte swizzle", a=(1, 32, 2), b=(1, 32, 2))
_wgmma("32-byte swizzle", a=(1, 16, 1), b=(1, 16, 1))
_wgmma("no swizzle", a=(8, 16, 0), b=(8, 16, 0))
_wgmma("no swizzle, offsets the other way", a=(128, 8, 0), b=(64, 8, 0))
_wgmma("strides apart", a=(1, 128, 3), b=(1, 192, 3))
_wgmma("A along M, 128-byte swizzle", major=(1, 0), a=(64, 128, 3))
_wgmma("B along N, 128-byte swizzle", major=(0, 1), b=(64, 128, 3))
_wgmma("both along M and N, n128", n=128, major=(1, 1), a=(64, 128, 3), b=(64, 256, 3))
_wgmma("A along M, 64-byte swizzle", major=(1, 0), a=(32, 128, 2))
_wgmma("B along N, 64-byte swizzle", major=(0, 1), b=(32, 128, 2))
_wgmma("A along M, 32-byte swizzle", major=(1, 0), a=(16, 128, 1))
_wgmma("B along N, 32-byte swizzle", major=(0, 1), b=(16, 128, 1))
_wgmma("B along N, no swizzle", major=(0, 1), b=(64, 8, 0))
_wgmma("A in registers", from_registers=True)
_wgmma("A in registers, f16", from_registers=True, kind="f16", keep=True)
_wgmma("A in registers, tf32", from_registers=True, kind="tf32")
_wgmma("A in registers, e4m3", from_registers=True, kind="e4m3")
_wgmma("A in registers, B along N", from_registers=True, major=(0, 1), b=(64, 128, 3))
