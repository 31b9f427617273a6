"""The only user of `subprocess` and `os.environ`: finds programs, runs them, and reads the environment."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tirx_bench.model import FailedError, MissingError, UsageError

# Variables that TVM's code generator or its compiler call read, so that they change the binary (tvm/support/nvcc.py,
# and the names in libtvm_compiler.so). They enter the artifact's hash and its manifest.
CODE_VARIABLES = frozenset({
    "TVM_CUDA_PTXAS_REG_LEVEL", "TVM_CUDA_PTXAS_EXTRA_OPTS", "TVM_CUDA_NVRTC_EXTRA_OPTS", "TVM_CUDA_NVCC_NO_FAST_MATH",
    "TVM_KERNEL_DEBUG", "TVM_ENABLE_L2_PREFETCH", "TVM_IKET_OFFICIAL_PROFILE", "TVM_IKET_INJECTED_CHILD_ENABLE",
})  # fmt: skip
# Variables that only change where TVM looks, logs or runs.
HARMLESS_VARIABLES = frozenset({
    "TVM_HOME", "TVM_LIBRARY_PATH", "TVM_NUM_THREADS", "TVM_BIND_THREADS", "TVM_THREAD_POOL_SPIN_COUNT", "TVM_LOG_DEBUG",
    "TVM_BACKTRACE", "TVM_CACHE_DIR", "TVM_KERNEL_DUMP", "TVM_CUDA_COMPILE_MODE", "TVM_PYGMENTIZE_STYLE",
    "TVM_BLACK_FORMAT", "TVM_CXX_COMPILER_PATH", "TVM_DEVICE_BACKEND_AUTOLOAD", "TVM_PRINT_AFTER_TIRX_DISPATCH_OPS",
    "TVM_USE_RUNTIME_LIB", "TVM_EXCLUDE_WORKER0",
})  # fmt: skip


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit status (negative: the signal that killed it) and its output."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


class TimedOutError(FailedError):
    """A program that did not end in time and was killed with everything it had started."""


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Completed:
    """Run a program in a process group of its own, and kill it with all that it started on a time-out or an interrupt.

    `env` is laid over the current environment. Raises `MissingError` if the program is not there, `TimedOutError`.
    """
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise MissingError(f"cannot run {argv[0]}: {error.strerror}") from error
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        kill_tree(process)
        raise TimedOutError(f"{Path(argv[0]).name} did not end within {timeout_s:g} s and was killed") from error
    except BaseException:
        kill_tree(process)
        raise
    return Completed(process.returncode, stdout, stderr)


def start(argv: Sequence[str], *, log: Path, pass_fd: int, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own; its output goes to `log`, its input is a pipe, and it inherits `pass_fd`.

    `env` is laid over the current environment.
    """
    with log.open("wb") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=(pass_fd,),
            env={**os.environ, **env},
            start_new_session=True,
        )


def die_with_parent() -> None:
    """Ask Linux to kill this process when the one that started it ends, in whatever way."""
    PR_SET_PDEATHSIG = 1  # linux/prctl.h
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_group(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_tree(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill a process, its group, and what they started in groups of their own, as a tool may do with the program it watches."""
    started = _descendants(process.pid)
    kill_group(process)
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):  # it ended meanwhile
            # proc(5): pid (comm) state ppid; the name may hold anything.
            parents[int(stat.parent.name)] = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:  # grows
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


# ---------------------------------------------------------------------------------------------- finding


def cuda_homes() -> list[Path]:
    return [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]


def wheel_root() -> Path | None:
    """The folder that NVIDIA's CUDA 13 wheels share, `nvidia/cu13` in site-packages."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (root := Path(place) / "cu13").is_dir():
            return root
    return None


def find_tool(name: str) -> Path | None:
    """A CUDA program: CUDA_HOME's or CUDA_PATH's, then PATH's, then the pip wheel's."""
    for home in cuda_homes():
        if (tool := home / "bin" / name).is_file():
            return tool
    if on_path := shutil.which(name):
        return Path(on_path)
    root = wheel_root()
    return tool if root and (tool := root / "bin" / name).is_file() else None


def need_tool(name: str, hint: str) -> Path:
    if tool := find_tool(name):
        return tool
    raise MissingError(f"{name} was not found in CUDA_HOME, CUDA_PATH, PATH or the pip wheels", hint)


@functools.cache
def tool_version(tool: Path) -> str:
    """The version that a CUDA program prints, such as 13.0.88; empty if it prints none."""
    match = re.search(r"\bV(\d+\.\d+\.\d+)", run([str(tool), "--version"], timeout_s=30).output)
    return match.group(1) if match else ""


@functools.cache
def toolkit_root(nvcc: Path) -> Path:
    """The toolkit that this nvcc belongs to. Asked of nvcc itself, because the file may be a wrapper script."""
    output = run([str(nvcc), "--dryrun", "-E", "-x", "cu", os.devnull], timeout_s=30).output
    match = re.search(r"^#\$ _HERE_=(.+)$", output, re.MULTILINE)
    return Path(match.group(1)).parent if match else nvcc.resolve().parent.parent


def host_compiler() -> str | None:
    """The C++ compiler that nvcc preprocesses with."""
    return os.environ.get("NVCC_CCBIN") or shutil.which("gcc")


def need_host_compiler() -> None:
    """nvcc itself says only "gcc: not found" when there is none."""
    if not host_compiler():
        raise MissingError("nvcc needs a C++ host compiler and none is on PATH", "install g++ (Debian: apt install g++)")


# ------------------------------------------------------------------------------------------ environment


def code_variables() -> dict[str, str]:
    """The TVM_* variables that are set and change code. Raises `UsageError` on one that is not known to be harmless."""
    present = {n: v for n, v in os.environ.items() if n.startswith("TVM_")}
    unknown = sorted(n for n in present if n not in CODE_VARIABLES | HARMLESS_VARIABLES and not n.startswith("TVM_FFI_"))
    if unknown:
        raise UsageError(f"{', '.join(unknown)} may change the code that TVM makes in ways no record would show", "unset it")
    return {n: present[n] for n in sorted(present) if n in CODE_VARIABLES}


@contextlib.contextmanager
def scoped_variable(name: str, value: str) -> Iterator[None]:
    """Set a variable for libraries that read it in this process, and restore it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


# What the profilers put into the environment of the programs that they watch, or load into them. CUPTI has one client.
PROFILER_VARIABLES = {
    "NV_TPS_LAUNCH_TOKEN": "ncu",
    "NSYS_PROFILING_SESSION_ID": "nsys",
    "CUDA_INJECTION64_PATH": "a profiler that injects a library (nsys, run-iket)",
    "TVM_IKET_INJECTED_CHILD_ENABLE": "run-iket",
}
PROFILER_LIBRARIES = {
    "libToolsInjection": "nsys",
    "libcuda-injection": "ncu",
    "libTreeLauncher": "ncu",
    "libsanitizer": "compute-sanitizer",
}


def profiler() -> str:
    """The profiler that this process runs under; empty if none."""
    for variable, name in PROFILER_VARIABLES.items():
        if os.environ.get(variable):
            return f"{name} ({variable} is set)"
    with contextlib.suppress(OSError):
        maps = Path("/proc/self/maps").read_text()
        for library, name in PROFILER_LIBRARIES.items():
            if library in maps:
                return f"{name} ({library} is loaded)"
    return ""


def launches_block() -> bool:
    """Whether every launch of this process waits for the device (CUDA C++ Programming Guide, "Environment Variables")."""
    return os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"


def visible_device(index: int) -> str:
    """What CUDA_VISIBLE_DEVICES must say so that a program sees only device `index` of those visible here.

    Raises `UsageError` when fewer are visible. An empty variable hides all devices, and stays so.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(index)
    devices = visible.split(",")
    if index >= len(devices):
        raise UsageError(f"there is no device {index}: CUDA_VISIBLE_DEVICES is {visible}")
    return devices[index].strip()
