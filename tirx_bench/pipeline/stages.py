"""The first call in a fresh process, stage by stage."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tirx_bench.catalog import find
from tirx_bench.compile import build_functions, compile_functions
from tirx_bench.device import Call
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.model import Baseline, call
from tirx_bench.pipeline.loading import load
from tirx_bench.pipeline.request import Request
from tirx_bench.verify import Case, baseline_outputs, prepare


class Clock:
    """Seconds by stage, in order."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.stages[name] = time.perf_counter() - start


def first_call(request: Request, device: CudaDevice, clock: Clock) -> dict[str, float]:
    """Build, compile from nothing, load, and launch twice; then prepare and call every baseline twice."""
    kernel = find(request.version.spec).kernel
    assert kernel is not None  # find raises otherwise
    params = kernel.params(request.workload, request.version.tunables)
    arch = request.version.artifact  # there is none yet: the architecture to compile for
    with tempfile.TemporaryDirectory() as out:
        with clock.stage("build"):
            functions = build_functions(kernel, params)
        with clock.stage("compile"):
            artifact = compile_functions(
                functions, kernel, request.workload, arch=arch, out=Path(out), tunables=request.version.tunables
            )
        with clock.stage("load"):
            bind = load(kernel, functions, artifact)
    case = prepare(kernel, params, device, request.policy.seed)
    device.synchronize()
    _twice(kernel.name, bind(case.buffers), device, clock)
    for name, baseline in kernel.baselines.items():
        _baseline(name, baseline, case, device, clock)
    return clock.stages


def _baseline(name: str, baseline: Baseline, case: Case, device: CudaDevice, clock: Clock) -> None:
    outputs = baseline_outputs(case, device)
    with clock.stage(f"{name}: prepare, autotune"):
        run = call(baseline.prepare, {**case.params, **case.inputs, **outputs})
        device.synchronize()
    _twice(name, run, device, clock)


def _twice(name: str, run: Call, device: CudaDevice, clock: Clock) -> None:
    for which in ("first", "second"):
        with clock.stage(f"{name}: {which} call"):
            run()
            device.synchronize()
