"""Plots as SVG without a script. Colours are CSS variables with a default, so that a page can have a dark mode."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from tirx_bench.compare import MARGIN, Comparison
from tirx_bench.model import Sample, Timing
from tirx_bench.render.histogram import central, number

WIDTH, LEFT, RIGHT = 640, 60, 632  # in units of the view box, in which text is 11 high
PANEL, CLOCK, GAP = 84, 44, 26
MOST_POINTS = 4000
# Okabe and Ito's colours, which are told apart with any colour vision; the marks are told apart without colour.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b0568a", "#8a6d00")
MARKS = ("m-1.6 0a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 1 0-3.2 0", "m-2-2l4 4m0-4l-4 4", "m-1.7-1.7h3.4v3.4h-3.4z",
         "m-2.4 0h4.8m-2.4-2.4v4.8", "m-2.5 0l2.5-2.5 2.5 2.5-2.5 2.5z", "m-2.2-1.7h4.4l-2.2 3.6z", "m-2.4 0h4.8")  # fmt: skip
FAINT = 'stroke="currentColor" stroke-opacity=".18"'
HALO = 'stroke="var(--paper,#fff)" stroke-width="3" paint-order="stroke"'  # text over a line stays legible
Scale = Callable[[float], float]


def nice_ticks(low: float, high: float, count: int = 4) -> list[tuple[float, str]]:
    """The multiples of 1, 2 or 5 times a power of ten in a range with their labels: `count`, or up to 1.6 times more or less."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(step / rough)))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(n * step, f"{n * step:.{decimals}f}") for n in range(first, last + 1)]


def as_fast(c: Comparison) -> str:
    """The kernel's speed over the baseline's, with its interval."""
    known = c.low > 0 and not math.isnan(c.ratio)
    speeds = (1 / c.ratio, 1 / c.high, 1 / c.low) if known else (c.old_us / c.new_us,)
    middle, *ends = (f"{speed:.4f}" if 0.01 <= speed < 100 else f"{speed:.3g}" for speed in speeds)
    return f"{middle}x ({' to '.join(ends) or 'no interval'})"


def samples_over_time(timing: Timing) -> str:
    """A panel for each implementation, since they differ by more than their noise, over one axis of time; the SM clock beneath.

    Samples far out are triangles at a panel's border. Every second round has a grey background.
    """
    known = any(s.at_us for s in timing.samples)
    at = [s.at_us / 1e3 if known else float(n) for n, s in enumerate(timing.samples)]
    x = _scale(min(at), max(at), LEFT + 4, RIGHT - 4)
    placed = [(x(position), sample) for position, sample in zip(at, timing.samples, strict=True)]
    every = math.ceil(len(placed) / MOST_POINTS)
    names = timing.implementations
    clocked = any(s.clock_mhz is not None for s in timing.samples)
    bottom = len(names) * (PANEL + GAP) + (CLOCK + GAP if clocked else 0)
    parts, outside = [*_bands(placed, bottom)], 0
    for n, name in enumerate(names):
        own = [(place, s.us) for place, s in placed if s.implementation == name]
        far, body = _panel(name, own, every, n)
        outside += far
        parts += body
    if clocked:
        parts += _clocks(names, placed, bottom)
    label = "time since the first sample [ms]" if known else "number of the sample"
    parts += _below(x, nice_ticks(min(at), max(at), 6) if len(set(at)) > 1 else [], bottom, (LEFT + RIGHT) / 2, label)
    caption = f"{'all' if every == 1 else f'1 in {every}'} of {len(placed)} samples drawn"
    caption += f", and {outside} far out as triangles" if outside else ""
    parts.append(_text(LEFT, bottom + 50, caption))
    medians = ", ".join(f"{name} {number(timing.median_us(name))} us" for name in names)
    return _svg(WIDTH, bottom + 56, f"Samples over time, {caption}. Medians: {medians}.", parts)


def _bands(placed: Sequence[tuple[float, Sample]], bottom: float) -> Iterator[str]:
    starts: dict[int, float] = {}
    for place, sample in placed:
        starts.setdefault(sample.round, place)
    edges = [*starts.values(), RIGHT]
    for start, end in list(zip(edges, edges[1:], strict=False))[1::2]:
        yield _shade(start, end, 18, bottom, 0.06)


def _panel(name: str, points: Sequence[tuple[float, float]], every: int, n: int) -> tuple[int, list[str]]:
    """One implementation's samples; how many lie outside the panel's range."""
    top = n * (PANEL + GAP) + 20
    values = [us for _, us in points]
    low, high = central(values)
    margin = max((high - low) * 0.08, (low + high) * 0.001)  # +- 0.2 % at least: a timer's step should not look like much
    y = _scale(low - margin, high + margin, top + PANEL, top)
    inside = [p for p in points if low <= p[1] <= high][::every]
    above, below = [p for p in points if p[1] > high], [p for p in points if p[1] < low]
    colour, mark = _colour(n), MARKS[n % len(MARKS)]
    far = [f"{len(above)} above, up to {number(max(us for _, us in above))} us"] if above else []
    far += [f"{len(below)} below, down to {number(min(us for _, us in below))} us"] if below else []
    note = "; ".join(far)
    drawn = "".join(f"M{place:.1f} {y(us):.1f}{mark}" for place, us in inside)
    parts = [
        *_axis(y, nice_ticks(low - margin, high + margin), top, PANEL),
        f'<path d="M{LEFT + 6} {top - 10}{mark}" fill="none" stroke="{colour}" stroke-width="1.6"/>',
        f"<g><title>{_clean(name)}</title>{_text(LEFT + 14, top - 6, _short(name, 85 - len(note)) + ' [us]')}</g>",
        _text(RIGHT, top - 6, note, "end"),
        f'<path d="{drawn}" fill="none" stroke="{colour}" stroke-width="1" stroke-opacity=".8"/>',
    ]
    for outside, edge, shape in ((above, top, "l-4.5 8h9z"), (below, top + PANEL, "l-4.5-8h9z")):
        parts += [
            f'<path class="outlier" d="M{place:.1f} {edge}{shape}" fill="{colour}"><title>{number(us)} us</title></path>'
            for place, us in outside
        ]
    return len(above) + len(below), parts


def _clocks(names: Sequence[str], placed: Sequence[tuple[float, Sample]], bottom: float) -> list[str]:
    """The median SM clock of every round, one line for each implementation."""
    rounds: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for place, s in placed:
        if s.clock_mhz is not None:
            rounds.setdefault((s.implementation, s.round), []).append((place, s.clock_mhz))
    middle = {key: tuple(map(statistics.median, zip(*seen, strict=True))) for key, seen in rounds.items()}
    low, high = min(mhz for _, mhz in middle.values()), max(mhz for _, mhz in middle.values())
    margin = max((high - low) * 0.1, 10.0)
    y, top = _scale(low - margin, high + margin, bottom, bottom - CLOCK), bottom - CLOCK
    ticks = nice_ticks(low - margin, high + margin, 2)
    parts = [*_axis(y, ticks, top, CLOCK), _text(LEFT + 14, top - 6, "SM clock [MHz], median of each round")]
    for n, name in enumerate(names):
        line = [f"{place:.1f} {y(mhz):.1f}" for (owner, _), (place, mhz) in middle.items() if owner == name]
        marks = "".join(f"M{point}{MARKS[n % len(MARKS)]}" for point in line)
        parts.append(f'<path d="M{"L".join(line)}{marks}" fill="none" stroke="{_colour(n)}"/>' if line else "")
    return parts


def ratio_intervals(comparisons: Mapping[str, Comparison], margin: float = MARGIN) -> str:
    """A row for each baseline: how many times as fast the kernel is, on a logarithmic axis, and what is no difference in grey."""
    points = [1 / c.ratio if c.ratio == c.ratio else c.old_us / c.new_us for c in comparisons.values()]
    ends = [(1 / c.high, 1 / c.low) if c.low else (point, point) for c, point in zip(comparisons.values(), points, strict=True)]
    low = max(min(1 - 2 * margin, *(e[0] for e in ends)), min(1, *points) / 2) / 1.005  # an interval of 3 rounds may be endless
    high = min(max(1 + 2 * margin, *(e[1] for e in ends)), max(1, *points) * 2) * 1.005
    width, row = 420, 46
    left, right, bottom = 12, width - 12, row * len(comparisons) + 12
    by_log = _scale(math.log(low), math.log(high), left, right)

    def x(speed: float) -> float:
        return by_log(math.log(min(max(speed, low), high)))

    band = x(1 / (1 + margin)), x(1 / (1 - margin))
    parts = [
        _line(x(1), 8, x(1), bottom, 'stroke="currentColor" stroke-dasharray="3 3"'),
        _line(left, bottom, right, bottom, FAINT),
    ]
    decades = [m * 10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high))) for m in (1, 2, 5)]
    ticks = nice_ticks(low, high) if high < 3 * low else [(d, f"{d:g}") for d in decades if low <= d <= high]
    parts += _below(x, ticks, bottom, width / 2, "kernel is x times as fast")
    for n, (name, c) in enumerate(comparisons.items()):
        y, colour = row * (n + 1), _colour(0) if c.sound else "currentColor"
        start, end = map(x, ends[n])
        caps = [x(speed) for speed in ends[n] if low <= speed <= high]  # none where the interval is cut off
        bars = "".join(f"M{place:.1f} {y - 4}v8" for place in caps) + f"M{start:.1f} {y}H{end:.1f}"
        parts += [
            _shade(*band, y - 7, y + 7, 0.14),
            f"<g><title>{_clean(name)}: {_clean(c.verdict)}</title>{_text(left, y - 24, _short(name, 62))}</g>",
            _text(left, y - 11, f"{as_fast(c)} {c.verdict}"),
            f'<path d="{bars}" stroke="{colour}" stroke-width="2" fill="none"/>' if c.low else "",
            f'<circle cx="{x(points[n]):.1f}" cy="{y}" r="3.5" stroke="{colour}" fill="{colour if c.low else "none"}"/>',
        ]
    words = "; ".join(f"{name} {as_fast(c)}, {c.verdict}" for name, c in comparisons.items())
    return _svg(width, bottom + 38, f"How many times as fast the kernel is, with 95 % intervals: {words}", parts)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    """Values to places; the middle where there is only one value."""
    return lambda value: start + (end - start) * ((value - low) / (high - low) if high > low else 0.5)


def _axis(y: Scale, ticks: Sequence[tuple[float, str]], top: float, height: float) -> list[str]:
    parts = [_line(LEFT, top, LEFT, top + height, FAINT)]
    for tick, label in ticks:
        parts += [_line(LEFT, y(tick), RIGHT, y(tick), FAINT), _text(LEFT - 6, y(tick) + 4, label, "end")]
    return parts


def _below(x: Scale, ticks: Sequence[tuple[float, str]], bottom: float, middle: float, label: str) -> list[str]:
    parts = [_text(middle, bottom + 32, label, "middle")]
    for tick, words in ticks:
        parts += [_line(x(tick), bottom, x(tick), bottom + 4), _text(x(tick), bottom + 16, words, "middle")]
    return parts


def _shade(left: float, right: float, top: float, bottom: float, opacity: float) -> str:
    size = f'width="{max(right - left, 0):.1f}" height="{bottom - top}"'
    return f'<rect x="{left:.1f}" y="{top}" {size} fill="currentColor" opacity="{opacity}"/>'


def _colour(n: int) -> str:
    return f"var(--series-{n % len(COLOURS)},{COLOURS[n % len(COLOURS)]})"


def _line(x1: float, y1: float, x2: float, y2: float, look: str = 'stroke="currentColor"') -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {HALO}>{_clean(words)}</text>'


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _clean(words: str) -> str:
    """Escaped, and without the characters that XML has no place for."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in words))


def _svg(width: float, height: float, says: str, parts: Sequence[str]) -> str:
    style = f"font:11px system-ui,sans-serif;width:100%;min-width:{0.83 * width:.0f}px;max-width:{1.4 * width:.0f}px"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" role="img" aria-label="{_clean(says)}" '
        f'fill="currentColor" style="{style}"><title>{_clean(says)}</title>' + "".join(parts) + "</svg>"
    )
