"""What one sample of times looks like: its outliers and its modes. Pure functions; nothing is taken out of the sample."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from tirx_bench.stats import tick


def outliers(values: Sequence[float]) -> int:
    """How many lie beyond 5 robust standard deviations (1.4826 of the median distance) from the median. They are only counted.

    0 where more than half of the values are the same, since then that distance is 0.
    """
    centre = statistics.median(values)
    reach = 5 * 1.4826 * statistics.median(abs(value - centre) for value in values)
    return sum(abs(value - centre) > reach for value in values) if reach else 0


def modes(values: Sequence[float], step: float = 0.0) -> tuple[tuple[float, float], ...]:
    """The median and the share of each of two clusters of values from low to high, or of all values where they are one.

    Two clusters take a tenth of the values each, means 3 of their pooled standard deviations apart, and a gap between them that
    is wider than one, and than 30 divided by the values of the smaller cluster: two halves of a uniform sample have means 3.46
    apart, and few values leave gaps by chance. 1 % of the values on either side may lie in the gap. A 40th of the values at
    either end has no say in where the clusters part: a few spikes would. Neighbouring steps of a timer are no clusters: the gap
    must be wider than `step`, in the unit of the values, and than their own `tick`, which two different values do not show.
    """
    ordered = sorted(values)
    n = len(ordered)
    edge, stray, least = n // 40, n // 100, max(2, math.ceil(n / 10))
    inner = ordered[edge : n - edge]
    step = max(step, tick(ordered) if len(set(ordered)) > 2 else 0.0)
    cut = _best_cut(inner, least - edge)
    if cut:
        low, high = inner[:cut], inner[cut:]
        means = [math.fsum(part) / len(part) for part in (low, high)]
        squares = (math.fsum((value - mean) ** 2 for value in part) for part, mean in zip((low, high), means, strict=True))
        spread = math.sqrt(sum(squares) / len(inner))
        gap = high[stray] - low[-1 - stray]
        cut += edge
        needed = max(1.0, 30 / min(cut, n - cut)) * spread
        if means[1] - means[0] > 3 * spread and gap > max(needed, 1.5 * step):
            return tuple((statistics.median(part), len(part) / n) for part in (ordered[:cut], ordered[cut:]))
    return ((statistics.median(ordered), 1.0),)


def _best_cut(ordered: Sequence[float], least: int) -> int:
    """How many values the lower of two clusters has that leave the smallest sum of squares within them; 0 if too few values."""
    n = len(ordered)
    sums = [0.0, *itertools.accumulate(value - ordered[n // 2] for value in ordered)]
    between = {cut: sums[cut] ** 2 / cut + (sums[n] - sums[cut]) ** 2 / (n - cut) for cut in range(least, n - least + 1)}
    return max(between, key=lambda cut: between[cut], default=0)
