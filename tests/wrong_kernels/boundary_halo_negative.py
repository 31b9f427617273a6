"""out[r, c] = w[0] * inp[r, c - 1] + w[1] * inp[r, c] + w[2] * inp[r, c + 1] in FP32, with zeros outside of a row.

Fault: the left halo has no mask, so column 0 reads index -1: the last element of the row above, and in row 0 the memory in
front of the buffer.
"""

from parts_simt import FP32_SUM, SETTINGS

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the left halo is read without a mask: column -1 is the end of the row above"
DETECTORS = ("numeric", "sanitizer", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def stencil(
        w: T.Buffer((3,), "float32"), inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((rows, cols), "float32")
    ):  # fmt: skip
        T.device_entry()
        row = T.cta_id([rows])
        thread = T.thread_id([128])
        halo = T.alloc_buffer((cols + 2,), "float32", scope="shared")
        for i in T.serial((cols + 2 + 127) // 128, unroll=False):
            at = T.meta_var(i * 128 + thread)
            if at < cols + 2:
                halo[at] = T.float32(0)
                if at < cols + 1 if faulty else (at >= 1) & (at < cols + 1):
                    halo[at] = inp[row, at - 1]
        T.cuda.cta_sync()
        for i in T.serial((cols + 127) // 128, unroll=False):
            col = T.meta_var(i * 128 + thread)
            if col < cols:
                out[row, col] = w[0] * halo[col] + w[1] * halo[col + 1] + w[2] * halo[col + 2]

    return stencil


def inputs(rows, cols, rng):
    return {"w": rng.normal((3,), "float32"), "inp": rng.normal((rows, cols), "float32")}


def reference(w, inp):
    out = w[1] * inp
    out[:, 1:] += w[0] * inp[:, :-1]
    out[:, :-1] += w[2] * inp[:, 1:]
    return {"out": out}


KERNEL = Kernel(
    name="boundary_halo_negative",
    workloads=(Workload("16x300", {"rows": 16, "cols": 300}),),
    build=build,
    inputs=inputs,
    outputs=lambda rows, cols: {"out": ((rows, cols), "float32")},
    reference=reference,
    tolerance=FP32_SUM,
    **SETTINGS,
)
