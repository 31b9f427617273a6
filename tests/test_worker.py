"""What the GPU process makes of a kernel's functions, without a GPU."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from helpers_records import artifact, kernel

from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import UsageError
from tirx_bench.pipeline import loading, worker
from tirx_bench.verify import prepare


@pytest.fixture
def loaded(monkeypatch):
    """`loading.load` of functions whose parameters are named, and the log of their launches."""
    log = []

    def load(**parameters):
        functions = {name: SimpleNamespace(params=[SimpleNamespace(name=p) for p in names]) for name, names in parameters.items()}
        module = {name: lambda *arguments, name=name: log.append((name, arguments)) for name in functions}
        monkeypatch.setattr(loading, "serving", lambda artifact: contextlib.nullcontext())
        monkeypatch.setattr(loading, "compile_module", lambda functions, arch: SimpleNamespace(jit=lambda: module))
        return loading.load(kernel(), functions, artifact())

    return load, log


def test_a_launch_runs_every_function_in_order_on_the_buffers_of_its_parameters(loaded):
    load, log = loaded
    launch = load(repack=["x", "scratch"], gemm=["scratch", "y"])({"x": 1, "y": 2, "scratch": 3, "other": 4})
    launch()
    launch()
    assert log == [("repack", (1, 3)), ("gemm", (3, 2))] * 2


def test_two_bindings_keep_their_own_buffers(loaded):
    load, log = loaded
    bind = load(main=["x"])
    first, second = bind({"x": 1}), bind({"x": 2})
    first()
    second()
    assert log == [("main", (1,)), ("main", (2,))]


def test_a_parameter_without_a_buffer_is_refused_before_anything_is_launched(loaded):
    load, log = loaded
    with pytest.raises(UsageError, match=r"takes \['z'\], which add has no input, output or workspace for"):
        load(first=["x"], second=["x", "z"])({"x": 1})
    assert log == []


def test_a_launch_for_a_profiler_and_those_that_warm_up_find_the_first_values_and_only_one_is_profiled():
    log, device = [], FakeDevice()
    cudart = SimpleNamespace(cudaProfilerStart=lambda: log.append("start"), cudaProfilerStop=lambda: log.append("stop"))
    nvtx = SimpleNamespace(range=lambda name: contextlib.nullcontext(log.append(name)))
    device.torch = SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: cudart, nvtx=nvtx))
    device.synchronize = lambda: log.append("synchronize")
    of = kernel(outputs=lambda m, k: {"x": ((m, k), "float32")}, reference=lambda x: {"x": x + 1}, inplace=("x",))
    case = prepare(of, of.params(of.workloads[0]), device, 0)

    def bind(buffers):
        def launch():
            log.append("first values" if (buffers["x"] == case.inputs["x"]).all() else "what an earlier call left")
            buffers["x"][...] += 1

        return launch

    worker._launch_once(case, SimpleNamespace(bind=bind), device)
    warm_up = ["first values"] * worker.WARM_UP_CALLS
    assert log == [*warm_up, "synchronize", "start", "tirx-bench add", "first values", "synchronize", "stop"]
