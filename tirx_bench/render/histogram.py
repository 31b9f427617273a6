"""One implementation's samples as a histogram for a terminal, and in one line."""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence

from tirx_bench.shape import modes, outliers
from tirx_bench.stats import median_range, tick

EIGHTHS = " ▏▎▍▌▋▊▉"


def number(value: float, digits: int = 4) -> str:
    """At least so many significant digits, and no exponent. Of two values the larger never reads as the smaller."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def digits_between(low: float, high: float) -> int:
    """4, or as many significant digits up to 6 as tell the ends of an interval apart."""
    return next((d for d in (4, 5) if low == high or number(low, d) != number(high, d)), 6)


def interval(low: float, high: float) -> str:
    """Empty where there is none: it reaches to infinity."""
    digits = digits_between(low, high)
    return f"{number(low, digits)} to {number(high, digits)}" if math.isfinite(high) else ""


def central(values: Sequence[float]) -> tuple[float, float]:
    """The range to draw. Of 8 values or more, those of the outer 40th at either end lie outside that are far from the rest."""
    ordered = sorted(values)
    cut = math.ceil(len(ordered) / 40) if len(ordered) >= 8 else 0
    low, high = ordered[cut], ordered[-1 - cut]
    reach = (high - low) / 2
    return next(v for v in ordered if v >= low - reach), next(v for v in reversed(ordered) if v <= high + reach)


def histogram(values: Sequence[float], width: int = 40, rows: int = 8) -> str:
    """At most `rows` lines for microseconds; the longest bar has `width` characters. What lies far outside is counted."""
    low, high = central(values)
    inside = [v for v in values if low <= v <= high]
    edges = _edges(inside, low, high, rows)
    counts = [0] * max(1, len(edges) - 1)
    for value in inside:
        counts[max(0, min(bisect.bisect_right(edges, value) - 1, len(counts) - 1))] += 1
    labels = [f"{number(low)} us"]
    if len(edges) > 1:
        decimals = max(0, 1 - math.floor(math.log10(edges[1] - edges[0])))
        labels = [f"{a:.{decimals}f} to {b:.{decimals}f} us" for a, b in itertools.pairwise(edges)]
    wide, digits = max(map(len, labels)), len(str(max(counts)))
    lines = [
        f"{label:>{wide}}  {count:>{digits}} {_bar(count * width * 8 / max(counts))}".rstrip()
        for label, count in zip(labels, counts, strict=True)
    ]
    if below := [v for v in values if v < low]:
        lines[0] += f"  and {len(below)} below, down to {number(min(below))} us"
    if above := [v for v in values if v > high]:
        lines[-1] += f"  and {len(above)} above, up to {number(max(above))} us"
    return "\n".join(lines)


def _edges(inside: Sequence[float], low: float, high: float, rows: int) -> list[float]:
    """Where each bin begins and the last one ends. Where a timer's step shows, each holds as many steps: else they form a comb.

    One edge where all values are the same.
    """
    if high - low <= 1e-9 * abs(high):
        return [low]
    step = tick(inside)
    if len(set(inside)) * 4 > len(inside) or step > low / 10:  # no step shows
        return [low + (high - low) / rows * n for n in range(rows + 1)]
    steps = round((high - low) / step) + 1
    each = math.ceil(steps / rows)
    return [low + step * (each * n - 0.5) for n in range(math.ceil(steps / each) + 1)]


def _bar(eighths: float) -> str:
    full, rest = divmod(math.ceil(eighths), 8)  # rounded up: a count of 1 shows
    return "█" * full + EIGHTHS[rest].strip()


def shape_line(values: Sequence[float]) -> str:
    """The samples in one line, from microseconds in the order they were taken."""
    if len(values) == 1:
        return f"1 sample, {number(values[0])} us"
    middle = median_range(values)
    digits = digits_between(middle.low, middle.high)
    around = f" ({found})" if (found := interval(middle.low, middle.high)) else ""
    least, median, most = (number(v, digits) for v in (min(values), middle.centre, max(values)))
    parts = [f"{len(values)} samples, min {least}, median {median}{around}, max {most} us"]
    centres = modes(values)
    cut = statistics.mean(centre for centre, _ in centres)
    clusters = [values] if len(centres) == 1 else [[v for v in values if v < cut], [v for v in values if v >= cut]]
    if far := sum(map(outliers, clusters)):  # the smaller cluster is not the larger one's outliers
        parts.append(f"{far} outlier{'s' if far > 1 else ''}")
    if len(centres) > 1:
        each = (f"{number(centre, digits)} us ({share * 100:.0f} %)" for centre, share in centres)
        parts.append(f"two modes: {' and '.join(each)}")
    return "; ".join(parts)
