"""Every sample that was taken, and what the card was doing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tirx_bench.model.errors import NothingRanError, UsageError
from tirx_bench.model.policy import TimingPolicy


@dataclass(frozen=True)
class Sample:
    """One timed interval, in the order it was taken.

    `us` is the timer's quantity, per call. `at_us` is when it began, from the first sample on. `clock_mhz` is the SM clock
    over it, where the card's own counters were read around it. The kernel timer also gives `busy_us`, the time in which
    any of the call's activities ran, and `event_us`, the event interval around the same call, traced.
    """

    implementation: str
    round: int
    us: float
    at_us: float = 0.0
    clock_mhz: float | None = None
    busy_us: float | None = None
    event_us: float | None = None


POWER_CAP = "power cap"  # a card that works hard runs at it: said, and no reason to doubt a ratio


@dataclass(frozen=True)
class CardState:
    """The card around and during a round, by its driver. None: the driver does not say."""

    round: int
    sm_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle: tuple[str, ...]


@dataclass(frozen=True)
class Timing:
    """Every sample in order; medians and intervals are derived from it.

    `untraced` are event intervals of the same calls in blocks without tracing, which the kernel timer alternates with its
    own; the difference is the host's share. `session_s` is how long the rounds took.
    """

    policy: TimingPolicy
    samples: tuple[Sample, ...]
    states: tuple[CardState, ...]
    verified: bool
    untraced: tuple[Sample, ...] = ()
    warmed_ms: float = 0.0
    session_s: float = 0.0
    empty_event_us: float = 0.0

    def __post_init__(self) -> None:
        if not self.verified:
            raise UsageError("a timing needs a passed verification")
        if not self.samples:
            raise NothingRanError("nothing was timed")
        for sample in self.samples:
            if not 0 < sample.us < math.inf:
                raise NothingRanError(
                    f"{sample.implementation}: a time of {sample.us:g} us is none: below what the timer resolves",
                    "--calls 100 --cache warm times many calls in one interval",
                )

    @property
    def implementations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.implementation for s in self.samples))

    @property
    def rounds(self) -> int:
        return len({s.round for s in self.samples})

    @property
    def duty(self) -> float:
        """The share of the time from the first to the last sample in which timed calls ran.

        The rest went to evictions, to reading traces, and to waiting; a card that rests in between has a higher clock.
        """
        every = (*self.samples, *self.untraced)
        spans = [s.us * self.policy.calls for s in every]
        end = max(s.at_us + span for s, span in zip(every, spans, strict=True))
        return min(sum(spans) / max(end - min(s.at_us for s in every), 1e-9), 1.0)

    def of(self, implementation: str) -> tuple[Sample, ...]:
        return tuple(s for s in self.samples if s.implementation == implementation)

    def median_us(self, implementation: str) -> float:
        return statistics.median(s.us for s in self.of(implementation))

    def round_medians_us(self, implementation: str) -> tuple[float, ...]:
        return _round_medians(self.of(implementation), lambda s: s.us)

    def unit_log_ratios(self, a: str, b: str) -> tuple[float, ...]:
        """ln(time of b / time of a), one of each unit of two rounds in opposite order (A B B A), so that a drift cancels."""
        return _units(self.round_medians_us(a), self.round_medians_us(b))

    def unit_log_cycle_ratios(self, a: str, b: str) -> tuple[float, ...]:
        """The same of time x clock: what is left when the clock is taken out. Empty without the clock of every sample."""
        cycles = [self.round_median_cycles(name) for name in (a, b)]
        return _units(*cycles) if all(cycles) else ()

    def round_median_cycles(self, implementation: str) -> tuple[float, ...]:
        """Time x SM clock of every round. Empty without the clock of every sample."""
        samples = self.of(implementation)
        if any(s.clock_mhz is None for s in samples):
            return ()
        return _round_medians(samples, lambda s: s.us * (s.clock_mhz or math.nan))

    def clock_mhz(self, implementation: str) -> float | None:
        """Its median SM clock."""
        clocks = [s.clock_mhz for s in self.of(implementation) if s.clock_mhz is not None]
        return statistics.median(clocks) if clocks else None

    def busy_share(self, implementation: str) -> float | None:
        """The part of its span in which any of its activities ran, medians. None for a timer that shows no activities."""
        busy = [s.busy_us for s in self.of(implementation) if s.busy_us is not None]
        return statistics.median(busy) / self.median_us(implementation) if busy else None

    def host_gap_us(self, implementation: str) -> float | None:
        """Event interval without tracing minus kernel span, medians: what the host adds. None for another timer."""
        untraced = [s.us for s in self.untraced if s.implementation == implementation]
        return statistics.median(untraced) - self.median_us(implementation) if untraced else None

    def tracing_cost_us(self, implementation: str) -> float | None:
        """Event interval with tracing minus without, medians."""
        untraced = [s.us for s in self.untraced if s.implementation == implementation]
        traced = [s.event_us for s in self.of(implementation) if s.event_us is not None]
        return statistics.median(traced) - statistics.median(untraced) if traced and untraced else None

    def spread(self, implementation: str) -> float:
        """Standard deviation of the rounds' medians over their mean; NaN with one round."""
        medians = self.round_medians_us(implementation)
        return statistics.stdev(medians) / statistics.mean(medians) if len(medians) > 1 else math.nan


def _round_medians(samples: Iterable[Sample], value: Callable[[Sample], float]) -> tuple[float, ...]:
    rounds: dict[int, list[float]] = {}
    for sample in samples:
        rounds.setdefault(sample.round, []).append(value(sample))
    return tuple(statistics.median(values) for _, values in sorted(rounds.items()))


def _units(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    return tuple((first + second) / 2 for first, second in zip(logs[::2], logs[1::2], strict=False))
