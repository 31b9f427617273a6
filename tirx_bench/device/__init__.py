"""The device that verify, timing and launch get as an argument: a CUDA card, or the fake of one."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tirx_bench.model import CardState, Shape

Call = Callable[[], Any]
Product = Callable[[Any, Any], Any]
BAND = 1 << 18  # bytes; a multiple of every alignment that a kernel may ask for


class Rng(Protocol):
    """Seeded random arrays on the device. `drawn` names the distributions that were drawn from, in order."""

    drawn: list[str]

    def normal(self, shape: Shape, dtype: str) -> Any: ...

    def uniform(self, shape: Shape, dtype: str, low: float = 0.0, high: float = 1.0) -> Any: ...


@dataclass(frozen=True)
class Loop:
    """What surrounds every timed call, outside its interval."""

    before: Call
    flush: str | None = None  # how L2 is evicted; None: it is not
    gate: bool = False  # hold the device until the host has launched the call
    calls: int = 1  # back to back in one interval


@dataclass(frozen=True)
class Reading:
    """One interval by one timer, per call in microseconds; `at_us` is its beginning on a clock of the device or the host."""

    us: float
    at_us: float
    clock_mhz: float | None = None
    busy_us: float | None = None
    event_us: float | None = None
    kernels: tuple[str, ...] = ()
    streams: int = 1


class Watch(Protocol):
    """Asks the driver for the card's state while something runs; `round` is what the answers are filed under."""

    round: int
    states: list[CardState]

    def look(self) -> None:
        """Ask now."""


class Device(Protocol):
    """What the layers above need of a device. Arrays are torch tensors or numpy arrays."""

    def rng(self, seed: int) -> Rng: ...

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        """An array filled with NaN, or with all bits set where the dtype has no NaN."""

    def poison(self, arrays: Iterable[Any]) -> None:
        """Fill arrays as `poisoned` does."""

    def framed(self, shape: Shape, dtype: str) -> tuple[Any, Any]:
        """An array with `BAND` bytes of ones bits on either side, which are NaN to who reads them, and all that memory."""

    def broken(self, frame: Any) -> tuple[int, int]:
        """How many bytes in front of and behind the array are not as `framed` left them. They are again afterwards."""

    def copy(self, array: Any) -> Any: ...

    def same_bits(self, a: Any, b: Any) -> bool:
        """Whether two arrays of one shape and dtype are equal bit for bit, NaN included."""

    def widen(self, array: Any) -> Any:
        """The array in FP32; FP64 stays, and integers of 32 bits and more become FP64, which holds them exactly."""

    def dtype_of(self, array: Any) -> str: ...

    def rounded(self, wide: Any, dtype: str) -> Any:
        """A widened array rounded to nearest in `dtype`, and widened again."""

    def watched(self, arrays: Mapping[str, Any], product: Product) -> dict[str, Any]:
        """The arrays, and whatever is computed from them, with `product` in the place of ``@``."""

    def plain(self, array: Any) -> Any:
        """A watched array as an ordinary one."""

    def matmul64(self, left: Any, right: Any) -> Any:
        """The product of two FP32 arrays, computed in FP64 and rounded to FP32."""

    def under(self, condition: str) -> AbstractContextManager[Call]:
        """Launch under a condition of `CONDITIONS`. What the block gets starts the disturbance and is called before a launch.

        Raises `UsageError` for "serial" when this process's launches are not.
        """

    def exact_reference(self) -> str:
        """Turn reduced-precision paths off for FP32 arithmetic, and say what was done."""

    def synchronize(self) -> None:
        """Wait for all work. Raises `FailedError` when a kernel faulted."""

    def time_calls(self, timer: str, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        """Time each call in order. Raises `MissingError` naming the other timers when this one is not installed, and
        `FailedError` when the timer cannot say what a call did."""

    def capture(self, call: Call, calls: int) -> Call:
        """A CUDA graph of `calls` calls, as the call that replays it. Raises `FailedError` when it holds no work."""

    def hidden_us(self, call: Call, before: Call, held: bool) -> float:
        """For how long the device is still busy after an event behind one call, beyond what an idle device shows.

        `held`: every SM is kept busy until the host has launched it all, or a device that is ahead of a slow host has done
        what nobody waits for. A call that waits for the device cannot be held.
        """

    def synchronizes(self, call: Call, before: Call) -> bool:
        """Whether the call waits for the device: it does not return while a waiting kernel holds the stream."""

    def empty_event_us(self) -> float:
        """What two events show with nothing between them, while the device is busy."""

    def load_cycles(self, flush: str | None) -> float:
        """Cycles of one dependent load from memory that was just read, and then evicted by `flush` unless that is None."""

    def watch(self) -> AbstractContextManager[Watch]: ...

    def others(self) -> list[str]:
        """Who else uses the card, by its driver."""

    def seconds(self) -> float:
        """The host's clock."""

    def sleep(self, seconds: float) -> None: ...


def absent() -> str:
    """Why no kernel can be launched from here; empty if one can. Loads neither torch nor TVM."""
    if reason := _driver()[1]:
        return f"there is no CUDA device: {reason}"
    if importlib.util.find_spec("torch") is None:
        return "there is a CUDA device but torch is not installed: pip install 'tirx-bench[gpu]'"
    return ""


def present_arch(index: int = 0) -> str:
    """A device's compute capability as digits, such as 90; empty without that device."""
    cuda, reason = _driver()
    if cuda is None or reason:
        return ""
    digits = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        value = ctypes.c_int()
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, index):
            return ""
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
