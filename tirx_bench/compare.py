"""Two records, or two implementations of one, to a verdict with its reason, or a refusal that names what differs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tirx_bench.model import NothingRanError, Record, Status, Timing, UsageError
from tirx_bench.stats import MIN_UNITS, Interval, difference_interval, holm, mean_interval, p_value, rank_interval

Verdict = Literal["faster", "slower", "same", "inconclusive"]
# Sessions of one card differ by about this much with nothing changed, so a smaller difference is not one.
SESSION_FLOOR = 0.01
SESSION_REASONS: dict[Verdict, str] = {
    "faster": f"the whole interval is below {1 - SESSION_FLOOR:g}",
    "slower": f"the whole interval is above {1 + SESSION_FLOOR:g}",
    "same": f"the whole interval is within {SESSION_FLOOR:.0%} of 1, what two sessions differ by",
    "inconclusive": f"the interval crosses {1 - SESSION_FLOOR:g} or {1 + SESSION_FLOOR:g}; more rounds narrow it",
}
MARGIN = 0.005  # within one session and in balanced order
HIGHEST_FLOOR = 0.01


@dataclass(frozen=True)
class Comparison:
    """`ratio` is the time of `new` over the time of `old`: below 1 is faster. The interval holds it with 95 % confidence.

    `cycle_ratio` is the ratio of time x SM clock, where the clock of every sample is known. `rank_ratio` is Hodges and
    Lehmann's. `p` is Student's for a difference beyond the margin. `limits` are what makes the answer less sure; not `sound`: one
    of them forbids a verdict, or there is no interval.
    """

    verdict: Verdict
    reason: str
    old_us: float
    new_us: float
    ratio: float
    low: float
    high: float
    changed: tuple[str, ...] = ()
    cycle_ratio: float | None = None
    rank_ratio: float | None = None
    p: float | None = None
    limits: tuple[str, ...] = ()
    sound: bool = True


def against(record: Record, baseline: str) -> Comparison:
    """The kernel against an implementation that was timed with it, in one session and in balanced order.

    The record's noise floor is what the card showed between equal code: no smaller difference is one, and above 1 % none
    is. Raises `NothingRanError` when the baseline was not timed.
    """
    timing = record.timing
    if timing is None or baseline not in timing.implementations:
        raise NothingRanError(
            f"{baseline} was not timed, so there is nothing to compare with", "the page says why it was left out"
        )
    units = timing.unit_log_ratios(baseline, record.kernel)
    times = timing.median_us(baseline), timing.median_us(record.kernel)
    interval = mean_interval(units) if units else Interval(times[1] / times[0], 0.0, math.inf)
    verdict, reason = _decide(units, interval, record.noise_floor)
    cycles = timing.unit_log_cycle_ratios(baseline, record.kernel)
    if why := _forbidden(record, baseline):
        verdict, reason = "inconclusive", why
    elif cycles and verdict in ("faster", "slower") and (effect := _clock_effect(verdict, cycles, _margin(record.noise_floor))):
        reason = f"{reason}; {effect}"
    return Comparison(
        verdict, reason, *times, interval.ratio, interval.low, interval.high,
        cycle_ratio=mean_interval(cycles).ratio if cycles else None,
        rank_ratio=rank_interval(units).ratio if units else None,
        p=p_value(units, _margin(record.noise_floor)) if len(units) > 1 else None,
        limits=tuple(limits(record, baseline)), sound=bool(units) and not why,
    )  # fmt: skip


def limits(record: Record, *implementations: str) -> list[str]:
    """The statuses of the kernel, of these implementations and of the card, each as one line."""
    about = {None, record.kernel, *implementations}
    return [
        f"{s.name}{f' {s.implementation}' if s.implementation else ''}: {s.evidence}"
        for s in record.statuses
        if s.implementation in about
    ]


def _forbidden(record: Record, baseline: str) -> str:
    """Why no verdict may be given; empty if one may."""
    status = _no_verdict(record, record.kernel, baseline)
    return f"{status.name}: {status.evidence}" if status else ""


def _no_verdict(record: Record, *implementations: str) -> Status | None:
    taken = record.forbidden(*implementations)
    by_events = record.timing is not None and record.timing.policy.timer == "event"
    return taken.get("no verdict") or (taken.get("no verdict by events") if by_events else None)


def _clock_effect(verdict: Verdict, cycles: tuple[float, ...], margin: float) -> str:
    by_cycles = _called(mean_interval(cycles), mean_interval(cycles, 0.9), margin)
    return "" if by_cycles == verdict else f"clock effect: by cycles it is {by_cycles}"


def together(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The comparisons of several problems, each verdict held to Holm's adjusted p: of many equals one soon looks different."""
    known = {name: c for name, c in comparisons.items() if c.p is not None}
    adjusted = dict(zip(known, holm([c.p or 0.0 for c in known.values()]), strict=True))
    return {name: _held(c, adjusted.get(name)) for name, c in comparisons.items()}


def _held(c: Comparison, p: float | None) -> Comparison:
    if p is None or p <= 0.05 or c.verdict not in ("faster", "slower"):
        return replace(c, p=p)
    return replace(c, p=p, verdict="inconclusive", reason=f"{c.verdict} alone; with all problems together p = {p:.2g}")


def noise_floor(record: Record, other: str) -> float:
    """What an A/A run shows: the distance of its ratio from 1 and the half-width of its interval, together.

    Raises `NothingRanError` when there are too few units for a floor.
    """
    if record.timing is None:
        raise NothingRanError("nothing was timed, so there is no noise floor")
    units = record.timing.unit_log_ratios(record.kernel, other)
    if len(units) < MIN_UNITS:
        raise NothingRanError(f"{len(units)} units of two rounds give no noise floor", f"--rounds {2 * MIN_UNITS}")
    interval = mean_interval(units)
    return abs(math.log(interval.ratio)) + (math.log(interval.high) - math.log(interval.low)) / 2


def _decide(units: tuple[float, ...], interval: Interval, floor: float | None) -> tuple[Verdict, str]:
    """By Student's t, whose interval is given, and by ranks; where the two do not agree there is no verdict."""
    if not units:
        return "inconclusive", "a unit takes two rounds in opposite order"
    if len(units) < MIN_UNITS:
        return "inconclusive", f"{len(units)} units of two rounds; a verdict takes {MIN_UNITS}: --rounds {2 * MIN_UNITS}"
    if floor is not None and floor > HIGHEST_FLOOR:
        reason = f"the noise floor of this card is {floor:.1%}, above {HIGHEST_FLOOR:.0%}: bench --self-test"
        return "inconclusive", reason
    margin = _margin(floor)
    by_mean = _called(interval, mean_interval(units, 0.9), margin)
    by_rank = _called(rank_interval(units), rank_interval(units, 0.9), margin)
    if by_mean != by_rank:
        return "inconclusive", f"the mean says {by_mean} and the ranks say {by_rank}"
    floor_text = "no noise floor was measured here: bench --self-test" if floor is None else f"noise floor {floor:.2%}"
    return by_mean, f"{len(units)} units of two rounds; {margin:.2%} either way is no difference; {floor_text}"


def _margin(floor: float | None) -> float:
    return max(MARGIN, floor or 0.0)


def _called(interval: Interval, narrow: Interval, margin: float) -> Verdict:
    """Faster or slower by `interval`; the same when `narrow` lies within the margin (with 90 %: two one-sided tests)."""
    if interval.high < 1 - margin:
        return "faster"
    if interval.low > 1 + margin:
        return "slower"
    return "same" if narrow.within(1 - margin, 1 + margin) else "inconclusive"


def compare(old: Record, new: Record) -> Comparison:
    """Raises `UsageError` naming the fields in which the records are not alike, or that one of them was not timed."""
    before, after = _timing(old, "first"), _timing(new, "second")
    if differing := _differences(_conditions(old, before), _conditions(new, after)):
        raise UsageError("the records are not comparable: " + "; ".join(differing), "measure both under the same conditions")
    pairs = (before, old), (after, new)
    interval = _between(*(t.round_medians_us(r.kernel) for t, r in pairs))
    cycles = [t.round_median_cycles(r.kernel) for t, r in pairs]
    verdict = _called(interval, interval, SESSION_FLOOR)
    reason = SESSION_REASONS[verdict]
    if why := _no_absolute_time(old, "first") or _no_absolute_time(new, "second"):
        verdict, reason = "inconclusive", why
    changed = tuple(_differences(_contents(old), _contents(new)))
    times = before.median_us(old.kernel), after.median_us(new.kernel)
    doubts = tuple(dict.fromkeys([*limits(old), *limits(new)]))
    return Comparison(
        verdict, reason, *times, interval.ratio, interval.low, interval.high, changed, limits=doubts,
        cycle_ratio=_between(*cycles).ratio if all(cycles) else None,
    )  # fmt: skip


def _between(old: tuple[float, ...], new: tuple[float, ...]) -> Interval:
    """The ratio of two sessions, from the medians of their rounds."""
    return difference_interval([math.log(value) for value in old], [math.log(value) for value in new])


def _no_absolute_time(record: Record, which: str) -> str:
    """Why a record's time says nothing beside another session's; empty if it does."""
    status = _no_verdict(record, record.kernel) or record.forbidden(record.kernel).get("no absolute time")
    return f"the {which} record's time is not sure: {status.name}: {status.evidence}" if status else ""


def _timing(record: Record, which: str) -> Timing:
    if record.timing is None:
        raise UsageError(f"the {which} record holds no timing", "records of `run` or `bench` on a GPU do")
    return record.timing


def _conditions(record: Record, timing: Timing) -> dict[str, Any]:
    """What must be equal: the problem, the card, and how it was timed."""
    return {
        "GPU": record.environment.get("gpu"),
        "GPU UUID": record.environment.get("gpu_uuid"),
        "kernel": record.kernel,
        "timer": timing.policy.timer,
        "cache policy": timing.policy.cache,
        "flush": timing.policy.flush if timing.policy.cache == "cold" else None,
        "calls in one interval": timing.policy.calls,
        "gate": timing.policy.gate,
        "input fill": record.verification and record.verification.fill,
        "input seed": timing.policy.seed,
        **{f"workload {name}": value for name, value in record.workload.params.items()},
    }


def _contents(record: Record) -> dict[str, Any]:
    """What may differ and is worth saying: the code, the tunables, the software."""
    environment = {k: record.environment.get(k) for k in ("driver", "torch", "apache-tvm", "git_commit", "power_limit_w")}
    return {
        "code": record.artifact.code_hash[:12],
        "compiler": record.artifact.compiler,
        **{f"tunable {name}": value for name, value in record.artifact.tunables.items()},
        **environment,
    }


def _differences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return [f"{name} {a.get(name)} and {b.get(name)}" for name in {**a, **b} if a.get(name) != b.get(name)]
