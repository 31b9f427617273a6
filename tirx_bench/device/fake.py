"""A device without hardware: numpy arrays and a clock that only its calls move. The logic above it runs in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tirx_bench.device import Call
from tirx_bench.model import RoundState, Shape

EVICTION_US = 60.0


class NumpyRng:
    def __init__(self, seed: int):
        import numpy

        self.generator = numpy.random.default_rng(seed)
        self.drawn: list[str] = []

    def normal(self, shape: Shape, dtype: str) -> Any:
        self.drawn.append("normal(0, 1)")
        return self.generator.standard_normal(shape, "float32").astype(numpy_dtype(dtype))

    def uniform(self, shape: Shape, dtype: str, low: float = 0.0, high: float = 1.0) -> Any:
        self.drawn.append(f"uniform({low:g}, {high:g})")
        return self.generator.uniform(low, high, shape).astype(numpy_dtype(dtype))


def numpy_dtype(name: str) -> Any:
    import ml_dtypes
    import numpy

    return numpy.dtype(getattr(ml_dtypes, name, None) or name)


class FakeDevice:
    """`clock_us` is the device's time; `evictions` counts L2 evictions; `throttle` is what the driver reports."""

    def __init__(self) -> None:
        self.clock_us = 0.0
        self.evictions = 0
        self.throttle: tuple[str, ...] = ()
        self.timers_used: list[str] = []

    def kernel(self, us: float | Callable[[float], float], effect: Call = lambda: None) -> Call:
        """A call that takes `us` of the device's time (a number, or a function of the clock) and has an effect."""

        def launch() -> None:
            effect()
            self.clock_us += us(self.clock_us) if callable(us) else us

        return launch

    def rng(self, seed: int) -> NumpyRng:
        return NumpyRng(seed)

    def poisoned(self, shape: Shape, dtype: str) -> Any:
        import numpy

        kind = numpy_dtype(dtype)
        if kind.kind in "iub":
            return numpy.frombuffer(b"\xff" * (int(numpy.prod(shape)) * kind.itemsize), kind).reshape(shape).copy()
        return numpy.full(shape, numpy.nan).astype(kind)

    def copy(self, array: Any) -> Any:
        return array.copy()

    def widen(self, array: Any) -> Any:
        integer = array.dtype.kind in "iu" and array.dtype.itemsize >= 4
        return array.astype("float64" if integer or array.dtype == "float64" else "float32", copy=False)

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype)

    def exact_reference(self) -> str:
        return "FP32 by numpy"

    def synchronize(self) -> None:
        pass

    def evict_l2(self) -> None:
        self.evictions += 1
        self.clock_us += EVICTION_US

    def time_calls(self, timer: str, calls: Sequence[Call], before: Call) -> list[float]:
        self.timers_used.append(timer)
        times = []
        for call in calls:
            before()
            start = self.clock_us
            call()
            times.append(self.clock_us - start)
        return times

    def state(self, round_number: int) -> RoundState:
        return RoundState(round_number, 1980, 40, 300.0, self.throttle)
