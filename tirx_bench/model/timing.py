"""How to time, and every sample that was taken."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from tirx_bench.model.errors import NothingRanError, UsageError, unknown

TIMERS = {
    "event": "CUDA event interval: stream time between two events around one call",
    "proton": "kernel time: the sum of the device times of the kernels that one call launched",
    "wall": "single-call latency: from the host call to the end of its device work, synchronised",
}
CACHES = {"cold": "L2 evicted before every call, outside the interval", "warm": "nothing evicted between calls"}


@dataclass(frozen=True)
class TimingPolicy:
    """How to time. Budgets in milliseconds of device time; `rounds` rounds alternate the order of the implementations."""

    timer: str = "event"
    cache: str = "cold"
    warmup_ms: float = 300.0
    repeat_ms: float = 320.0
    rounds: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.timer not in TIMERS:
            raise unknown("timer", self.timer, TIMERS)
        if self.cache not in CACHES:
            raise unknown("cache policy", self.cache, CACHES)
        if self.rounds < 1 or not self.repeat_ms > 0 or not self.warmup_ms >= 0:
            raise UsageError("a timing policy needs rounds >= 1, repeat_ms > 0 and warmup_ms >= 0")


@dataclass(frozen=True)
class Sample:
    """One timed call, in the order it was taken."""

    implementation: str
    round: int
    us: float


@dataclass(frozen=True)
class RoundState:
    """The card before a round. None: the driver does not say."""

    round: int
    sm_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle: tuple[str, ...]


@dataclass(frozen=True)
class Timing:
    """Every sample in order; medians and intervals are derived from it."""

    policy: TimingPolicy
    samples: tuple[Sample, ...]
    rounds: tuple[RoundState, ...]
    verified: bool

    def __post_init__(self) -> None:
        if not self.verified:
            raise UsageError("a timing needs a passed verification")
        if not self.samples:
            raise NothingRanError("nothing was timed")

    @property
    def implementations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.implementation for s in self.samples))

    def median_us(self, implementation: str) -> float:
        return statistics.median(s.us for s in self.samples if s.implementation == implementation)

    def round_medians_us(self, implementation: str) -> tuple[float, ...]:
        rounds: dict[int, list[float]] = {}
        for sample in self.samples:
            if sample.implementation == implementation:
                rounds.setdefault(sample.round, []).append(sample.us)
        return tuple(statistics.median(us) for _, us in sorted(rounds.items()))

    def unit_log_ratios(self, a: str, b: str) -> tuple[float, ...]:
        """ln(time of b / time of a), one of each unit of two rounds in opposite order (A B B A), so that a drift cancels.

        Empty when a time is zero, which is below the timer's resolution.
        """
        pairs = list(zip(self.round_medians_us(a), self.round_medians_us(b), strict=True))
        if not all(x > 0 and y > 0 for x, y in pairs):
            return ()
        logs = [math.log(y / x) for x, y in pairs]
        return tuple((first + second) / 2 for first, second in zip(logs[::2], logs[1::2], strict=False))

    def spread(self, implementation: str) -> float:
        """Standard deviation of the rounds' medians over their mean; NaN with one round."""
        medians = self.round_medians_us(implementation)
        return statistics.stdev(medians) / statistics.mean(medians) if len(medians) > 1 else math.nan
