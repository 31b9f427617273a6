"""Two records, or two implementations of one, to a verdict with its reason, or a refusal that names what differs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tirx_bench.model import NothingRanError, Record, Timing, UsageError
from tirx_bench.stats import Interval, difference_interval, mean_interval, rank_interval

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
MIN_UNITS = 8  # stopping earlier raises the false verdicts above the nominal 5 %


@dataclass(frozen=True)
class Comparison:
    """`ratio` is the time of `new` over the time of `old`: below 1 is faster. The interval holds it with 95 % confidence."""

    verdict: Verdict
    reason: str
    old_us: float
    new_us: float
    ratio: float
    low: float
    high: float
    changed: tuple[str, ...]


def against(timing: Timing, kernel: str, baseline: str, noise_floor: float | None = None) -> Comparison:
    """The kernel against a baseline that was timed with it, in one session and in balanced order.

    `noise_floor` is what the card showed between equal code: no smaller difference is one, and above 1 % none is.
    Raises `NothingRanError` when the baseline was not timed.
    """
    if baseline not in timing.implementations:
        raise NothingRanError(
            f"{baseline} was not timed, so there is nothing to compare with", "the page says why it was left out"
        )
    verdict, reason, interval = _decide(timing.unit_log_ratios(baseline, kernel), noise_floor)
    times = timing.median_us(baseline), timing.median_us(kernel)
    return Comparison(verdict, reason, *times, interval.ratio, interval.low, interval.high, ())


def noise_floor(timing: Timing, one: str, other: str) -> float:
    """What an A/A run shows: the distance of its ratio from 1 and the half-width of its interval, together.

    Raises `NothingRanError` when there are too few units for a floor.
    """
    units = timing.unit_log_ratios(one, other)
    if len(units) < MIN_UNITS:
        raise NothingRanError(f"{len(units)} units of two rounds give no noise floor", f"--rounds {2 * MIN_UNITS}")
    interval = mean_interval(units)
    return abs(math.log(interval.ratio)) + (math.log(interval.high) - math.log(interval.low)) / 2


def _decide(units: tuple[float, ...], floor: float | None) -> tuple[Verdict, str, Interval]:
    """By Student's t and by ranks; where the two do not agree there is no verdict."""
    if not units:
        reason = "a unit takes two rounds in opposite order, and times that are not zero"
        return "inconclusive", reason, Interval(math.nan, 0.0, math.inf)
    interval = mean_interval(units)
    if len(units) < MIN_UNITS:
        return (
            "inconclusive",
            f"{len(units)} units of two rounds; a verdict takes {MIN_UNITS}: --rounds {2 * MIN_UNITS}",
            interval,
        )
    if floor is not None and floor > HIGHEST_FLOOR:
        return (
            "inconclusive",
            f"the noise floor of this card is {floor:.1%}, above {HIGHEST_FLOOR:.0%}: bench --self-test",
            interval,
        )
    margin = max(MARGIN, floor or 0.0)
    by_mean = _called(interval, mean_interval(units, 0.9), margin)
    by_rank = _called(rank_interval(units), rank_interval(units, 0.9), margin)
    if by_mean != by_rank:
        return "inconclusive", f"the mean says {by_mean} and the ranks say {by_rank}", interval
    floor_text = "no noise floor was measured here: bench --self-test" if floor is None else f"noise floor {floor:.2%}"
    return by_mean, f"{len(units)} units of two rounds; {margin:.2%} either way is no difference; {floor_text}", interval


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
    a, b = (t.round_medians_us(r.kernel) for t, r in ((before, old), (after, new)))
    interval = difference_interval(*([math.log(us) for us in rounds] for rounds in (a, b)))
    verdict = _called(interval, interval, SESSION_FLOOR)
    changed = _differences(_contents(old), _contents(new))
    return Comparison(
        verdict,
        SESSION_REASONS[verdict],
        before.median_us(old.kernel),
        after.median_us(new.kernel),
        interval.ratio,
        interval.low,
        interval.high,
        tuple(changed),
    )


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
