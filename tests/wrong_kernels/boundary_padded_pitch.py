"""out = inp + 1 by rows in FP32, a warp per row; a row is stepped through in tiles of 64, more than it has columns.

Fault: the pitch of a row is computed from the columns rounded up to the tile, as if the rows were padded in memory: row r
reads from where a later row is, and the last rows read past the end.
"""

from parts_simt import EXACT, SETTINGS, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the pitch of the rows of inp is the padded number of columns: every row but the first is read from the wrong place"
DETECTORS = ("numeric", "sanitizer", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    padded = 64 * tiles(cols, 64)
    pitch = padded if faulty else cols

    @T.prim_func
    def add_one(inp: T.Buffer((rows * cols,), "float32"), out: T.Buffer((rows * cols,), "float32")):
        T.device_entry()
        row = T.cta_id([rows])
        lane = T.thread_id([32])
        for step in T.serial(padded // 32):
            col = T.meta_var(step * 32 + lane)
            if col < cols:
                out[row * cols + col] = inp[row * pitch + col] + T.float32(1)

    return add_one


KERNEL = Kernel(
    name="boundary_padded_pitch",
    workloads=(Workload("40x100", {"rows": 40, "cols": 100}),),
    build=build,
    inputs=lambda rows, cols, rng: {"inp": rng.normal((rows * cols,), "float32")},
    outputs=lambda rows, cols: {"out": ((rows * cols,), "float32")},
    reference=lambda inp: {"out": inp + 1},
    tolerance=EXACT,
    **SETTINGS,
)
