"""A kernel's artifact as a call on buffers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tirx_bench.catalog import find
from tirx_bench.compile import build_functions, compile_module, read
from tirx_bench.device import Call
from tirx_bench.device.cuda import CudaDevice
from tirx_bench.device.hook import serving
from tirx_bench.hardware import capability
from tirx_bench.model import Artifact, Kernel, MissingError, Params, UsageError, Workload
from tirx_bench.pipeline.request import Version
from tirx_bench.verify import Buffers

Bind = Callable[[Buffers], Call]  # a launch on buffers by name


@dataclass(frozen=True)
class Loaded:
    """A version of a kernel that is ready to be launched."""

    kernel: Kernel
    params: Params
    artifact: Artifact
    bind: Bind

    @property
    def library(self) -> str:
        return f"TIRx by {self.artifact.compiler}, code {self.artifact.code_hash[:12]}"


def load_version(version: Version, workload: Workload, device: CudaDevice) -> Loaded:
    """Raises `MissingError` when the artifact is for another device."""
    kernel = find(version.spec).kernel
    assert kernel is not None  # find raises otherwise
    artifact = read(Path(version.artifact))
    if device.capability != capability(artifact.arch):
        raise MissingError(f"the artifact is for {artifact.arch} and this device, {device.name}, is sm_{device.capability}")
    params = kernel.params(workload, version.tunables)
    return Loaded(kernel, params, artifact, load(kernel, build_functions(kernel, params), artifact))


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
