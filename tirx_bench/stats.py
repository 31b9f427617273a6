"""Intervals and trends of timings. Pure functions on numbers; scipy is loaded late."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """A ratio and the interval that holds it with the confidence asked for. Without an interval it reaches from 0 to infinity."""

    ratio: float
    low: float
    high: float

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high


def mean_interval(logs: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's t on log ratios, one of each unit of measurement."""
    centre = statistics.mean(logs)
    if len(logs) < 2:
        return Interval(math.exp(centre), 0.0, math.inf)
    from scipy.special import stdtrit  # scipy.stats would take seconds to load

    half = float(stdtrit(len(logs) - 1, (1 + confidence) / 2)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def difference_interval(old: Sequence[float], new: Sequence[float]) -> Interval:
    """Welch's 95 % interval on the ratio of two independent samples, new over old, from their logarithms."""
    centre = statistics.mean(new) - statistics.mean(old)
    if min(len(old), len(new)) < 2:
        return Interval(math.exp(centre), 0.0, math.inf)
    from scipy.special import stdtrit

    parts = [statistics.variance(values) / len(values) for values in (old, new)]
    total = sum(parts)
    half = 0.0
    if total:  # a timer's steps can be coarser than the spread
        freedom = total**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (old, new), strict=True))
        half = float(stdtrit(freedom, 0.975)) * math.sqrt(total)
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


def rank_interval(logs: Sequence[float], confidence: float = 0.95) -> Interval:
    """Hodges and Lehmann's estimate with Wilcoxon's signed-rank interval: no shape of the noise is assumed.

    Below 6 units there is no 95 % interval, since 2^(1 - n) > 0.05.
    """
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(logs, 2))
    centre = math.exp(statistics.median(means))
    cut = _signed_rank_cut(len(logs), (1 - confidence) / 2)
    if cut == 0:
        return Interval(centre, 0.0, math.inf)
    return Interval(centre, math.exp(means[cut - 1]), math.exp(means[-cut]))


def _signed_rank_cut(n: int, tail: float) -> int:
    """How many values of the signed-rank statistic, from 0 up, have a cumulative probability of at most `tail`."""
    ways = [1]  # of each sum of a subset of the ranks 1..n
    for rank in range(1, n + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    cumulative = itertools.accumulate(ways)
    return sum(1 for _ in itertools.takewhile(lambda count: count <= tail * 2**n, cumulative))


@dataclass(frozen=True)
class Trend:
    """How a series moves: its change from first to last over its median, and how likely chance alone gives such an order."""

    change: float
    p: float

    @property
    def drifts(self) -> bool:
        return self.p < 0.01 and abs(self.change) > 0.01


def trend(values: Sequence[float]) -> Trend:
    """Mann and Kendall's test with Theil and Sen's slope. Fewer than 4 values have no trend."""
    n = len(values)
    if n < 4:
        return Trend(0.0, 1.0)
    pairs = list(itertools.combinations(range(n), 2))
    score = sum((values[j] > values[i]) - (values[j] < values[i]) for i, j in pairs)
    slope = statistics.median((values[j] - values[i]) / (j - i) for i, j in pairs)
    z = (abs(score) - 1) / math.sqrt(n * (n - 1) * (2 * n + 5) / 18) if score else 0.0
    return Trend(slope * (n - 1) / statistics.median(values), math.erfc(z / math.sqrt(2)))
