"""CUDA text to PTX and cubin by nvcc, with the options that TVM itself would give it (tvm/support/nvcc.py)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tirx_bench.model import FailedError
from tirx_bench.tools import Completed, need_host_compiler, need_tool, run, tool_version

UNDEFINED = tuple(
    f"-U__CUDA_NO_{name}__"
    for name in ("HALF_OPERATORS", "HALF_CONVERSIONS", "BFLOAT16_OPERATORS", "BFLOAT16_CONVERSIONS",
                 "BFLOAT162_OPERATORS", "BFLOAT162_CONVERSIONS")
)  # fmt: skip


def ptxas_options(variables: Mapping[str, str]) -> list[str]:
    extra = shlex.split(variables.get("TVM_CUDA_PTXAS_EXTRA_OPTS", ""))
    level = variables.get("TVM_CUDA_PTXAS_REG_LEVEL", "10")
    return ["-v", f"--register-usage-level={level}", "--warn-on-local-memory-usage", *extra]


def options(arch: str, flags: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """nvcc's options for `arch`: TVM's, line information, and the flags that the user added."""
    suffix = arch.removeprefix("sm_")
    return [
        "-O3",
        f"-gencode=arch=compute_{suffix},code=sm_{suffix}",
        *(["-g", "-G"] if variables.get("TVM_KERNEL_DEBUG") == "1" else []),
        *UNDEFINED,
        "--expt-relaxed-constexpr",
        "--expt-extended-lambda",
        *([] if variables.get("TVM_CUDA_NVCC_NO_FAST_MATH") else ["--use_fast_math"]),
        f"--ptxas-options={','.join(ptxas_options(variables))}",
        "-lineinfo",
        "-diag-suppress=177,550,1046",  # unused names that generated code is full of; they would drown ptxas's notes
        *flags,
    ]


class Nvcc:
    """The compiler found on this machine. Raises `MissingError` when nvcc or its host compiler is not there."""

    name = "nvcc"

    def __init__(self, arch: str, flags: Sequence[str], variables: Mapping[str, str]):
        self.nvcc = need_tool("nvcc", "pip install 'cuda-toolkit[nvcc,cccl]', or set CUDA_HOME")
        need_host_compiler()
        self.options = options(arch, flags, variables)
        self.version = f"nvcc {tool_version(self.nvcc)}"

    def command(self) -> list[str]:
        """Rebuilds the cubin from kernel.cu, run in the artifact's folder."""
        return [str(self.nvcc), "-cubin", *self.options, "-o", "kernel.cubin", "kernel.cu"]

    def build(self, folder: Path, final: Path) -> str:
        """Write kernel.ptx and kernel.cubin beside kernel.cu in `folder`; line tables name `final`. Returns the output.

        In two steps, because with line information nvcc writes its own build folder into the tables: the PTX's `.file`
        line is turned to the final place, and ptxas makes the cubin from that PTX. The code is that of one step.
        """
        front = self._run(folder, "-ptx", "kernel.cu", "kernel.ptx")
        ptx = folder / "kernel.ptx"
        text = ptx.read_text()
        for place in (folder.resolve(), folder):  # nvcc names the real folder also when it got a link
            text = text.replace(str(place), str(final))
        ptx.write_text(text)
        return front + self._run(folder, "-cubin", "kernel.ptx", "kernel.cubin")

    def _run(self, folder: Path, kind: str, source: str, target: str) -> str:
        output = checked(run([str(self.nvcc), kind, *self.options, "-o", target, source], cwd=folder), self.version)
        if not (folder / target).is_file():
            raise FailedError(f"{self.version} ended well and wrote no {target}", "take back the --flag that changes its output")
        return output


def checked(done: Completed, compiler: str) -> str:
    """The compiler's output, or a `FailedError` that shows its message first."""
    if done.returncode < 0:
        raise FailedError(f"{compiler} was killed by signal {-done.returncode}", "nothing was kept; run it again")
    if done.returncode:
        errors = [line for line in done.output.splitlines() if "error" in line or "fatal" in line] or [done.output.strip()]
        shown = "\n".join(errors[:8])
        raise FailedError(f"{compiler} refused the generated CUDA:\n{shown}", _hint(done.output))
    return done.output


def _hint(output: str) -> str:
    if "not supported on .target" in output or "requires .target" in output:
        return "the instruction needs an architecture-specific target: its name ends in a, such as sm_90a"
    if "Unsupported gpu architecture" in output or "is not defined for option 'gpu-architecture'" in output:
        return "this compiler does not know the architecture; a newer CUDA toolkit may"
    return ""
