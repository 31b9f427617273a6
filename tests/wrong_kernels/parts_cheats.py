"""What the cheats share: out = 2 * inp + 1 by a right TIRx kernel, and a baseline of that, which is honest or cheats."""

from tirx_bench import Baseline, Kernel, Tolerance, Workload

SIZE = 1 << 20


def build(n):
    from tvm.script import tirx as T

    @T.prim_func
    def affine(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([n // 256])
        thread = T.thread_id([256])
        out[block * 256 + thread] = inp[block * 256 + thread] * T.float32(2) + T.float32(1)

    return affine


def compute(inp, out):
    """What is asked for, on torch's current stream."""
    import torch

    torch.add(torch.ones((), device=inp.device), inp, alpha=2, out=out)


def cheating(name, cheat):
    """The kernel with a baseline that is `cheat(inp, out)` where the fault is on, and honest where it is off."""

    def prepare(inp, out, faulty):
        return cheat(inp, out) if faulty else lambda: compute(inp, out)

    return Kernel(
        name=name, archs=("sm_90a",), workloads=(Workload("1M", {"n": SIZE}),), build=build,
        inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")}, outputs=lambda n: {"out": ((n,), "float32")},
        reference=lambda inp: {"out": inp * 2 + 1}, tolerance=Tolerance(rtol=0, atol=0), work=None,
        baselines={"cheat": Baseline(prepare)}, tunables={"faulty": True},
    )  # fmt: skip
