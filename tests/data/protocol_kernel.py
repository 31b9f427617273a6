"""A module of the tirx-kernels protocol, with the habits that its real modules have."""

KERNEL_META = {
    "name": "protocol_copy",
    "category": "copy",
    "runtime_cuda_archs": ["sm_90a", "sm_100a"],
}

CONFIGS = [
    {"label": "small", "n": 256, "dtype": "float32"},
    {"label": "scaled", "n": 512, "dtype": "float32", "scale": 2.0},
    {"label": "ragged", "n": (1, 2), "dtype": "float32"},
    {"label": "seeded", "n": 256, "dtype": "float32", "seed": 7},
]
BENCH_CONFIGS = [{"label": "small", "n": 256, "dtype": "float32"}, {"label": "large", "n": 4096, "dtype": "float32"}]


class Function:
    """As much of a PrimFunc as naming it takes."""

    def __init__(self, symbol, **config):
        self.attrs = {"global_symbol": symbol}
        self.config = config


def get_kernel(n, dtype, scale=1.0, lanes=32, schedule=None, **kwargs):
    if n > 1000:
        return [Function("only", n=n)]
    return {"main": Function("ignored", n=n, scale=scale, lanes=lanes)}, [Function("tail"), Function("tail")]


def run_test(n, dtype, **kwargs):
    raise NotImplementedError


def prepare_bench(n, dtype, **kwargs):
    raise NotImplementedError
