"""A device without hardware: numpy arrays and a clock that only its calls move. The logic above it runs in milliseconds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tirx_bench.device import BAND, Call, Loop, Product, Reading
from tirx_bench.model import CONDITIONS, CardState, Shape

EVICTION_US = 60.0
HOST_US = 1.0  # what asking costs: time passes even if a kernel takes none


class NumpyRng:
    def __init__(self, seed: int):
        import numpy

        self.generator = numpy.random.default_rng(seed)
        self.drawn: list[str] = []

    def normal(self, shape: Shape, dtype: str) -> Any:
        self.drawn.append("normal(0, 1)")
        drawn: Any = "float64" if dtype == "float64" else "float32"
        return self.generator.standard_normal(shape, drawn).astype(numpy_dtype(dtype))

    def uniform(self, shape: Shape, dtype: str, low: float = 0.0, high: float = 1.0) -> Any:
        self.drawn.append(f"uniform({low:g}, {high:g})")
        return self.generator.uniform(low, high, shape).astype(numpy_dtype(dtype))


def numpy_dtype(name: str) -> Any:
    import ml_dtypes
    import numpy

    return numpy.dtype(getattr(ml_dtypes, name, None) or name)


@dataclass
class FakeKernel:
    """A call that takes `us` of the device's time (a number, or a function of the clock) and has an effect.

    `host_us` is how much longer the host takes to launch it, `hidden_us` how long work of it goes on behind the stop event,
    `syncs` whether it waits for the device, `idle_us` how much of its span no activity runs.
    """

    device: FakeDevice
    us: float | Callable[[float], float]
    effect: Call
    host_us: float = 0.0
    hidden_us: float = 0.0
    syncs: bool = False
    idle_us: float = 0.0
    kernels: tuple[str, ...] = ("kernel",)

    def __call__(self) -> None:
        self.effect()
        self.device.clock_us += self.us(self.device.clock_us) if callable(self.us) else self.us


class FakeDevice:
    """`clock_us` is the device's time, which only work and waiting move; what the driver would say are attributes."""

    def __init__(self) -> None:
        self.clock_us = 0.0
        self.evictions = 0
        self.throttle: tuple[str, ...] = ()
        self.timers_used: list[str] = []
        self.cycles: dict[str | None, float] = {None: 280.0, "read": 650.0, "discard": 650.0}
        self.neighbours: list[str] = []
        self.condition = CONDITIONS[0]  # that launches are under
        self.clock_mhz: Callable[[float], float] = lambda clock_us: 1980.0
        self.tracing_us = 0.0  # what tracing adds to an event interval
        self.step_us = 0.0  # of the timers; 0: as fine as can be

    def kernel(self, us: float | Callable[[float], float], effect: Call = lambda: None, **traits: Any) -> FakeKernel:
        return FakeKernel(self, us, effect, **traits)

    def rng(self, seed: int) -> NumpyRng:
        return NumpyRng(seed)

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        import numpy

        kind = numpy_dtype(dtype)
        if kind.kind in "iub":
            return numpy.frombuffer(b"\xff" * (int(numpy.prod(shape)) * kind.itemsize), kind).reshape(shape).copy()
        return numpy.full(shape, numpy.nan).astype(kind)

    def poison(self, arrays: Iterable[Any]) -> None:
        for array in arrays:
            array[...] = self.poisoned(array.shape, self.dtype_of(array))

    def framed(self, shape: Shape, dtype: str) -> tuple[Any, Any]:
        import numpy

        kind = numpy_dtype(dtype)
        frame = numpy.full(2 * BAND + math.prod(shape) * kind.itemsize, 0xFF, numpy.uint8)
        return frame[BAND:-BAND].view(kind).reshape(shape), frame

    def broken(self, frame: Any) -> tuple[int, int]:
        bands = frame[:BAND], frame[-BAND:]
        before, behind = (int((band != 0xFF).sum()) for band in bands)
        for band in bands:
            band[...] = 0xFF
        return before, behind

    def copy(self, array: Any) -> Any:
        return array.copy()

    def same_bits(self, a: Any, b: Any) -> bool:
        return bool(a.tobytes() == b.tobytes())

    def widen(self, array: Any) -> Any:
        integer = array.dtype.kind in "iu" and array.dtype.itemsize >= 4
        return array.astype("float64" if integer or array.dtype == "float64" else "float32", copy=False)

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype)

    def rounded(self, wide: Any, dtype: str) -> Any:
        return self.widen(wide.astype(numpy_dtype(dtype)))

    def watched(self, arrays: Mapping[str, Any], product: Product) -> dict[str, Any]:
        import numpy

        class Watched(numpy.ndarray):
            def __matmul__(self, other: Any) -> Any:
                return numpy.asarray(product(numpy.asarray(self), numpy.asarray(other))).view(Watched)

            def __rmatmul__(self, other: Any) -> Any:
                return Watched.__matmul__(other, self)

            def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
                found = super().__array_function__(func, types, args, kwargs)
                return found.view(Watched) if isinstance(found, numpy.ndarray) else found

        return {name: array.view(Watched) for name, array in arrays.items()}

    def plain(self, array: Any) -> Any:
        import numpy

        return numpy.asarray(array)

    def matmul64(self, left: Any, right: Any) -> Any:
        return (left.astype("float64") @ right.astype("float64")).astype("float32")

    @contextlib.contextmanager
    def under(self, condition: str) -> Iterator[Call]:
        self.condition = condition
        try:
            yield lambda: None
        finally:
            self.condition = CONDITIONS[0]

    def exact_reference(self) -> str:
        return "FP32 by numpy"

    def synchronize(self) -> None:
        pass

    def evict_l2(self, flush: str) -> None:
        self.evictions += 1
        self.clock_us += EVICTION_US

    def time_calls(self, timer: str, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        self.timers_used.append(timer)
        self.clock_us += HOST_US
        return [self._time(timer, call, loop) for call in calls]

    def _time(self, timer: str, call: Call, loop: Loop) -> Reading:
        loop.before()
        if loop.flush is not None:
            self.evict_l2(loop.flush)
        start = self.clock_us
        for _ in range(1 if timer == "graph" else loop.calls):
            call()
        span = (self.clock_us - start) / loop.calls
        self.clock_us += getattr(call, "host_us", 0.0)
        span = max(span, self.step_us) // self.step_us * self.step_us if self.step_us else span
        interval = span + (0.0 if loop.gate else getattr(call, "host_us", 0.0))
        clock = self.clock_mhz(start)
        if timer != "kernel":
            return Reading(span if timer == "proton" else interval, start, clock, kernels=getattr(call, "kernels", ()))
        busy = span - getattr(call, "idle_us", 0.0)
        return Reading(span, start, clock, busy, interval + self.tracing_us, getattr(call, "kernels", ("kernel",)))

    def capture(self, call: Call, calls: int) -> Call:
        def replay() -> None:
            for _ in range(calls):
                call()

        return replay

    def hidden_us(self, call: Call, before: Call, held: bool) -> float:
        return float(getattr(call, "hidden_us", 0.0))

    def synchronizes(self, call: Call, before: Call) -> bool:
        return bool(getattr(call, "syncs", False))

    def empty_event_us(self) -> float:
        return 0.0

    def load_cycles(self, flush: str | None) -> float:
        return self.cycles[flush]

    @contextlib.contextmanager
    def watch(self) -> Iterator[FakeWatch]:
        yield FakeWatch(self)

    def others(self) -> list[str]:
        return self.neighbours

    def seconds(self) -> float:
        return self.clock_us / 1e6

    def sleep(self, seconds: float) -> None:
        self.clock_us += seconds * 1e6


class FakeWatch:
    def __init__(self, device: FakeDevice):
        self.device = device
        self.round = 0
        self.states: list[CardState] = []

    def look(self) -> None:
        clock = round(self.device.clock_mhz(self.device.clock_us))
        self.states.append(CardState(self.round, clock, 40, 300.0, self.device.throttle))
