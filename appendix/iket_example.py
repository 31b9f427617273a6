"""Two warps with different roles, and the IKET ranges that show when each of them works and when it waits.

    python appendix/iket_example.py        # writes reports/iket-warp-roles

Warp 0 copies 256 numbers from global to shared memory, both warps meet at a barrier, warp 1 computes 2x + 1 from
shared memory. `iket.run` starts this script again under run-iket and calls `traced` there, so the kernel is compiled
and loaded in `traced`: code loaded before recording begins cannot be patched. The ranges add work to the kernel; read
phases from the trace, not latency.
Exit codes: 0 done, 1 the profile or the result is wrong, 2 a bad option, 3 a package, a tool or a GPU is missing.
"""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


def give_up(code: int, problem: str, next_step: str) -> NoReturn:
    print(f"iket_example: {problem}\n  {next_step}", file=sys.stderr)
    raise SystemExit(code)


try:
    import numpy as np
    import tvm
    from tvm.script import tirx as T
    from tvm.tirx.cuda import iket
except ImportError as missing:
    give_up(3, f"TVM with IKET cannot be imported: {missing}", "python -m pip install apache-tvm==0.27.0.post1")

PROFILE = "'nvidia-cutlass-dsl[cu13]==4.6.0' nvidia-cuda-nvdisasm==13.3.73 nvidia-cuda-nvrtc==13.2.78"
LANES = 32
PER_LANE = 8
COUNT = LANES * PER_LANE


@T.prim_func
def warp_roles(inp: T.Buffer((COUNT,), "float32"), out: T.Buffer((COUNT,), "float32")):
    T.device_entry()
    trace = iket.IketProfiler()
    warp = T.warp_id([2])
    lane = T.lane_id([LANES])
    staged = T.alloc_buffer((COUNT,), "float32", scope="shared")

    trace.mark("kernel_start", warp)
    if warp == 0:
        trace.range_push("producer_load")
        for step in T.serial(PER_LANE, unroll=False):
            staged[step * LANES + lane] = inp[step * LANES + lane]
        trace.range_pop()

    # Both warps pass here, so the push and the pop pair up in both. On Hopper the pop is stamped before the barrier
    # blocks: there the wait is the gap after this range.
    trace.range_push("wait_for_data")
    T.cuda.cta_sync()
    trace.range_pop()

    if warp == 1:
        trace.range_push("consumer_compute")
        for step in T.serial(PER_LANE, unroll=False):
            out[step * LANES + lane] = staged[step * LANES + lane] * T.float32(2) + T.float32(1)
        trace.range_pop()


def device_arch() -> str:
    """The target of the first CUDA device: sm_90a for compute capability 9.0, sm_100a for 10.0."""
    if not tvm.cuda().exist:
        give_up(3, "TVM finds no CUDA device", "IKET records on a GPU of compute capability 9.0 or newer")
    major, minor = (int(part) for part in tvm.cuda().compute_version.split("."))
    if major < 9:
        give_up(3, f"this GPU has compute capability {major}.{minor}", "IKET needs 9.0 (Hopper) or newer")
    return f"sm_{major}{minor}a"


def traced() -> None:
    """Compile, load and launch the kernel once, and check every element of the result."""
    target = tvm.target.Target({"kind": "cuda", "arch": device_arch()})
    module = tvm.compile(warp_roles, target=target, tir_pipeline="tirx").jit()
    values = np.arange(COUNT, dtype="float32")
    inp = tvm.runtime.tensor(values, device=tvm.cuda())
    out = tvm.runtime.empty((COUNT,), "float32", device=tvm.cuda())
    module.main(inp, out)
    tvm.cuda().sync()
    np.testing.assert_array_equal(out.numpy(), values * 2 + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Record the warp roles of a small kernel with IKET.")
    parser.add_argument("--output-dir", default="reports/iket-warp-roles", help="replaced if it exists (%(default)s)")
    chosen = parser.parse_args()
    device_arch()
    try:
        result = iket.run(traced, output_dir=chosen.output_dir, postprocess="all", clobber=True, timeout=600.0)
    except iket.IketProfileError as error:
        if "validation failed" in str(error):  # TVM's check of the installed packages; nothing has run yet
            give_up(3, str(error), f"python -m pip install {PROFILE}")
        give_up(1, f"the profile failed: {error}", "the kernel runs under run-iket in processes of its own")
    except OSError as error:
        give_up(2, f"cannot write {chosen.output_dir}: {error}", "choose another --output-dir")
    print(f"IKET output directory: {result.output_dir}")
    for path in (*result.json_traces, *result.perfetto_traces, *result.html_reports):
        print(f"IKET artifact: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
