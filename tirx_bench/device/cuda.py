"""A CUDA card through torch: arrays, events, cache eviction and the driver's view of clocks."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tirx_bench.device import Call
from tirx_bench.model import FailedError, MissingError, RoundState, Shape

# NVML's clocksEventReasons bits that mean the card was held back; nvml.h.
THROTTLE_BITS = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal",
                 0x80: "power brake"}  # fmt: skip


class TorchRng:
    """Random arrays drawn on the card in FP32 and rounded to the dtype."""

    def __init__(self, seed: int):
        import torch

        self.generator = torch.Generator(device="cuda").manual_seed(seed)
        self.drawn: list[str] = []

    def normal(self, shape: Shape, dtype: str) -> Any:
        import torch

        self.drawn.append("normal(0, 1)")
        return torch.randn(shape, device="cuda", generator=self.generator).to(getattr(torch, dtype))

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
        self.nvml = _Nvml(str(self.properties.uuid))
        self._evictor: Any = None

    @property
    def name(self) -> str:
        return str(self.properties.name)

    @property
    def uuid(self) -> str:
        return f"GPU-{self.properties.uuid}"

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

    def copy(self, array: Any) -> Any:
        return array.clone()

    def widen(self, array: Any) -> Any:
        integer = not array.dtype.is_floating_point and array.element_size() >= 4
        return array.double() if integer or array.dtype == self.torch.float64 else array.float()

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype).removeprefix("torch.")

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
            raise FailedError(
                f"a kernel faulted: {reason}", "compute-sanitizer on `tirx-bench launch` finds the access"
            ) from error

    def evict_l2(self) -> None:
        """Write four times the L2's size, so that nothing of the last call is left in it."""
        if self._evictor is None:
            self._evictor = self.torch.empty(4 * self.properties.L2_cache_size, dtype=self.torch.uint8, device="cuda")
        self._evictor.zero_()

    def state(self, round_number: int) -> RoundState:
        return self.nvml.state(round_number)

    # ------------------------------------------------------------------------------------------ timers

    def time_calls(self, timer: str, calls: Sequence[Call], before: Call) -> list[float]:
        return {"event": self._event, "proton": self._proton, "wall": self._wall}[timer](calls, before)

    def _event(self, calls: Sequence[Call], before: Call) -> list[float]:
        pairs = []
        for call in calls:
            before()
            start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            stop.record()
            pairs.append((start, stop))
        self.synchronize()
        return [start.elapsed_time(stop) * 1e3 for start, stop in pairs]

    def _wall(self, calls: Sequence[Call], before: Call) -> list[float]:
        times = []
        for call in calls:
            before()
            self.synchronize()
            start = time.perf_counter()
            call()
            self.synchronize()
            times.append((time.perf_counter() - start) * 1e6)
        return times

    def _proton(self, calls: Sequence[Call], before: Call) -> list[float]:
        try:
            import triton.profiler as proton
        except ImportError as error:
            raise MissingError(f"the proton timer needs triton: {error}", "use --timer event or --timer wall") from error
        with tempfile.TemporaryDirectory() as folder:
            session = proton.start(str(Path(folder, "calls")), backend="cupti")
            for number, call in enumerate(calls):
                before()
                with proton.scope(f"call {number}"):
                    call()
            self.synchronize()
            proton.finalize(session)
            tree = json.loads(Path(folder, "calls.hatchet").read_text())
        return scope_times_us(tree, len(calls))

    # ------------------------------------------------------------------------------------------- peaks

    def copy_us(self, size_bytes: int) -> list[float]:
        """Event intervals of a device-to-device copy of `size_bytes`."""
        source, target = (self.torch.empty(size_bytes, dtype=self.torch.uint8, device="cuda") for _ in range(2))
        return self._event([lambda: target.copy_(source)] * 12, self.evict_l2)[2:]

    def matmul_us(self, size: int, dtype: str) -> list[float]:
        """Event intervals of torch.mm on random normal square matrices of that size."""
        rng = self.rng(0)
        a, b = (rng.normal((size, size), dtype) for _ in range(2))
        out = self.torch.empty_like(a)
        return self._event([lambda: self.torch.mm(a, b.t(), out=out)] * 14, lambda: None)[4:]


def scope_times_us(tree: list[Any], count: int) -> list[float]:
    """A Proton tree to the kernel time of each scope "call 0" to "call <count - 1>", in microseconds.

    Raises `FailedError` when a scope holds no kernel: a sample would be missing, or another timer's.
    """
    times: dict[str, float] = {}

    def leaves(node: dict[str, Any]) -> float:
        children = node.get("children", [])
        return sum(map(leaves, children)) if children else float(node.get("metrics", {}).get("time (ns)", 0))

    for root in tree:
        for scope in root.get("children", []):
            times[scope["frame"]["name"]] = leaves(scope) / 1e3
    wanted = [f"call {n}" for n in range(count)]
    if lost := [name for name in wanted if not times.get(name)]:
        raise FailedError(
            f"Proton recorded no kernel for {len(lost)} of {count} calls", "use --timer event, which needs no profiler"
        )
    return [times[name] for name in wanted]


class _Nvml:
    """The driver's view of one card; every answer is None where nvidia-ml-py is missing or the driver does not say."""

    def __init__(self, uuid: str):
        self.handle = None
        try:
            import pynvml
        except ImportError:
            return
        self.api = pynvml
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except pynvml.NVMLError:
            self.handle = None

    def _ask(self, name: str, *arguments: Any) -> Any:
        if self.handle is None:
            return None
        try:
            return getattr(self.api, name)(self.handle, *arguments)
        except self.api.NVMLError:
            return None

    def describe(self) -> dict[str, Any]:
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        driver = self.api.nvmlSystemGetDriverVersion() if self.handle is not None else None
        return {
            "driver": driver,
            "power_limit_w": None if limit is None else limit / 1000,
            "max_sm_clock_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self.api.NVML_CLOCK_SM) if self.handle else None,
            "sm_clock_mhz": self._clock(),
            "temperature_c": self._ask("nvmlDeviceGetTemperature", 0),
        }

    def _clock(self) -> int | None:
        return None if self.handle is None else self._ask("nvmlDeviceGetClockInfo", self.api.NVML_CLOCK_SM)

    def state(self, round_number: int) -> RoundState:
        power = self._ask("nvmlDeviceGetPowerUsage")
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return RoundState(
            round=round_number,
            sm_clock_mhz=self._clock(),
            temperature_c=self._ask("nvmlDeviceGetTemperature", 0),
            power_w=None if power is None else power / 1000,
            throttle=tuple(name for bit, name in THROTTLE_BITS.items() if bits & bit),
        )
