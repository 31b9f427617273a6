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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tirx_bench.catalog import find
from tirx_bench.compile import build_functions, compile_module, read
from tirx_bench.device import Call
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.device.hook import serving
from tirx_bench.hardware import capability
from tirx_bench.model import (
    Artifact,
    FailedError,
    Kernel,
    MissingError,
    Peak,
    Timing,
    UsageError,
    Verification,
    WorkbenchError,
    call,
)
from tirx_bench.peaks import measure_peak
from tirx_bench.pipeline.request import SAME_CODE, Answer, Request
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.store import read_peak, write_peak
from tirx_bench.timing import measure
from tirx_bench.tools import die_with_parent
from tirx_bench.verify import Buffers, Case, compare, fresh, prepare, verify

Step = Callable[[str], None]
Bind = Callable[[Buffers], Call]  # a launch on buffers by name
WARM_UP_CALLS = 3


def perform(request: Request, step: Step) -> Answer:
    """Do what the request asks. Raises `WorkbenchError`."""
    step("loading the kernel")
    kernel = find(request.spec).kernel
    assert kernel is not None  # find raises otherwise
    artifact = read(Path(request.artifact))
    device = CudaDevice()
    if device.capability != capability(artifact.arch):
        raise MissingError(f"the artifact is for {artifact.arch} and this device, {device.name}, is sm_{device.capability}")
    params = kernel.params(request.workload, request.tunables)
    bind = load(kernel, build_functions(kernel, params), artifact)
    step("making inputs and the reference")
    case = prepare(kernel, params, device, request.policy.seed)
    if request.action == "launch":
        step("launching")
        _launch_once(case, bind, device)
        return Answer(device.describe())
    step("launching")
    verification = verify(case, lambda buffers: bind(buffers)(), device)
    if request.action == "verify" or not verification.passed:
        return Answer(device.describe(), verification)
    return _bench(request, case, bind, verification, artifact, device, step)


def load(kernel: Kernel, functions: Mapping[str, Any], artifact: Artifact) -> Bind:
    """The artifact's cubin as a call on buffers by name, in the order of `functions`, which is the launch order."""
    with serving(artifact):
        module = compile_module(functions, artifact.arch).jit()
    steps = [(module[name], [p.name for p in function.params]) for name, function in functions.items()]

    def bind(buffers: Buffers) -> Call:
        for _, names in steps:
            if missing := [name for name in names if name not in buffers]:
                raise UsageError(f"the PrimFunc takes {missing}, which {kernel.name} has no input, output or workspace for")
        bound = [(function, [buffers[name] for name in names]) for function, names in steps]

        def launch() -> None:
            for function, arguments in bound:
                function(*arguments)

        return launch

    return bind


def _launch_once(case: Case, bind: Bind, device: CudaDevice) -> None:
    """Warm up, then one operation between cudaProfilerStart and Stop inside an NVTX range; nothing is timed."""
    launch = bind(case.buffers)
    for _ in range(WARM_UP_CALLS):
        launch()
    case.reset()
    device.synchronize()
    cudart, nvtx = device.torch.cuda.cudart(), device.torch.cuda.nvtx
    cudart.cudaProfilerStart()
    with nvtx.range(f"tirx-bench {case.kernel.name}"):
        launch()
        device.synchronize()
    cudart.cudaProfilerStop()


def _bench(
    request: Request,
    case: Case,
    bind: Bind,
    verification: Verification,
    artifact: Artifact,
    device: CudaDevice,
    step: Step,
) -> Answer:
    if artifact.instrumented:
        raise UsageError("the artifact is instrumented for IKET, so its time says nothing", "unset the TVM_IKET_* variables")
    if request.action == "self-test":
        return Answer(device.describe(), verification, _self_test(request, case, bind, verification, device, step))
    step("verifying the baselines")
    baselines, left_out = _baselines(case, device)
    step("measuring the card's peak")
    peak = _peak(request, case, device)
    calls = {case.kernel.name: bind(case.buffers), **baselines}
    timing = measure(calls, request.policy, device, verification, reset=case.reset, progress=step)
    # A race may show only under load: the outputs of the last timed call must still be right.
    after = compare(case, case.outputs, device)
    if not after.passed:
        return Answer(device.describe(), after, left_out=("timing: the outputs were wrong after the timed calls",))
    return Answer(device.describe(), verification, timing, peak, tuple(left_out))


def _self_test(request: Request, case: Case, bind: Bind, verification: Verification, device: CudaDevice, step: Step) -> Timing:
    """A/A: the kernel under two names, each with buffers of its own."""
    twin = case.twin(device)
    calls = {case.kernel.name: bind(case.buffers), SAME_CODE: bind(twin.buffers)}

    def reset() -> None:
        case.reset()
        twin.reset()

    return measure(calls, request.policy, device, verification, reset=reset, progress=step)


def _baselines(case: Case, device: CudaDevice) -> tuple[dict[str, Call], list[str]]:
    """The baselines whose outputs match the reference, and why the others are not timed."""
    calls: dict[str, Call] = {}
    left_out = []
    for name, prepare_baseline in case.kernel.baselines.items():
        outputs = fresh(case.kernel.outputs, case.params, device)
        try:
            run = call(prepare_baseline, {**case.params, **case.inputs, **outputs})
            run()
        except Exception as error:
            left_out.append(f"baseline {name}: it raised {type(error).__name__}: {str(error).splitlines()[0][:200]}")
            continue
        device.synchronize()
        if compare(case, outputs, device).passed:
            calls[name] = run
        else:
            left_out.append(f"baseline {name}: its output does not match the reference")
    return calls, left_out


def _peak(request: Request, case: Case, device: CudaDevice) -> Peak | None:
    if case.kernel.work is None:
        return None
    dtype = call(case.kernel.work, case.params).dtype
    kept = read_peak(Path(request.peaks), device.uuid, dtype)
    if kept is None:
        kept = measure_peak(device, dtype)
        write_peak(Path(request.peaks), device.uuid, dtype, kept)
    return kept


def _warm_up() -> None:
    """Load torch, TVM and the device. What is missing is told when a request needs it."""
    with contextlib.suppress(MissingError, ImportError):
        CudaDevice()
        import tvm  # noqa: F401


def main(argv: list[str]) -> int:
    die_with_parent()
    channel = os.fdopen(int(argv[0]), "w", buffering=1)

    def send(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")

    try:
        _warm_up()
        answer = perform(from_plain(Request, json.loads(sys.stdin.readline())), lambda text: send(step=text))
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
