"""out[i] = sum of (inp[i, j] - 1)^2 over 40 columns: TMA loads boxes of 64 columns, and one thread sums a row.

The sum takes all 64 columns of the box. TMA fills those outside of the matrix with zeros, and each adds 1: wrong numbers.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel, Tolerance

CLASS = "tma"
FAULT = "the zeros that TMA fills in are summed as if they were data"
DETECTORS = ("numeric",)


def build(m, faulty):
    from tvm.backend.cuda.lang.pipeline import TMABar
    from tvm.script import tirx as T
    from tvm.script.tirx import tile as Tx

    rows, columns = parts.TILE
    publish = parts.publish()

    @T.prim_func
    def squares(inp: T.Buffer((m, 40), "float32"), out: T.Buffer((m,), "float32")):
        T.device_entry()
        block = T.cta_id([m // rows])
        lane = T.thread_id([rows])
        pool = T.SMEMPool()
        full = TMABar(pool, 1)
        pool.move_base_to(1024)
        tile = pool.alloc((rows, columns), "float32")
        full.init(1)
        pool.commit()
        publish()
        row = T.meta_var(block * rows)
        if lane == 0:
            full.arrive(0, rows * columns * 4)
            Tx.copy_async(tile, inp[row : row + rows, 0:columns], dispatch="tma_explicit", mbar=full.ptr_to([0]))
        full.wait(0, 0)
        total = T.alloc_local((1,), "float32")
        total[0] = T.float32(0)
        for j in T.serial(columns if faulty else 40):
            total[0] = total[0] + (tile[lane, j] - T.float32(1)) * (tile[lane, j] - T.float32(1))
        out[row + lane] = total[0]

    return squares


CHANGES = {
    "inputs": lambda m, rng: {"inp": rng.normal((m, 40), "float32")},
    "outputs": lambda m: {"out": ((m,), "float32")},
    "reference": lambda inp: {"out": ((inp - 1) ** 2).sum(1)},
    "tolerance": Tolerance(rtol=1e-4, atol=1e-4),
}


KERNEL = Kernel(name="tma_padding_counted", build=build, **{**parts.AFFINE, **CHANGES}, tunables={"faulty": True})
