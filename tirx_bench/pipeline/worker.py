"""The process that steps onto the GPU, and ends with the first error, so that a broken context ends with it.

    python -m tirx_bench.pipeline.worker FD

loads what every request needs, reads requests as JSON lines, and writes JSON lines to the inherited file descriptor:
{"step": ...} as it goes, and one {"answer": ...} to each, until an {"error": ...} ends it.
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
from tirx_bench.pipeline.trial import Trial
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
    case = prepare(loaded.kernel, loaded.params, device, request.policy.seed, request.checks.fills[0])
    step("launching")
    if request.action == "launch":
        _launch_once(case, loaded, device)
        return Answer(device.describe())
    verification = verify(case, lambda buffers: loaded.bind(buffers)(), device, request.checks)
    if request.action == "verify" and request.baselines and verification.passed:
        return Answer(device.describe(), verification, left_out=_wrong_baselines(case, request, device))
    if request.action == "verify" or not verification.passed:
        return Answer(device.describe(), verification)
    return bench(request, case, loaded, verification, device, step)


def _wrong_baselines(case: Case, request: Request, device: CudaDevice) -> tuple[str, ...]:
    trial = Trial(case, request.policy, device)
    for name, baseline in case.kernel.baselines.items():
        trial.add_baseline(name, baseline)
    remembering = [i.name for i in trial.implementations if not trial.check(i).passed]
    return (*trial.left_out, *(f"baseline {name}: its outputs do not follow its inputs" for name in remembering))


def _launch_once(case: Case, loaded: Loaded, device: CudaDevice) -> None:
    """Warm up, then one operation between cudaProfilerStart and Stop inside an NVTX range; nothing is timed.

    Every buffer is an allocation of its own, without a frame, so that a sanitizer sees where each ends; what the kernel is to
    write is not written before.
    """
    given = {**case.inputs, **case.working}
    buffers = {n: device.copy(given[n]) if n in given else device.torch.empty_like(a) for n, a in case.buffers.items()}
    launch = loaded.bind(buffers)
    for _ in range(WARM_UP_CALLS):
        case.reset(buffers)
        launch()
    case.reset(buffers)
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
        for line in sys.stdin:
            answer = perform(from_plain(Request, json.loads(line)), lambda text: send(step=text), clock)
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
