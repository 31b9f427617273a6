"""out = inp.T in FP32 through shared memory: a block owns 32 columns of inp and walks down them in tiles of 32 x 32.

Fault: the store of a tile masks the rows of out and not its columns, so the last, partial tile of a block runs into the next
row of out and overwrites what an earlier tile had put there; behind the last row it leaves the buffer.
"""

from parts_simt import EXACT, SETTINGS, matrix, tiles

from tirx_bench import Kernel, Workload

CLASS = "boundary"
FAULT = "the store of a tile masks the rows and not the columns: the last tile overwrites the start of the next row"
DETECTORS = ("numeric", "sanitizer", "static", "simulator")


def build(rows, cols, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def transpose(inp: T.Buffer((rows, cols), "float32"), out: T.Buffer((cols, rows), "float32")):
        T.device_entry()
        left = T.meta_var(T.cta_id([tiles(cols, 32)]) * 32)
        warp = T.warp_id([8])
        lane = T.lane_id([32])
        tile = T.alloc_buffer((32, 33), "float32", scope="shared")
        for step in T.serial(tiles(rows, 32), unroll=False):
            for i in T.serial(4):
                r = T.meta_var(i * 8 + warp)
                tile[r, lane] = T.float32(0)
                if (step * 32 + r < rows) & (left + lane < cols):
                    tile[r, lane] = inp[step * 32 + r, left + lane]
            T.cuda.cta_sync()
            for i in T.serial(4):
                c = T.meta_var(i * 8 + warp)
                if left + c < cols if faulty else (left + c < cols) & (step * 32 + lane < rows):
                    out[left + c, step * 32 + lane] = tile[lane, c]
            T.cuda.cta_sync()

    return transpose


KERNEL = Kernel(
    name="boundary_rows_only",
    workloads=(Workload("100x72", {"rows": 100, "cols": 72}),),
    build=build,
    inputs=matrix,
    outputs=lambda rows, cols: {"out": ((cols, rows), "float32")},
    reference=lambda inp: {"out": inp.T},
    tolerance=EXACT,
    **SETTINGS,
)
