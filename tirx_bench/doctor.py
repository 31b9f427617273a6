"""What is installed here, and which commands work with it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

from tirx_bench.device import absent, present_arch
from tirx_bench.model import MissingError, unknown
from tirx_bench.tools import find_tool, host_compiler, tool_version
from tirx_bench.tools.environment import package_version

IKET_NVRTC = "13.2.78"  # what TVM's official IKET profile pins


@dataclass(frozen=True)
class Row:
    """One tool or package: `found` with its version and place, or what to do."""

    name: str
    found: bool
    version: str
    detail: str


PACKAGES = {
    "apache-tvm": ("tvm", "pip install tirx-bench"),
    "pyelftools": ("elftools", "pip install tirx-bench"),
    "torch": ("torch", "pip install 'tirx-bench[gpu]'"),
    "cuda-bindings": ("cuda.bindings", "pip install 'tirx-bench[gpu]'"),
    "triton": ("triton", "pip install 'tirx-bench[gpu]'"),
    "nvidia-ml-py": ("pynvml", "pip install 'tirx-bench[gpu]'"),
    "nvidia-cutlass-dsl": ("nvidia_cutlass_dsl", "pip install 'tirx-bench[iket]' in an environment without torch"),
}
TOOLS = {
    "nvcc": "pip install 'cuda-toolkit[nvcc,cccl]', or set CUDA_HOME",
    "nvdisasm": "pip install nvidia-cuda-nvdisasm",
    "ncu": "comes with Nsight Compute",
    "nsys": "comes with Nsight Systems",
    "run-iket": "pip install 'tirx-bench[iket]' in an environment without torch",
    "compute-sanitizer": "comes with the CUDA toolkit, in the package cuda-sanitizer",
}
COMPILE = ("apache-tvm", "pyelftools", "nvcc", "nvdisasm", "C++ compiler")
GPU = (*COMPILE, "CUDA device", "torch")
NEEDS: dict[str, tuple[str, ...]] = {
    "list": (),
    "doctor": (),
    "show": (),
    "compare": (),
    "lint": ("apache-tvm",),
    "compile": COMPILE,
    "simulate": ("apache-tvm",),
    "run": COMPILE,
    "verify": GPU,
    "bench": (*GPU, "cuda-bindings"),
    "launch": GPU,
    "collect": (*GPU, "compute-sanitizer"),
}


def examine() -> tuple[Row, ...]:
    """Every row, in the order of `NEEDS`' stages. Imports none of the packages."""
    rows = [_host(), *(_tool(n, hint) for n, hint in TOOLS.items()), _device()]
    rows += [_package(name, module, hint) for name, (module, hint) in PACKAGES.items()]
    return (Row("python", True, sys.version.split()[0], sys.executable), *rows, _iket())


def _host() -> Row:
    path = host_compiler()
    return Row("C++ compiler", bool(path), "", path or "install g++ (Debian: apt install g++)")


def _tool(name: str, hint: str) -> Row:
    tool = find_tool(name)
    if tool is None:
        return Row(name, False, "", hint)
    return Row(name, True, tool_version(tool) if name.startswith("nv") else "", str(tool))


def _package(name: str, module: str, hint: str) -> Row:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of a package that is not there either
        spec = None
    if spec is None:
        return Row(name, False, "", hint)
    place = spec.origin or next(iter(spec.submodule_search_locations or []), "")
    return Row(name, True, package_version(name) or "", place)


def _device() -> Row:
    arch = present_arch()
    return Row("CUDA device", bool(arch), f"sm_{arch}" if arch else "", "" if arch else absent())


def _iket() -> Row:
    """The IKET profile pins an NVRTC that pip cannot install beside torch's."""
    nvrtc, torch = package_version("nvidia-cuda-nvrtc"), package_version("torch")
    if nvrtc == IKET_NVRTC and package_version("nvidia-cutlass-dsl"):
        return Row("IKET profile", True, nvrtc, "complete")
    if torch:
        pins = f"it pins nvidia-cuda-nvrtc {IKET_NVRTC} and torch {torch} pins {nvrtc or 'another'}"
        detail = f"{pins}: use an environment without torch"
        return Row("IKET profile", False, "", detail)
    return Row("IKET profile", False, "", f"pip install 'tirx-bench[iket]' (nvidia-cuda-nvrtc {IKET_NVRTC})")


def missing(command: str, rows: tuple[Row, ...]) -> list[Row]:
    return [row for row in rows if row.name in NEEDS[command] and not row.found]


def require(command: str, rows: tuple[Row, ...]) -> None:
    """Raise `MissingError` with what to do when `command` cannot work here."""
    if command not in NEEDS:
        raise unknown("command", command, NEEDS)
    if lacking := missing(command, rows):
        raise MissingError(
            f"{command} cannot work here: {', '.join(row.name for row in lacking)} missing",
            "; ".join(f"{row.name}: {row.detail}" for row in lacking),
        )
