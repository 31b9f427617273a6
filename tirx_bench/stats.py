"""Intervals, p-values, trends and steps of timings, and their order. Pure functions on numbers; scipy is loaded late."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIN_INDEPENDENT = 6  # below it even the smallest and the largest value hold the median in fewer than 95 %: 2^(1 - n) > 0.05


MIN_UNITS = 8  # of measurement: stopping earlier raises the false verdicts above the nominal 5 %


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
class Range:
    """A time and the interval that holds it, in the unit of the values. Without an interval it reaches from 0 to infinity."""

    centre: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """As a fraction of the centre; infinite without an interval, and around a centre of 0."""
        return (self.high - self.low) / 2 / self.centre if self.centre else math.inf


def median_range(values: Sequence[float], confidence: float = 0.95) -> Range:
    """The median and two order statistics around it: the binomial interval, for values in the order they were taken.

    Neighbours in time are alike, so n values count as n (1 - r) / (1 + r) independent ones, r being the correlation of their
    ranks from one to the next (Bayley and Hammersley 1946). That fits a first-order memory: of 50 values or more with r up to
    0.8, 92 % of the 95 % intervals hold. A slow wander below white noise hides from r. Below 6 independent values there is none.
    """
    n = len(values)
    centre = statistics.median(values)
    memory = min(max(_rank_memory(values), 0.0), 0.99)
    independent = n * (1 - memory) / (1 + memory)
    half = statistics.NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(independent) / 2  # as a fraction of the ranks
    rank = round(n * (0.5 - half))  # from either end; rounded, not cut: for independent values it keeps 95 % at every n
    if independent < MIN_INDEPENDENT or rank < 1:
        return Range(centre, 0.0, math.inf)
    ordered = sorted(values)
    return Range(centre, ordered[rank - 1], ordered[-rank])


def _rank_memory(values: Sequence[float]) -> float:
    """The correlation of each value's rank with the next one's, ties sharing theirs. One spike hides no memory from ranks."""
    ordered = sorted(values)
    ranks = [bisect.bisect_left(ordered, value) + bisect.bisect_right(ordered, value) - len(values) for value in values]
    total = sum(rank * rank for rank in ranks)  # the mean of the ranks is 0
    return sum(a * b for a, b in itertools.pairwise(ranks)) / total if total else 0.0


def p_value(logs: Sequence[float], margin: float) -> float:
    """How likely the mean log ratio of equal code strays this far beyond log(1 + margin) on either side: Student's t, two-sided.

    1.0 for a mean within the margin and below 2 values. It underflows to 0.0 for what is certain: 0.0 is a number, so test
    for a missing one with `is None`. A published tool dropped its clearest results by testing for truth.
    """
    if len(logs) < 2:
        return 1.0
    beyond = abs(statistics.mean(logs)) - math.log1p(margin)
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    if beyond <= 0 or error == 0:  # a timer's steps can be coarser than the spread
        return 0.0 if beyond > 0 else 1.0
    from scipy.special import stdtr

    return min(1.0, 2 * float(stdtr(len(logs) - 1, -beyond / error)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (1979) in the order given: at a level, any false finding among all is at most that likely."""
    if not all(0 <= p <= 1 for p in p_values):  # nan too: it has no place in an order
        raise ValueError(f"p-values lie between 0 and 1: {list(p_values)}")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for done, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def balanced_order(count: int, turn: int) -> tuple[int, ...]:
    """The order of `count` implementations in a turn, from 0: A B, B A, B A, A B; for more, rows of Williams' square (1949).

    Turns 2j and 2j + 1 are one row and its reverse, so a drift that is linear cancels in each such pair. Which comes first
    alternates. Over `count` turns of an even count, and twice as many of an odd one, each implementation takes each position
    and follows each other one equally often. (Williams, Experimental designs balanced for the estimation of residual effects
    of treatments, Australian Journal of Scientific Research A 2, 1949.)
    """
    rows = count if count % 2 else max(count // 2, 1)  # of an even count the other half are these rows' reverses
    cycle, row = divmod(turn // 2, rows)
    zigzag = [(step + 1) // 2 * (1 if step % 2 else -1) % count for step in range(count)]  # 0, 1, -1, 2, -2, ...
    order = tuple(zigzag.index((row + place) % count) for place in zigzag)  # named so that turn 0 is 0, 1, 2, ...
    return order[::-1] if (turn + row + cycle) % 2 else order


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


def tick(values: Sequence[float]) -> float:
    """The smallest difference between two values that differ, in their unit: a timer's step as far as they show it, or 0."""
    return min((b - a for a, b in itertools.pairwise(sorted(set(values)))), default=0.0)


def calls_for_resolution(tick_us: float, time_us: float, target: float) -> int:
    """How many calls one pair of events must hold, so that the timer's step is at most a tenth of `target`, a fraction."""
    if time_us <= 0 or target <= 0:
        raise ValueError(f"no number of calls of {time_us} us resolves a fraction of {target}")
    return max(1, math.ceil(tick_us / (0.1 * target * time_us) * (1 - 1e-9)))  # 25.000000000000355 calls are 25
