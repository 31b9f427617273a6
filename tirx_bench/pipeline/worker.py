"""The process that steps onto the GPU: one kernel, one workload, then it ends, so that a broken context ends with it.

    python -m tirx_bench.pipeline.worker FD

loads what every request needs, reads a request as one JSON line, and writes JSON lines to the inherited file descriptor:
{"step": ...} as it goes, and one {"answer": ...} or {"error": ...}.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tirx_bench.device.cuda import CudaDevice
from tirx_bench.model import FailedError, MissingError, WorkbenchError
from tirx_bench.pipeline.gpu_bench import bench
from tirx_bench.pipeline.loading import Loaded, load_version
from tirx_bench.pipeline.request import Answer, Request
from tirx_bench.pipeline.stages import Clock, first_call
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.tools import die_with_parent
from tirx_bench.verify import Case, prepare, verify

Step = Callable[[str], None]
WARM_UP_CALLS = 3


def perform(request: Request, step: Step, clock: Clock) -> Answer:
    """Do what the request asks. Raises `WorkbenchError`."""
    step("loading the kernel")
    device = CudaDevice()
    if request.action == "first-call":
        return Answer(device.describe(), stages=first_call(request, device, clock))
    loaded = load_version(request.version, request.workload, device)
    step("making inputs and the reference")
    case = prepare(loaded.kernel, loaded.params, device, request.policy.seed)
    step("launching")
    if request.action == "launch":
        _launch_once(case, loaded, device)
        return Answer(device.describe())
    verification = verify(case, lambda buffers: loaded.bind(buffers)(), device, request.seeds)
    if request.action == "verify" or not verification.passed:
        return Answer(device.describe(), verification)
    return bench(request, case, loaded, verification, device, step)


def _launch_once(case: Case, loaded: Loaded, device: CudaDevice) -> None:
    """Warm up, then one operation between cudaProfilerStart and Stop inside an NVTX range; nothing is timed."""
    launch = loaded.bind(case.buffers)
    for _ in range(WARM_UP_CALLS):
        case.reset()
        launch()
    case.reset()
    device.synchronize()
    cudart, nvtx = device.torch.cuda.cudart(), device.torch.cuda.nvtx
    cudart.cudaProfilerStart()
    with nvtx.range(f"tirx-bench {case.kernel.name}"):
        launch()
        device.synchronize()
    cudart.cudaProfilerStop()


def _warm_up(clock: Clock) -> None:
    """Load torch, TVM and the device. What is missing is told when a request needs it."""
    with contextlib.suppress(MissingError, ImportError):
        with clock.stage("import torch"):
            import torch
        with clock.stage("CUDA start"):
            torch.cuda.init()
            torch.zeros(1, device="cuda")
        with clock.stage("import TVM"):
            import tvm  # noqa: F401


def main(argv: list[str]) -> int:
    die_with_parent()
    channel = os.fdopen(int(argv[0]), "w", buffering=1)

    def send(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")

    try:
        clock = Clock()
        _warm_up(clock)
        answer = perform(from_plain(Request, json.loads(sys.stdin.readline())), lambda text: send(step=text), clock)
        send(answer=to_plain(answer))
    except WorkbenchError as error:
        send(error={"kind": type(error).__name__, "message": error.message, "hint": error.hint})
    except Exception as error:
        traceback.print_exc()
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        send(error={"kind": FailedError.__name__, "message": f"on the GPU: {reason}", "hint": ""})
    channel.flush()
    os._exit(0)  # a faulted context can make the driver's own exit handlers hang


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
