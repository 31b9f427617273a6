"""A kernel's PrimFuncs to the CUDA text that TVM generates and the launches its host code makes. Needs no GPU."""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tirx_bench.model import FailedError, Kernel, MissingError, Params, Shape, UsageError, WorkbenchError, call
from tirx_bench.tools import scoped_variable
from tirx_bench.tools.ir import operation, walk


@dataclass(frozen=True)
class Launch:
    """How the host code launches one device function; 0 where the number is not a constant."""

    function: str
    grid: Shape
    cluster: Shape
    threads: int
    dynamic_smem_bytes: int


@dataclass(frozen=True)
class Lowered:
    """The CUDA text of one module, and its launches in the host code's order."""

    cuda: str
    launches: tuple[Launch, ...]

    @property
    def instrumented(self) -> bool:
        return "pmevent" in self.cuda  # what an IKET event becomes


def build_functions(kernel: Kernel, params: Params) -> dict[str, Any]:
    """The kernel's PrimFuncs by name, in launch order; a single one is called main.

    Raises `FailedError` naming the line of the kernel's file when its build raises.
    """
    try:
        with _remembered_frames():
            built = call(kernel.build, params)
    except WorkbenchError:
        raise
    except ModuleNotFoundError as error:
        raise MissingError(f"the build of {kernel.name} imports {error.name}, which is not installed") from error
    except Exception as error:
        raise FailedError(f"the build of {kernel.name} raised {_one_line(error)}{_place(kernel, error)}") from error
    functions = dict(built) if isinstance(built, Mapping) else {"main": built}
    if kernel.launch and set(kernel.launch) != set(functions):
        raise UsageError(f"{kernel.name}: build returns {sorted(functions)} and launch names {sorted(kernel.launch)}")
    for name, function in functions.items():
        if type(function).__name__ != "PrimFunc":
            raise UsageError(f"{kernel.name}: build gives a {type(function).__name__} for {name!r}, not a PrimFunc")
    return {name: functions[name] for name in kernel.launch or functions}


@contextlib.contextmanager
def _remembered_frames() -> Iterator[None]:
    """Let `inspect` remember what it found out about a place in the code.

    TVM's parser walks the whole Python stack dozens of times, and for every frame of every walk `inspect` searches the
    loaded modules and the source: half of the time that a GEMM takes to build.
    """
    look = inspect.getframeinfo
    known: dict[tuple[int, int, int], tuple[inspect.Traceback, Any]] = {}

    def getframeinfo(frame: Any, context: int = 1) -> inspect.Traceback:
        if not inspect.isframe(frame):
            return look(frame, context)
        place = (id(frame.f_code), frame.f_lasti, context)  # the code's own hash would cost what this saves
        if place not in known:
            known[place] = look(frame, context), frame.f_code  # kept, so that the id stays its own
        return known[place][0]

    inspect.getframeinfo = getframeinfo
    try:
        yield
    finally:
        inspect.getframeinfo = look


def load_tvm() -> None:
    """Import TVM, without letting it import torch, which takes 3 s and which only the GPU process needs.

    tvm_ffi imports torch first where it is installed. A kernel file that has imported it already keeps it.
    """
    if "torch" in sys.modules or "tvm" in sys.modules:
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import tvm  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingError(f"{error.name} is not installed", "pip install tirx-bench brings apache-tvm") from error
    finally:
        del sys.modules["torch"]


def compile_module(functions: Mapping[str, Any], arch: str, instruments: tuple[Any, ...] = ()) -> Any:
    """`tvm.compile` of the functions as one module for `arch`. TVM's own errors become a `FailedError`."""
    import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    try:
        with tvm.transform.PassContext(instruments=list(instruments)):
            return tvm.compile(tvm.IRModule(dict(functions)), target=target, tir_pipeline="tirx")
    except WorkbenchError:
        raise
    except Exception as error:
        raise FailedError(f"TVM cannot lower the kernel for {arch}: {_one_line(error)}") from error


def lower(functions: Mapping[str, Any], arch: str) -> Lowered:
    """The CUDA text and launches of `functions`. Nothing is compiled for the device here, also where there is a driver."""
    import tvm

    split: list[Any] = []

    @tvm.instrument.pass_instrument
    class AfterSplit:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name == "tirx.SplitHostDevice":
                split.append(module)

    # With a driver, tvm.compile would hand the text to the device compiler at once; this variable keeps it as text.
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"), _remembered_frames():
        executable = compile_module(functions, arch, (AfterSplit(),))
    if not executable.mod.imports:
        raise FailedError(
            f"TVM made no code for the device from {', '.join(functions)}", "begin the kernel with T.device_entry()"
        )
    launches = tuple(_launch(c) for m in split for f in m.functions.values() for c in _calls(f.body))
    return Lowered(executable.mod.imports[0].inspect_source("cuda"), launches)


def _calls(body: Any) -> list[Any]:
    """Every `call_ffi_kernel` under a statement."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if type(node).__name__ == "Call" and operation(node).endswith("call_ffi_kernel"):
            found.append(node)

    walk(body, visit)
    return found


def _launch(call_node: Any) -> Launch:
    names = [str(n) for n in call_node.attrs["launch_params"]]
    values = [int(v) if type(v).__name__ == "IntImm" else 0 for v in list(call_node.args)[-len(names) :]]
    by_name = dict(zip(names, values, strict=True))

    def triple(prefix: str) -> Shape:
        return tuple(by_name.get(f"{prefix}.{axis}", 1) for axis in "xyz")

    x, y, z = triple("threadIdx")
    return Launch(
        function=str(call_node.args[0].value),
        grid=triple("blockIdx"),
        cluster=triple("clusterCtaIdx"),
        threads=x * y * z,
        dynamic_smem_bytes=by_name.get("tirx.use_dyn_shared_memory", 0),
    )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}" if text else type(error).__name__


def _place(kernel: Kernel, error: BaseException) -> str:
    """Where in the kernel's own file the error came from."""
    build = inspect.unwrap(kernel.build)  # the catalog wraps what a file defines
    file = build.__code__.co_filename if hasattr(build, "__code__") else ""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" at {file}:{lines[-1]}" if lines else ""
