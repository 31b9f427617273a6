"""A CUDA card through torch: arrays, and the ways in to its timers, its caches and its driver."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tirx_bench.device import BAND, Call, Loop, Product
from tirx_bench.device.conditions import under
from tirx_bench.device.helpers import Helpers
from tirx_bench.device.nvml import Nvml
from tirx_bench.device.timers import Timers
from tirx_bench.device.trace import constant_kernels
from tirx_bench.model import FailedError, MissingError, Shape

NOLOAD = 4  # RTLD_NOLOAD of dlfcn.h: only if the process has it already


class TorchRng:
    """Random arrays drawn on the card in FP32, or FP64 for that dtype, and rounded to the dtype."""

    def __init__(self, seed: int):
        import torch

        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.drawn: list[str] = []

    def normal(self, shape: Shape, dtype: str) -> Any:
        import torch

        self.drawn.append("normal(0, 1)")
        kind = getattr(torch, dtype)
        wide = kind if kind == torch.float64 else torch.float32
        return torch.randn(shape, device="cuda", dtype=wide, generator=self.generator).to(kind)

    def uniform(self, shape: Shape, dtype: str, low: float = 0.0, high: float = 1.0) -> Any:
        import torch

        self.drawn.append(f"uniform({low:g}, {high:g})")
        unit = torch.rand(shape, device="cuda", generator=self.generator)
        return (unit * (high - low) + low).to(getattr(torch, dtype))


class CudaDevice:
    """The current CUDA device. Raises `MissingError` when torch sees none."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingError(f"torch cannot be imported: {error}", "pip install 'tirx-bench[gpu]'") from error
        if not torch.cuda.is_available():
            raise MissingError("torch sees no CUDA device", "check nvidia-smi and that torch is a CUDA build")
        self.torch = torch
        self.properties = torch.cuda.get_device_properties(0)
        self.nvml = Nvml(str(self.properties.uuid))
        self.cudart = loaded("libcudart.so.13", "libcudart.so.12")
        self.helpers = Helpers(torch)
        self.timers = Timers(torch, self.helpers, self.synchronize)
        self.load_cycles = self.helpers.load_cycles
        self.time_calls = self.timers.time
        self.capture = self.timers.capture
        self.hidden_us = self.timers.hidden_us
        self.synchronizes = self.timers.synchronizes
        self.empty_event_us = self.timers.empty_event_us
        self.under = functools.partial(under, torch)
        self.others = self.nvml.others
        self.watch = self.nvml.watch

    @property
    def name(self) -> str:
        return str(self.properties.name)

    @property
    def uuid(self) -> str:
        return f"GPU-{self.properties.uuid}"

    @property
    def l2_bytes(self) -> int:
        return int(self.properties.L2_cache_size)

    @property
    def capability(self) -> str:
        return f"{self.properties.major}{self.properties.minor}"

    def describe(self) -> dict[str, Any]:
        p = self.properties
        return {"gpu": self.name, "gpu_uuid": self.uuid, "compute_capability": f"{p.major}.{p.minor}",
                "sms": p.multi_processor_count, "l2_bytes": p.L2_cache_size, "memory_bytes": p.total_memory,
                "torch_cuda": self.torch.version.cuda, **self.nvml.describe()}  # fmt: skip

    def rng(self, seed: int) -> TorchRng:
        return TorchRng(seed)

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        kind = getattr(self.torch, dtype)
        if kind.is_floating_point:
            return self.torch.full(shape, float("nan"), device="cuda").to(kind)
        array = self.torch.empty(shape, device="cuda", dtype=kind)
        array.view(self.torch.uint8).fill_(0xFF)
        return array

    def framed(self, shape: Shape, dtype: str) -> tuple[Any, Any]:
        kind = getattr(self.torch, dtype)
        size = 2 * BAND + math.prod(shape) * kind.itemsize
        frame = self.torch.full((size,), 0xFF, dtype=self.torch.uint8, device="cuda")
        return frame[BAND:-BAND].view(kind).reshape(shape), frame

    def broken(self, frame: Any) -> tuple[int, int]:
        bands = frame[:BAND], frame[-BAND:]
        before, behind = (int((band != 0xFF).sum()) for band in bands)
        for band in bands:
            band.fill_(0xFF)
        return before, behind

    def copy(self, array: Any) -> Any:
        return array.clone()

    def same_bits(self, a: Any, b: Any) -> bool:
        return bool(self.torch.equal(a.contiguous().view(self.torch.uint8), b.contiguous().view(self.torch.uint8)))

    def poison(self, arrays: Iterable[Any]) -> None:
        for array in arrays:
            array.copy_(self.poisoned(tuple(array.shape), self.dtype_of(array)))

    def bytes_of(self, arrays: Iterable[Any]) -> int:
        return sum(array.numel() * array.element_size() for array in arrays)

    def widen(self, array: Any) -> Any:
        integer = not array.dtype.is_floating_point and array.element_size() >= 4
        return array.double() if integer or array.dtype == self.torch.float64 else array.float()

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

    def rounded(self, wide: Any, dtype: str) -> Any:
        return self.widen(wide.to(getattr(self.torch, dtype)))

    def watched(self, arrays: Mapping[str, Any], product: Product) -> dict[str, Any]:
        torch: Any = self.torch

        class Watched(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if func.__name__ in ("__matmul__", "matmul", "mm"):
                    return product(*(a.as_subclass(torch.Tensor) for a in args)).as_subclass(cls)
                return super().__torch_function__(func, types, args, kwargs or {})

        # One class for all of them: torch computes nothing with two that do not know each other.
        return {name: array.as_subclass(Watched) for name, array in arrays.items()}

    def plain(self, array: Any) -> Any:
        return array.as_subclass(self.torch.Tensor)

    def matmul64(self, left: Any, right: Any) -> Any:
        return (left.double() @ right.double()).float()

    def exact_reference(self) -> str:
        self.torch.backends.cuda.matmul.allow_tf32 = False
        self.torch.backends.cudnn.allow_tf32 = False
        self.torch.set_float32_matmul_precision("highest")
        return "FP32 on the GPU by torch, TF32 off"

    def synchronize(self) -> None:
        try:
            self.torch.cuda.synchronize()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise FailedError(f"a kernel faulted: {reason}", "`tirx-bench collect sanitizer` finds the access") from error
        if unread := self._unread_error():
            raise FailedError(f"a launch failed and nobody read its error: {unread}", "check what the call's own launches return")

    def _unread_error(self) -> str:
        """The error that the CUDA runtime which torch uses has kept for who asks; asking clears it."""
        if self.cudart is None or not (code := self.cudart.cudaGetLastError()):
            return ""
        text = self.cudart.cudaGetErrorString
        text.restype = ctypes.c_char_p
        return str(text(code).decode())

    def libraries(self) -> str:
        """What computes when torch is called, with versions."""
        return ", ".join([f"torch {self.torch.__version__}", *_cublaslt()])

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """How much memory torch gives out at most inside the block, cuBLAS's workspace included."""
        if clear := getattr(self.torch._C, "_cuda_clearCublasWorkspaces", None):
            clear()  # what an earlier call left would not be counted for this one
        found, before = Workspace(), self.torch.cuda.memory_allocated()
        self.torch.cuda.reset_peak_memory_stats()
        yield found
        found.bytes = self.torch.cuda.max_memory_allocated() - before

    def launched(self, call: Call, before: Call) -> tuple[tuple[str, ...], int]:
        """The kernels and copies that one call starts, in order, and on how many streams. None if nothing runs on the device."""
        readings = self.time_calls("kernel", [call] * 3, Loop(before))
        return constant_kernels(readings, "a call"), max(r.streams for r in readings)

    def seconds(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    # ------------------------------------------------------------------------------------------- peaks

    def copy_us(self, size_bytes: int) -> list[float]:
        """Event intervals of a device-to-device copy of `size_bytes`."""
        source, target = (self.torch.empty(size_bytes, dtype=self.torch.uint8, device="cuda") for _ in range(2))
        return self._event_us([lambda: target.copy_(source)] * 12, "read")[2:]

    def matmul_us(self, size: int, dtype: str) -> list[float]:
        """Event intervals of torch.mm on random normal square matrices of that size."""
        rng = self.rng(0)
        a, b = (rng.normal((size, size), dtype) for _ in range(2))
        out = self.torch.empty_like(a)
        return self._event_us([lambda: self.torch.mm(a, b.t(), out=out)] * 14, None)[4:]

    def _event_us(self, calls: Sequence[Call], flush: str | None) -> list[float]:
        return [reading.us for reading in self.time_calls("event", calls, Loop(lambda: None, flush))]


@dataclass
class Workspace:
    bytes: int = 0


def loaded(*names: str) -> ctypes.CDLL | None:
    """The first of these libraries that this process has already."""
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name, mode=NOLOAD)
    return None


def _cublaslt() -> list[str]:
    """The version of the cuBLASLt that is loaded; nothing where there is none."""
    library = loaded("libcublasLt.so.13", "libcublasLt.so.12")
    if library is None:
        return []
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return [f"cuBLASLt {library.cublasLtGetVersion()}"]
