"""What a finished timing says about itself. Pure functions of its samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from tirx_bench.model import POWER_CAP, Sample, Status, Timing
from tirx_bench.stats import MIN_UNITS, calls_for_resolution, mean_interval, median_range, tick, trend

HOST_US, HOST_SHARE = 1.0, 0.02
CLOCK_SPREAD = 0.01
FLOOR_SHARE = 0.98
OF_THE_ROUNDS = {"DRIFT", "COARSE", "IMPRECISE", "THROTTLED"}  # what takes all rounds to tell


def statuses(timing: Timing, kernel: str, floor_us: float | None, gated_us: dict[str, float]) -> list[Status]:
    """`floor_us` is what the card needs at least, by its data sheet; `gated_us` are event intervals behind a gate."""
    found = [*_throttled(timing), *_too_long(timing)]
    for name in timing.implementations:
        found += [*_host(timing, name, gated_us), *_drift(timing, name), *_steps(timing, name)]
    found += _impossible(timing, floor_us)
    found += _imprecise(timing, kernel)
    return found


def half_widths(timing: Timing, kernel: str) -> dict[str, float]:
    """The half-width of each interval that is asked for: of the ratio to every baseline, or of a lone kernel's time."""
    others = [name for name in timing.implementations if name != kernel]
    if not others:
        # Of the rounds' medians: single calls remember the clock of the calls before them, and would look too sure.
        return {kernel: median_range(timing.round_medians_us(kernel)).half_width}
    widths = {}
    for name in others:
        interval = mean_interval(timing.unit_log_ratios(name, kernel)) if timing.rounds > 3 else None
        widths[name] = (interval.high - interval.low) / 2 / interval.ratio if interval else float("inf")
    return widths


def precise(timing: Timing, kernel: str) -> bool:
    """Whether every interval is as narrow as asked for, from enough units."""
    return timing.rounds >= 2 * MIN_UNITS and max(half_widths(timing, kernel).values()) <= timing.policy.precision


def _imprecise(timing: Timing, kernel: str) -> Iterator[Status]:
    for name, width in half_widths(timing, kernel).items():
        if width > timing.policy.precision:
            wide = f"half-width {width:.2%}" if width < math.inf else "no interval"
            evidence = f"{wide} after {timing.rounds} rounds, {timing.policy.precision:.2%} asked for"
            yield Status("IMPRECISE", evidence, name)


def _host(timing: Timing, name: str, gated_us: dict[str, float]) -> Iterator[Status]:
    if name in gated_us:
        device_us, interval, empty_us = gated_us[name], timing.median_us(name), 0.0  # both intervals hold the events
        how = "behind a gate"
    elif (gap := timing.host_gap_us(name)) is not None:
        device_us, interval, empty_us = timing.median_us(name), timing.median_us(name) + gap, timing.empty_event_us
        how = "of kernel span"
    else:
        return
    extra = interval - device_us - empty_us
    if extra > max(HOST_US, HOST_SHARE * device_us):
        evidence = f"event interval {interval:.2f} us, {device_us:.2f} us {how}: the host adds {extra / interval:.0%}"
        yield Status("HOST_BOUND", evidence, name)


def _drift(timing: Timing, name: str) -> Iterator[Status]:
    moved = trend(timing.round_medians_us(name))
    if moved.drifts:
        yield Status("DRIFT", f"{moved.change:+.1%} from the first round to the last, p = {moved.p:.2g}", name)


def _steps(timing: Timing, name: str) -> Iterator[Status]:
    step, median = tick([s.us for s in timing.of(name)]), timing.median_us(name)
    wanted = timing.policy.calls * calls_for_resolution(step, median, timing.policy.precision)
    if wanted > timing.policy.calls:
        how = f"--timer event --cache rotate --calls {wanted} resolves {timing.policy.precision:.2%}"
        evidence = f"steps of {step:.3g} us against {median:.3g} us, so a median may be off by half a step: {how}"
        yield Status("COARSE", evidence, name)


def _throttled(timing: Timing) -> Iterator[Status]:
    reasons = sorted({reason for state in timing.states for reason in state.throttle} - {POWER_CAP})
    if reasons:
        count = sum(bool(set(state.throttle) - {POWER_CAP}) for state in timing.states)
        yield Status("THROTTLED", f"{', '.join(reasons)} in {count} of {len(timing.states)} looks at the card")
    clocks = _clocks_by_round(timing.samples)
    if len(clocks) > 1 and (spread := statistics.stdev(clocks) / statistics.mean(clocks)) > CLOCK_SPREAD:
        evidence = f"the SM clock varied by {spread:.1%} between rounds, {min(clocks):.0f} to {max(clocks):.0f} MHz"
        yield Status("THROTTLED", evidence)


def _clocks_by_round(samples: tuple[Sample, ...]) -> list[float]:
    rounds: dict[int, list[float]] = {}
    for sample in samples:
        if sample.clock_mhz is not None:
            rounds.setdefault(sample.round, []).append(sample.clock_mhz)
    return [statistics.median(clocks) for clocks in rounds.values()]


def _impossible(timing: Timing, floor_us: float | None) -> Iterator[Status]:
    if floor_us is None or timing.policy.cache == "warm":
        return
    for name in timing.implementations:
        if (us := timing.median_us(name)) < FLOOR_SHARE * floor_us:
            evidence = f"{us:.4g} us, and the card needs {floor_us:.4g} us: work was left out, or its writes stayed in L2"
            yield Status("IMPOSSIBLE", evidence, name)


def _too_long(timing: Timing) -> Iterator[Status]:
    total_s = sum(s.us for s in timing.samples) * timing.policy.calls / 1e6
    if total_s > timing.session_s * 1.01 > 0:
        yield Status("IMPOSSIBLE", f"the samples add up to {total_s:.3g} s and the session took {timing.session_s:.3g} s")
