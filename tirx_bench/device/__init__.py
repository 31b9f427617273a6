"""The device that verify, timing and launch get as an argument: a CUDA card, or the fake of one."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tirx_bench.model import RoundState, Shape

Call = Callable[[], Any]


class Rng(Protocol):
    """Seeded random arrays on the device. `drawn` names the distributions that were drawn from, in order."""

    drawn: list[str]

    def normal(self, shape: Shape, dtype: str) -> Any: ...

    def uniform(self, shape: Shape, dtype: str, low: float = 0.0, high: float = 1.0) -> Any: ...


class Device(Protocol):
    """What the layers above need of a device. Arrays are torch tensors or numpy arrays."""

    def rng(self, seed: int) -> Rng: ...

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        """An array filled with NaN, or with all bits set where the dtype has no NaN."""

    def copy(self, array: Any) -> Any: ...

    def widen(self, array: Any) -> Any:
        """The array in FP32; FP64 stays, and integers of 32 bits and more become FP64, which holds them exactly."""

    def dtype_of(self, array: Any) -> str: ...

    def exact_reference(self) -> str:
        """Turn reduced-precision paths off for FP32 arithmetic, and say what was done."""

    def synchronize(self) -> None:
        """Wait for all work. Raises `FailedError` when a kernel faulted."""

    def evict_l2(self) -> None: ...

    def time_calls(self, timer: str, calls: Sequence[Call], before: Call) -> list[float]:
        """Run `before` and then each call, in order; the microseconds of each call by that timer, in order.

        Raises `MissingError` naming the other timers when this one is not installed.
        """

    def state(self, round_number: int) -> RoundState: ...


def absent() -> str:
    """Why no kernel can be launched from here; empty if one can. Loads neither torch nor TVM."""
    if reason := _driver()[1]:
        return f"there is no CUDA device: {reason}"
    if importlib.util.find_spec("torch") is None:
        return "there is a CUDA device but torch is not installed: pip install 'tirx-bench[gpu]'"
    return ""


def present_arch() -> str:
    """The first device's compute capability as digits, such as 90; empty without a device."""
    cuda, reason = _driver()
    if cuda is None or reason:
        return ""
    digits = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        digits.append(str(value.value))
    return "".join(digits)


@functools.cache
def _driver() -> tuple[ctypes.CDLL | None, str]:
    """The driver's library, and why it has no device."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "the driver's libcuda.so.1 is not installed"
    if not hasattr(cuda, "cuInit"):
        return None, "libcuda.so.1 is a stub"
    count = ctypes.c_int()
    if (code := cuda.cuInit(0)) or (code := cuda.cuDeviceGetCount(ctypes.byref(count))):
        return cuda, f"the driver answers error {code}"
    return cuda, "" if count.value else "the driver lists none"
