"""What the SIMT files of this folder share: the settings of their kernels, inputs, tolerances."""

from tirx_bench import Constraint, Tolerance

SETTINGS = {"archs": ("sm_90a",), "work": None, "tunables": {"faulty": True}}

EXACT = Tolerance(rtol=0, atol=0)
FP32_SUM = Tolerance(rtol=1e-5, atol=1e-4)  # some hundred FP32 terms of size 1, in another order than the reference's
TILED = (Constraint("m % 16 == 0 and n % 16 == 0", "a block takes a tile of 16 x 16, without a tail"),)


def tiles(extent, tile):
    """How many tiles cover the extent."""
    return -(-extent // tile)


def matrix(rows, cols, rng):
    return {"inp": rng.normal((rows, cols), "float32")}


def matmul_operands(m, n, k, rng):
    return {"a": rng.normal((m, k), "float32"), "b": rng.normal((n, k), "float32")}
