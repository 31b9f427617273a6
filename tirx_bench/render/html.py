"""A record as one HTML page that needs neither a network nor a script."""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from tirx_bench.compare import MARGIN, Comparison, against
from tirx_bench.hardware import occupancy
from tirx_bench.model import CACHES, FLUSHES, STATUSES, TIMERS, OutputCheck, Record, Resources, Timing
from tirx_bench.render.histogram import interval, number, shape_line
from tirx_bench.render.svg import as_fast, ratio_intervals, samples_over_time
from tirx_bench.stats import median_range

VERSUS = {"faster": "faster than", "slower": "slower than", "same": "the same as", "inconclusive": "inconclusive against"}
# What the fields of a policy say whose name and unit do not.
NOTES = {
    "calls": "back to back in one sample, which is their mean",
    "gate": "whether the device waits until the host has launched the call",
    "precision": "timing ends when every interval's half-width is below this fraction",
    "rounds": "at least; the order alternates, and two rounds are a unit",
    "block_ms": "device time of one implementation in one round",
    "settle_s": "the longest wait for times and clock to settle",
}
NUMBER = re.compile(r"[-+\de.,x%? ]+((to|of) [\d.]+)?")


class Table(NamedTuple):
    """Columns of numbers are set to the right, except the first, which names the row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def classes(self) -> list[str]:
        _, *columns = zip(*self.rows, strict=True)
        return ["", *("number" if all(map(NUMBER.fullmatch, column)) else "" for column in columns)]


def record_html(record: Record) -> str:
    """The whole page. `jinja2` escapes every value; the plots escape their own text."""
    import jinja2  # late: it would slow every start

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tirx_bench", "render"), autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined
    )
    timing, checked, arch = record.timing, record.verification, record.artifact.arch
    names = timing.implementations if timing else ()
    comparisons = {name: against(record, name) for name in names if name != record.kernel}
    margin = max(MARGIN, record.noise_floor or 0.0)
    meaning = {s: {"meaning": STATUSES[s.name].text, "takes away": STATUSES[s.name].forbids} for s in record.statuses}
    return environment.get_template("record.html.j2").render(
        record=record,
        verdicts=[(name, VERSUS[c.verdict], c, as_fast(c), _beside(c)) for name, c in comparisons.items()],
        limits=_table("Statuses", record.statuses, lambda s: meaning[s] | {"implementation": s.implementation or "all"}),
        margin=margin,
        ratios=ratio_intervals(comparisons, margin) if comparisons else "",
        times=_times(record, timing) if timing else None,
        boundary=TIMERS[timing.policy.timer] if timing else "",
        samples=samples_over_time(timing) if timing else "",
        shapes=[(name, shape_line([s.us for s in timing.of(name)])) for name in names] if timing else [],
        operations=_table("One call", record.operations, lambda o: {"kernels": Counter(o.kernels)}),
        protocol=_protocol(timing) if timing else None,
        checks=_table("Outputs against the reference", checked.outputs if checked else (), _verdict),
        resources=_table("Resources of each function", record.artifact.resources, lambda r: _launch(r, arch)),
        findings=_table("Lint and compiler", record.findings),
        environment=Table("Software and card", ("what", "value"), [(k, _cell(v)) for k, v in record.environment.items()]),
        rebuild=shlex.join(record.artifact.command),
    )


def _table(caption: str, items: Sequence[Any], more: Callable[[Any], Mapping[str, object]] = lambda item: {}) -> Table:
    """A row of each value: its first field, what `more` says or says better, and its other fields."""
    rows = [{fields(item)[0].name: "", **more(item), **vars(item), **more(item)} for item in items]
    head = [name.replace("_", " ") for row in rows[:1] for name in row]
    return Table(caption, head, [[_cell(value) for value in row.values()] for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, Counter):
        return "\n".join(f"{n} x {name}" if n > 1 else name for name, n in value.items()) or "none"
    if isinstance(value, tuple):
        return "\n".join(value) if value and isinstance(value[0], str) else ", ".join(map(str, value)) or "-"
    return f"{value:.6g}" if isinstance(value, float) else "-" if value in (None, "") else str(value)


def _beside(c: Comparison) -> str:
    """What else was computed from the same rounds, as ratios of time."""
    also = {"ratio of the times": c.ratio, "by ranks": c.rank_ratio, "in cycles": c.cycle_ratio}
    parts = [f"{what} {ratio:.4f}" for what, ratio in also.items() if ratio is not None]
    parts += [f"p {c.p:.2g} for a difference beyond the margin"] if c.p is not None else []
    return "" if math.isnan(c.ratio) else ", ".join(parts)


def _times(record: Record, timing: Timing) -> Table:
    work = record.work
    peaks = {"of measured peak": record.measured, "of data sheet": record.theoretical}
    floors = {words: peak.floor_us(work) for words, peak in peaks.items() if peak and work}
    by_kernel = timing.policy.timer == "kernel"
    head = ["implementation", "median [us]", "95 % interval [us]", "spread of rounds", "samples"]
    head += ["busy [us]", "host adds [us]", "tracing adds [us]"] if by_kernel else []
    rows = []
    for name in timing.implementations:
        values, us, spread = [s.us for s in timing.of(name)], timing.median_us(name), timing.spread(name)
        middle = median_range(values)
        cells = [interval(middle.low, middle.high) or "-", "-" if math.isnan(spread) else f"{spread:.2%}", str(len(values))]
        busy = [s.busy_us for s in timing.of(name) if s.busy_us is not None]
        host = statistics.median(busy) if busy else None, timing.host_gap_us(name), timing.tracing_cost_us(name)
        cells += ["-" if value is None else f"{value:.2f}" for value in host] if by_kernel else []
        cells += [f"{work.flops / us / 1e6:.4g}", *(f"{floor / us:.1%}" for floor in floors.values())] if work else []
        rows.append([name, number(us), *cells])
    return Table("Time of one call", [*head, *(["TFLOP/s", *floors] if work else [])], rows)


def _protocol(timing: Timing) -> Table:
    policy, looks = timing.policy, timing.states
    notes = NOTES | {"timer": TIMERS[policy.timer], "cache": CACHES[policy.cache], "flush": FLUSHES[policy.flush]}
    rows = [
        *([name, str(value), notes.get(name, "")] for name, value in asdict(policy).items()),
        ["rounds done", str(timing.rounds), f"{len(timing.samples)} samples"],
        ["warmed ms", f"{timing.warmed_ms:.0f}", "device time before the first round"],
        ["session s", f"{timing.session_s:.2f}", "all rounds"],
        ["empty event us", f"{timing.empty_event_us:.2f}", "the interval of two events with nothing between them"],
        ["SM clock MHz", _span(s.sm_clock_mhz for s in looks), f"by the driver, at {len(looks)} looks"],
        ["temperature C", _span(s.temperature_c for s in looks), ""],
        ["power W", _span(s.power_w for s in looks), ""],
        ["held back by", ", ".join(sorted({why for s in looks for why in s.throttle})) or "nothing", "as the driver says"],
    ]
    return Table("How it was timed", ("field", "value", "meaning"), rows)


def _verdict(o: OutputCheck) -> dict[str, str]:
    verdict = "passed" if o.passed else f"FAILED {o.problem}".rstrip()
    return {"verdict": verdict, "wrong_elements": f"{o.wrong_elements} of {math.prod(o.shape)}"}


def _span(values: Iterable[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{min(known):g} to {max(known):g}" if known else "unknown"


def _launch(r: Resources, arch: str) -> dict[str, str]:
    """What the launch makes of the resources; a size that is not constant is 0."""
    found = occupancy(r, arch)
    warps = f"{found.fraction:.1%}, {found.blocks} block(s) per SM, limited by {found.limiter}" if found else "unknown"
    grid, cluster = ("x".join(str(n or "?") for n in size) for size in (r.grid, r.cluster))
    return {"threads": str(r.threads or "?"), "grid": grid, "cluster": cluster, "occupancy": warps}
