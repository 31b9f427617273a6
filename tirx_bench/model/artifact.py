"""One compile and what it takes of the hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirx_bench.model.finding import Finding
from tirx_bench.model.kernel import Params, Shape, Workload


@dataclass(frozen=True)
class Resources:
    """What one device function takes, from ptxas and the lowered launch. Sizes in bytes, counts per thread or block."""

    function: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int
    dynamic_smem_bytes: int
    threads: int
    grid: Shape
    cluster: Shape
    barriers: int

    @property
    def smem_bytes(self) -> int:
        return self.static_smem_bytes + self.dynamic_smem_bytes


@dataclass(frozen=True)
class Artifact:
    """One compile: the folder holds source, PTX, cubin, SASS, the compiler's output and the manifest.

    `command` rebuilds the cubin from kernel.cu in the folder. `code_hash` is the identity of the code: a SHA-256 over the
    cubin's code sections, since the file's own hash changes with the folder and the time of the build.
    """

    folder: str
    kernel: str
    workload: Workload
    tunables: Params
    arch: str
    compiler: str
    command: tuple[str, ...]
    source_sha256: str
    code_hash: str
    resources: tuple[Resources, ...]
    findings: tuple[Finding, ...]
    environment: Mapping[str, str]
    instrumented: bool = False
