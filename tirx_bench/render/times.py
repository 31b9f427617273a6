"""Times, ratios and verdicts as text, with what makes them less sure beside them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from tirx_bench.compare import Comparison, against, limits
from tirx_bench.model import CACHES, FLUSHES, TIMERS, Operation, Record, Timing
from tirx_bench.render.histogram import histogram, shape_line
from tirx_bench.render.rows import microseconds, row, table


class FirstCall(Protocol):
    """Seconds of every stage, one of each fresh process."""

    @property
    def kernel(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def gpu(self) -> str: ...
    @property
    def stages_s(self) -> Mapping[str, Sequence[float]]: ...


def timed(record: Record) -> list[str]:
    """The rows about time; none for a record without one, but for what stood in its way."""
    timing = record.timing
    doubts = [f"  {text}" for text in limits(record, *(timing.implementations if timing else ()))]
    if timing is None:
        return [row("time", "\n".join(["not timed", *doubts]))] if doubts else []
    values = [s.us for s in timing.of(record.kernel)]
    return [
        row("time", "\n".join(_how(record, timing))),
        *(row("boundary", "\n".join(map(_boundary, record.operations))) for _ in record.operations[:1]),
        "",
        table(_times(record, timing), indent=2),
        *([""] + doubts if doubts else []),
        *_peak_doubt(record, timing),
        "",
        row("samples", f"{record.kernel}: {shape_line(values)}\n{histogram(values)}"),
        "",
    ]


def _how(record: Record, timing: Timing) -> list[str]:
    policy = timing.policy
    counts = Counter(s.implementation for s in timing.samples)
    lines = [
        f"{policy.timer}: {TIMERS[policy.timer]}",
        f"{policy.cache} cache: {CACHES[policy.cache]}" + (f", {FLUSHES[policy.flush]}" if policy.cache == "cold" else ""),
        f"median of {counts[record.kernel]} samples in {timing.rounds} rounds of alternating order, "
        f"after {timing.warmed_ms:.0f} ms of warm-up; the timed calls took {timing.duty:.0%} of the time",
    ]
    if policy.calls > 1:
        lines.append(f"a sample is the mean of {policy.calls} calls back to back")
    if policy.gate:
        lines.append("behind a gate: the device waited until the host had launched the call")
    if record.noise_floor is not None:
        lines.append(f"noise floor {record.noise_floor:.2%}: what this card shows between equal code")
    return lines


def _boundary(o: Operation) -> str:
    """What is inside the interval of one call."""
    counts = Counter(map(_short, o.kernels))
    names = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in counts.items()) or "nothing on the device"
    streams = f" on {o.streams} streams" if o.streams > 1 else ""
    memory = f", {o.workspace_bytes / 1e6:.3g} MB workspace" if o.workspace_bytes else ""
    return f"{o.implementation}: {names}{streams} ({o.library}{memory}; tuning: {o.tuning})"


def _short(kernel: str) -> str:
    """A demangled name without its arguments, which are longer than a line."""
    name = kernel.partition("(")[0].partition("<")[0].removeprefix("void ").strip()
    return name if len(name) <= 60 else name[:57] + "..."


def _times(record: Record, timing: Timing) -> list[list[str]]:
    busy = ["busy"] if _has_gaps(timing) else []
    shares = ["TFLOP/s", "of measured peak", "of data sheet"]
    rows = [["implementation", "time", "spread", "SM clock", *busy, *_host_columns(timing), *shares, "kernel is (95 % interval)"]]
    for name in timing.implementations:
        us, work = timing.median_us(name), record.work
        fractions = [f"{p.floor_us(work) / us:.1%}" if p and work else "-" for p in (record.measured, record.theoretical)]
        rate = f"{work.flops / us / 1e6:.4g}" if work else "-"
        ratio = "" if name == record.kernel else _speed(against(record, name))
        spread = timing.spread(name)
        ran = [_share(timing.busy_share(name))] if busy else []
        host = [_plus(timing.host_gap_us(name)), _plus(timing.tracing_cost_us(name))][: len(_host_columns(timing))]
        clock = timing.clock_mhz(name)
        sure = ["-" if math.isnan(spread) else f"{spread:.2%}", "-" if clock is None else f"{clock:.0f} MHz"]
        rows.append([name, microseconds(us), *sure, *ran, *host, rate, *fractions, ratio])
    return rows


def _has_gaps(timing: Timing) -> bool:
    """Whether a span holds time in which nothing ran: gaps between the kernels of one call."""
    return any((timing.busy_share(name) or 1.0) < 0.995 for name in timing.implementations)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _host_columns(timing: Timing) -> list[str]:
    return ["host adds", "tracing adds"] if timing.untraced else []


def _plus(us: float | None) -> str:
    return "-" if us is None else f"{us:+.2f} us"


def _speed(c: Comparison) -> str:
    if not c.low:
        return f"{c.old_us / c.new_us:.3f}x as fast"
    return f"{1 / c.ratio:.3f}x as fast ({1 / c.high:.3f} to {1 / c.low:.3f})"


def _peak_doubt(record: Record, timing: Timing) -> list[str]:
    if record.measured and record.work and timing.median_us(record.kernel) < 0.98 * record.measured.floor_us(record.work):
        return ["  faster than the measured peak allows: the inputs or part of the work may have stayed in cache"]
    return []


def comparison(c: Comparison) -> str:
    rows = [
        f"{c.verdict}: {c.new_us:.2f} us after {c.old_us:.2f} us",
        f"ratio {c.ratio:.4f}, {_interval(c)}{_beside(c)}",
        c.reason,
        *(f"limited by {text}" for text in c.limits),
        *(f"changed: {text}" for text in c.changed),
    ]
    return "\n".join(rows)


def _interval(c: Comparison) -> str:
    return f"95 % interval {c.low:.4f} to {c.high:.4f}" if c.low else "no interval"


def _beside(c: Comparison) -> str:
    parts = [f"; by ranks {c.rank_ratio:.4f}"] if c.rank_ratio is not None else []
    return "".join([*parts, *([f"; in cycles {c.cycle_ratio:.4f}"] if c.cycle_ratio is not None else [])])


def verdicts(found: Mapping[str, Comparison]) -> str:
    """One line for each workload, and the geometric mean of the ratios that no status forbids."""
    rows = [["workload", "before", "after", "ratio", "95 % interval", "p", "verdict"]]
    for label, c in found.items():
        p = "-" if c.p is None else f"{c.p:.2g}"
        interval = _interval(c).removeprefix("95 % interval ")
        rows.append([label, microseconds(c.old_us), microseconds(c.new_us), f"{c.ratio:.4f}", interval, p, c.verdict])
    sound = [c.ratio for c in found.values() if c.sound]
    mean = f"geometric mean of {len(sound)} ratios {statistics.geometric_mean(sound):.4f}" if sound else "no ratio to average"
    left = len(found) - len(sound)
    why = f"; {left} left out: no interval, or a status forbids a verdict" if left else ""
    return table(rows, indent=2) + f"\n  {mean}{why}"


def first_call(found: FirstCall) -> str:
    rows = [["stage", "median", "least", "most"]]
    for stage, seconds in found.stages_s.items():
        rows.append([stage, *(f"{value * 1e3:.1f} ms" for value in (statistics.median(seconds), min(seconds), max(seconds)))])
    count = len(next(iter(found.stages_s.values())))
    return f"{found.kernel} {found.workload}, {count} fresh processes on {found.gpu}\n{table(rows, indent=2)}"
