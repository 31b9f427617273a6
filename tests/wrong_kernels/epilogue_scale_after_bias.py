"""c = (a @ b.T) * scale + bias in FP32, with a scale per row as a quantised a has it.

Fault: the scale is applied when the bias has been added, so it also scales the bias; a bias of zero does not show it.
"""

from parts_simt import FP32_SUM, SETTINGS, TILED, matmul_operands

from tirx_bench import Kernel, Workload

CLASS = "epilogue"
FAULT = "the scale is applied after the bias was added, and so to the bias too"
DETECTORS = ("numeric", "simulator")


def build(m, n, k, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def matmul_scale_bias(
        a: T.Buffer((m, k), "float32"), b: T.Buffer((n, k), "float32"),
        scale: T.Buffer((m,), "float32"), bias: T.Buffer((n,), "float32"), c: T.Buffer((m, n), "float32"),
    ):  # fmt: skip
        T.device_entry()
        tile_m, tile_n = T.cta_id([m // 16, n // 16])
        thread = T.thread_id([256])
        row = T.meta_var(tile_m * 16 + thread // 16)
        col = T.meta_var(tile_n * 16 + thread % 16)
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for p in T.serial(k, unroll=False):
            total[0] = total[0] + a[row, p] * b[col, p]
        if faulty:
            c[row, col] = (total[0] + bias[col]) * scale[row]
        else:
            c[row, col] = total[0] * scale[row] + bias[col]

    return matmul_scale_bias


def inputs(m, n, k, rng):
    vectors = {"scale": rng.uniform((m,), "float32", 0.5, 2), "bias": rng.normal((n,), "float32")}
    return {**matmul_operands(m, n, k, rng), **vectors}


KERNEL = Kernel(
    name="epilogue_scale_after_bias",
    workloads=(Workload("48x64x32", {"m": 48, "n": 64, "k": 32}),),
    build=build,
    inputs=inputs,
    outputs=lambda m, n: {"c": ((m, n), "float32")},
    reference=lambda a, b, scale, bias: {"c": (a @ b.T) * scale[:, None] + bias},
    tolerance=FP32_SUM,
    constraints=TILED,
    **SETTINGS,
)
