"""Kernel, workload and architecture to an artifact folder: CUDA text, PTX, cubin, SASS, the compiler's notes, a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tirx_bench.compile.cubin import code_hash
from tirx_bench.compile.folder import kept, read, staged, write_manifest
from tirx_bench.compile.lower import Lowered, build_functions, compile_module, load_tvm, lower
from tirx_bench.compile.nvcc import Nvcc
from tirx_bench.compile.nvrtc import Nvrtc
from tirx_bench.compile.ptxas import findings, resources
from tirx_bench.hardware import capability
from tirx_bench.model import Artifact, FailedError, Kernel, Params, UsageError, Workload, unknown
from tirx_bench.serial import to_plain
from tirx_bench.tools import code_variables, need_tool, run

__all__ = ["COMPILERS", "build_functions", "check_request", "compile_functions", "compile_module", "load_tvm", "read"]

COMPILERS: dict[str, type[Nvcc] | type[Nvrtc]] = {"nvcc": Nvcc, "nvrtc": Nvrtc}


def check_request(kernel: Kernel, workload: Workload, tunables: Params, arch: str, compiler: str) -> None:
    """Raise `UsageError` for anything that can be refused before TVM is loaded."""
    capability(arch)
    if arch not in kernel.archs:
        raise unknown(f"architecture for {kernel.name}", arch, kernel.archs)
    if compiler not in COMPILERS:
        raise unknown("compiler", compiler, COMPILERS)
    kernel.refuse(workload, tunables)
    code_variables()


def compile_functions(
    functions: Mapping[str, Any],
    kernel: Kernel,
    workload: Workload,
    *,
    arch: str,
    out: Path,
    tunables: Params,
    compiler: str = "nvcc",
    flags: Sequence[str] = (),
) -> Artifact:
    """The artifact of `functions`, from the folder of an earlier build of the same inputs where there is one.

    Raises `FailedError` with the compiler's message, `MissingError` without a compiler, `UsageError` when `out` cannot be
    written.
    """
    variables = code_variables()
    lowered = lower(functions, arch)
    program = COMPILERS[compiler](arch, flags, variables)
    tunables = {**kernel.tunables, **tunables}
    # The problem too: another one may give the same text with another grid, and the manifest holds both.
    request = to_plain([workload, tunables, lowered.launches, variables])
    key = json.dumps([lowered.cuda, program.name, program.version, program.options, request])
    folder = out.absolute() / kernel.name / hashlib.sha256(key.encode()).hexdigest()[:16]
    try:
        if artifact := kept(folder):
            return artifact
        with staged(folder) as staging:
            _build(staging, folder, lowered, program, kernel, workload, tunables, arch, variables)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or folder}: {error.strerror}", "choose another folder with --out"
        ) from error
    return read(folder)


def _build(
    staging: Path, final: Path, lowered: Lowered, program: Nvcc | Nvrtc, kernel: Kernel, workload: Workload,
    tunables: Params, arch: str, variables: Mapping[str, str],
) -> None:  # fmt: skip
    (staging / "kernel.cu").write_bytes(lowered.cuda.encode())
    output = program.build(staging, final)
    (staging / "ptxas.txt").write_text(output)
    (staging / "kernel.sass").write_text(_disassemble(staging / "kernel.cubin"))
    taken = resources(output, lowered.launches)
    artifact = Artifact(
        folder=str(final),
        kernel=kernel.name,
        workload=workload,
        tunables=tunables,
        arch=arch,
        compiler=program.version,
        command=tuple(program.command()),
        source_sha256=hashlib.sha256(lowered.cuda.encode()).hexdigest(),
        code_hash=code_hash((staging / "kernel.cubin").read_bytes()),
        resources=taken,
        findings=findings(output, (staging / "kernel.ptx").read_text(), arch, taken),
        environment=variables,
        instrumented=lowered.instrumented,
    )
    write_manifest(staging, artifact)


def _disassemble(cubin: Path) -> str:
    nvdisasm = need_tool("nvdisasm", "pip install nvidia-cuda-nvdisasm")
    done = run([str(nvdisasm), "-c", "-g", str(cubin)])
    if done.returncode:
        raise FailedError(f"nvdisasm cannot read the cubin: {done.stderr.strip()[:300]}", f"it is {nvdisasm}")
    return done.stdout
