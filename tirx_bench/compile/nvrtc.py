"""CUDA text to PTX and cubin by NVRTC, as TVM's default path does (tvm/support/nvcc.py), in a process of its own.

    python -m tirx_bench.compile.nvrtc SOURCE NAME OPTION...

compiles SOURCE under the file name NAME and writes kernel.ptx and kernel.cubin beside it; the log goes to stderr.
"""

from __future__ import annotations

import ctypes
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tirx_bench.compile.nvcc import UNDEFINED, checked, ptxas_options
from tirx_bench.model import FailedError, MissingError
from tirx_bench.tools import cuda_homes, find_tool, run, toolkit_root, wheel_root

# NVRTC has no host headers. TVM puts these declarations before the text, which shifts every line of it; as a header that
# is included first they leave the line tables true.
PRELUDE = b"""#include <cuda/std/cstdint>
using cuda::std::uint8_t; using cuda::std::uint16_t; using cuda::std::uint32_t; using cuda::std::uint64_t;
using cuda::std::int8_t; using cuda::std::int16_t; using cuda::std::int32_t; using cuda::std::int64_t;
#ifndef __asm__
#define __asm__ asm
#endif
#ifndef __volatile__
#define __volatile__ volatile
#endif
#include <cuda/std/limits>
#ifndef INFINITY
#define INFINITY (::cuda::std::numeric_limits<float>::infinity())
#endif
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef struct CUtensorMap_st CUtensorMap;
"""
HEADERS = {b"tirx_prelude.h": PRELUDE, b"cuda.h": b""}
# runpy warns of a module that its package has imported already; the warning would stand among the compiler's notes.
CHILD = (sys.executable, "-W", "ignore::RuntimeWarning:runpy", "-m", "tirx_bench.compile.nvrtc")


class Nvrtc:
    """NVRTC as installed here. Raises `MissingError` when the library or the CUDA headers are not there."""

    name = "nvrtc"

    def __init__(self, arch: str, flags: Sequence[str], variables: Mapping[str, str]):
        self.library = find_library()
        self.options = [
            f"--gpu-architecture={arch}",
            "-default-device",
            "--device-int128",
            *(f"-I{folder}" for folder in _includes()),
            *(f"-D__NV_SILENCE_{x}_{y}=" for x in ("DEPRECATION", "HOST_DEPRECATION") for y in ("BEGIN", "END")),
            *UNDEFINED,
            "--use_fast_math",
            *(f"--ptxas-options={o}" for o in ptxas_options(variables)),
            "-lineinfo",
            "--pre-include=tirx_prelude.h",
            "-diag-suppress=177,550,1046,1444",
            *shlex.split(variables.get("TVM_CUDA_NVRTC_EXTRA_OPTS", "")),
            *flags,
        ]
        major, minor = ctypes.c_int(), ctypes.c_int()
        _load(self.library).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"nvrtc {major.value}.{minor.value}"

    def command(self) -> list[str]:
        return [*CHILD, "kernel.cu", "kernel.cu", *self.options]

    def build(self, folder: Path, final: Path) -> str:
        """Write kernel.ptx and kernel.cubin beside kernel.cu in `folder`; line tables name `final`. Returns the output."""
        name = str(final / "kernel.cu")
        return checked(run([*CHILD, "kernel.cu", name, *self.options], cwd=folder), self.version)


def find_library() -> Path:
    roots = [home / sub for home in cuda_homes() for sub in ("lib64", "lib")]
    wheels = wheel_root()
    roots += [wheels / "lib"] if wheels else []
    nvcc = find_tool("nvcc")
    roots += [toolkit_root(nvcc) / "lib64", toolkit_root(nvcc) / "lib"] if nvcc else []
    for root in roots:
        if found := sorted(root.glob("libnvrtc.so.*")):
            return found[0]
    raise MissingError(
        "NVRTC is not installed",
        "pip install 'tirx-bench[gpu]' or 'tirx-bench[iket]' brings it; --compiler nvcc needs none",
    )


def _includes() -> list[Path]:
    nvcc = find_tool("nvcc")
    roots = [*cuda_homes(), *([toolkit_root(nvcc)] if nvcc else [])]
    for include in (root / "include" for root in roots):
        if (include / "cuda_runtime.h").is_file():
            return [include, include / "cccl"]
    raise MissingError("NVRTC needs the CUDA headers and none were found", "pip install 'cuda-toolkit[nvcc,cccl]'")


def _load(library: Path) -> ctypes.CDLL:
    # NVRTC opens its builtins by bare name, so they must be in the process first when they are not on the loader's path.
    for builtins in sorted(library.parent.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library))


class Program:
    """One NVRTC program; every call raises `FailedError` with the log when NVRTC says no."""

    def __init__(self, library: Path, source: bytes, name: str):
        self.api = _load(library)
        self.handle = ctypes.c_void_p()
        texts, names = (ctypes.c_char_p * len(HEADERS))(*HEADERS.values()), (ctypes.c_char_p * len(HEADERS))(*HEADERS)
        self._call("CreateProgram", ctypes.byref(self.handle), source, name.encode(), len(HEADERS), texts, names)

    def compile(self, options: Sequence[str]) -> str:
        array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        code = self.api.nvrtcCompileProgram(self.handle, len(options), array)
        log = self.read("ProgramLog").rstrip(b"\0").decode(errors="replace")
        if code:
            raise FailedError(log or f"nvrtcCompileProgram: error {code}")
        return log

    def read(self, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", self.handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", self.handle, buffer)
        return buffer.raw

    def _call(self, name: str, *arguments: object) -> None:
        if code := getattr(self.api, f"nvrtc{name}")(*arguments):
            raise FailedError(f"nvrtc{name}: error {code}")


def main(argv: Sequence[str]) -> int:
    source, name, *options = argv
    try:
        program = Program(find_library(), Path(source).read_bytes(), str(Path(name).absolute()))
        log = program.compile(options)
        folder = Path(source).parent
        (folder / "kernel.ptx").write_bytes(program.read("PTX").rstrip(b"\0"))
        (folder / "kernel.cubin").write_bytes(program.read("CUBIN"))
    except (FailedError, MissingError) as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    # NVRTC's ptxas continues a line where nvcc's indents it.
    print(re.sub(r"^ptxas +\. ", "", log, flags=re.MULTILINE), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
