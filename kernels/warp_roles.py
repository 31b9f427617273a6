"""out = 2 * inp + 1 in FP32 with two warp roles: a small kernel to trace with IKET. n is the number of elements.

In each block, warp 0 moves 256 elements to shared memory, and warp 1 computes on them. The ranges show the producer,
the wait and the consumer of every block; a compile without IKET leaves no trace of them.
"""

from tirx_bench import Baseline, Constraint, Kernel, TimingPolicy, Tolerance, Work, Workload, bench, script

ELEMENTS = 256  # per block
LANES = 32

WORKLOADS = (Workload("256", {"n": 256}), Workload("1M", {"n": 1 << 20}))


def build(n):
    from tvm.script import tirx as T
    from tvm.tirx.cuda.iket import IketProfiler

    @T.prim_func
    def warp_roles(inp: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32")):
        T.device_entry()
        iket = IketProfiler()
        block = T.cta_id([n // ELEMENTS])
        warp = T.warp_id([2])
        lane = T.lane_id([LANES])
        shared = T.alloc_buffer((ELEMENTS,), "float32", scope="shared")

        iket.mark("start", warp)
        if warp == 0:
            iket.range_push("producer")
            for i in T.serial(ELEMENTS // LANES, unroll=False):
                shared[i * LANES + lane] = inp[block * ELEMENTS + i * LANES + lane]
            iket.range_pop()

        # On Hopper the end of this range is stamped before the barrier blocks, so the wait shows as the gap after it.
        iket.range_push("wait")
        T.cuda.cta_sync()
        iket.range_pop()

        if warp == 1:
            iket.range_push("consumer")
            for i in T.serial(ELEMENTS // LANES, unroll=False):
                out[block * ELEMENTS + i * LANES + lane] = shared[i * LANES + lane] * T.float32(2) + T.float32(1)
            iket.range_pop()

    return warp_roles


def inputs(n, rng):
    return {"inp": rng.normal((n,), "float32")}


def outputs(n):
    return {"out": ((n,), "float32")}


def reference(inp):
    return {"out": inp * 2 + 1}


def work(n):
    return Work(flops=2 * n, bytes=2 * 4 * n, dtype="float32")


def torch_add(inp, out):
    import torch

    one = torch.ones((), dtype=inp.dtype, device=inp.device)
    return lambda: torch.add(one, inp, alpha=2, out=out)


KERNEL = Kernel(
    name="warp_roles",
    archs=("sm_90a", "sm_100a"),
    workloads=WORKLOADS,
    build=build,
    inputs=inputs,
    outputs=outputs,
    reference=reference,
    tolerance=Tolerance(rtol=0, atol=0),  # doubling is exact, so with or without FMA there is one rounding
    work=work,
    baselines={"torch.add": Baseline(torch_add, tuning="none")},
    constraints=(Constraint("n >= 256 and n % 256 == 0", "a block takes 256 elements, without a tail"),),
)


def run_bench(workload="256", **policy):
    return bench(KERNEL, workload, TimingPolicy(**policy))


if __name__ == "__main__":
    script(run_bench)
