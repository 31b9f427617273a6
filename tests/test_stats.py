"""Intervals that hold what they say under the noise that cards show, and verdicts that are not made of noise."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import statistics

import numpy as np
import pytest
from helpers_records import record, steady
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tirx_bench.compare import MIN_UNITS, against, noise_floor
from tirx_bench.model import NothingRanError
from tirx_bench.stats import (
    Interval,
    Range,
    balanced_order,
    calls_for_resolution,
    difference_interval,
    holm,
    mean_interval,
    median_range,
    p_value,
    rank_interval,
    tick,
    trend,
)

UNHURRIED = settings(deadline=None)
SESSIONS, ROUNDS, CALLS = 400, 20, 50
LENGTH = 2 * ROUNDS * CALLS


def white(rng, index):
    return np.zeros((SESSIONS, LENGTH))


def slow_wander(rng, index):
    keep = math.exp(-1 / 400)
    steps = rng.normal(0, 0.01 * math.sqrt(1 - keep**2), (SESSIONS, LENGTH))
    level = np.empty((SESSIONS, LENGTH))
    level[:, 0] = rng.normal(0, 0.01, SESSIONS)
    for i in range(1, LENGTH):
        level[:, i] = keep * level[:, i - 1] + steps[:, i]
    return level


def warm_up_ramp(rng, index):
    return np.tile(0.03 * np.exp(-index / 500), (SESSIONS, 1))


def heating(rng, index):
    return np.tile(0.03 * index / LENGTH, (SESSIONS, 1))


def throttled_for_a_fifth(rng, index):
    starts = rng.integers(0, int(LENGTH * 0.8), SESSIONS)[:, None]
    return 0.08 * ((index >= starts) & (index < starts + LENGTH // 5))


def two_states(rng, index):
    flips = rng.random((SESSIONS, LENGTH)) < 1 / 200
    return 0.03 * ((np.cumsum(flips, axis=1) + rng.integers(0, 2, (SESSIONS, 1))) % 2)


def spikes(rng, index):
    return (rng.random((SESSIONS, LENGTH)) < 0.01) * np.log(rng.uniform(1.2, 2, (SESSIONS, LENGTH)))


NOISES = [white, slow_wander, warm_up_ramp, heating, throttled_for_a_fifth, two_states, spikes]


@functools.cache
def units(noise, effect):
    """Log ratios of B over A by session and unit, from calls in the order that `timing.measure` takes: AB BA BA AB."""
    rng = np.random.default_rng(7)
    second = np.zeros((ROUNDS, 2, CALLS), bool)
    for number in range(ROUNDS):
        second[number, 1 if number % 4 in (0, 3) else 0] = True
    second = second.reshape(LENGTH)
    logs = noise(rng, np.arange(LENGTH)) + rng.normal(0, 0.005, (SESSIONS, LENGTH)) + second * math.log1p(effect)
    a, b = (np.median(logs[:, side].reshape(SESSIONS, ROUNDS, CALLS), axis=2) for side in (~second, second))
    return (b - a).reshape(SESSIONS, ROUNDS // 2, 2).mean(axis=2)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("effect", [0.0, 0.01])
def test_the_interval_holds_the_truth(noise, effect):
    found = [mean_interval(list(session)) for session in units(noise, effect)]
    assert np.mean([i.low <= 1 + effect <= i.high for i in found]) >= 0.92


@pytest.mark.parametrize("noise", NOISES)
def test_equal_code_is_seldom_called_different(noise):
    found = [mean_interval(list(session)) for session in units(noise, 0.0)]
    assert np.mean([i.high < 1 or i.low > 1 for i in found]) <= 0.08


@pytest.mark.parametrize(
    "noise, power",
    [(white, 1), (slow_wander, 1), (warm_up_ramp, 1), (heating, 1), (spikes, 1), (two_states, 0.8), (throttled_for_a_fifth, 0.4)],
)  # fmt: skip
def test_a_true_difference_of_one_percent_is_found(noise, power):
    found = [mean_interval(list(session)) for session in units(noise, 0.01)]
    assert np.mean([i.low > 1 for i in found]) >= 0.99 * power


def test_the_rank_interval_is_wilcoxons():
    from scipy import stats

    rng = np.random.default_rng(3)
    for n in (6, 9, 15):
        logs = list(rng.normal(0.01, 0.01, n))
        found = rank_interval(logs)
        for edge, inside, outside in ((found.low, 1e-9, -1e-9), (found.high, -1e-9, 1e-9)):
            kept, lost = (
                stats.wilcoxon(np.array(logs) - math.log(edge) - shift, mode="exact").pvalue for shift in (inside, outside)
            )
            assert kept > 0.05 >= lost


def test_too_few_units_have_no_interval():
    assert mean_interval([0.1]) == Interval(math.exp(0.1), 0.0, math.inf)
    assert rank_interval([0.1] * 5).high == math.inf and rank_interval([0.1] * 6).high < math.inf


def test_one_wild_unit_moves_the_mean_and_not_the_ranks():
    logs = [0.001, -0.001, 0.002, -0.002, 0.0, 0.001, -0.001, 0.002, -0.002, 1.0]
    assert mean_interval(logs).ratio > 1.09 and 0.99 < rank_interval(logs).ratio < 1.01


def test_a_trend_is_kendalls_and_its_change_is_theil_and_sens():
    rising = [100 + n for n in range(12)]
    assert trend(rising).drifts and trend(rising).change == pytest.approx(11 / 105.5)
    assert trend(rising[::-1]).change == pytest.approx(-11 / 105.5)
    assert not trend([100, 101, 100, 101, 100, 101, 100, 101]).drifts
    assert trend([1, 2, 3]).p == 1 and trend([5] * 10).p == 1
    assert not trend([100 + n / 100 for n in range(12)]).drifts, "a change below 1 % is none, however certain"


def remembering(rng, count, memory, spikes):
    """`count` times around 1 with a first-order memory, a share of which are spikes of 1.2 to 2 times."""
    level = [rng.normal()]
    for step in rng.normal(0, math.sqrt(1 - memory**2), count - 1):
        level.append(memory * level[-1] + step)
    return ((1 + 0.01 * np.array(level)) * np.where(rng.random(count) < spikes, rng.uniform(1.2, 2, count), 1)).tolist()


@pytest.mark.parametrize("count", [8, 50, 200])
@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("spikes", [0.0, 0.02])
def test_the_interval_holds_the_median(count, memory, spikes):
    rng = np.random.default_rng(11)
    found = [median_range(remembering(rng, count, memory, spikes)) for _ in range(400)]
    assert np.mean([i.low <= 1 <= i.high for i in found]) >= (0.9 if count > 8 else 0.8 if memory else 0.95)


def test_the_interval_is_not_wider_than_it_must_be():
    rng = np.random.default_rng(12)
    found = [median_range(remembering(rng, 200, 0.0, 0.0)) for _ in range(400)]
    assert np.mean([i.low <= 1 <= i.high for i in found]) <= 0.98
    asymptotic = 1.96 * math.sqrt(math.pi / 2 / 200) * 0.01
    assert np.mean([i.half_width for i in found]) == pytest.approx(asymptotic, rel=0.1)


def test_the_ranks_are_the_binomials_at_95_percent():
    for count in range(6, 300):
        ends = [n // 2 + 1 if n % 2 == 0 else count - n // 2 for n in range(count)]  # 1, n, 2, n - 1, ...: no memory
        found = median_range(ends)
        outside = 2 * sum(math.comb(count, i) for i in range(round(found.low))) / 2**count
        assert found.high == count + 1 - found.low and outside <= 0.05
        inside = outside + 2 * math.comb(count, round(found.low)) / 2**count
        assert inside > 0.04, "the next pair of ranks would hold less than 96 %"


def test_a_higher_confidence_is_wider():
    values = [100 + n * 7 % 31 for n in range(31)]
    narrow, wide = median_range(values, 0.8), median_range(values, 0.99)
    assert wide.low < narrow.low <= narrow.centre <= narrow.high < wide.high


def test_values_that_remember_count_as_fewer():
    mixed, sorted_ = [n * 7 % 31 for n in range(31)], list(range(31))
    assert median_range(mixed).high < math.inf and median_range(sorted_) == Range(15, 0, math.inf)
    blocks = [v for v in remembering(np.random.default_rng(1), 100, 0, 0) for _ in range(10)]
    single = median_range(blocks[::10])
    assert median_range(blocks).half_width > single.half_width / 2, "ten copies of a value are not ten values"
    assert median_range([v for v in (3, 1, 5, 2, 4) for _ in range(8)]).high == math.inf, "five levels are no six values"
    assert median_range([v for v in (4, 1, 6, 2, 7, 3, 5) for _ in range(8)]) == Range(4, 1, 7)


def test_steps_coarser_than_the_noise_are_no_memory():
    assert median_range([8.0] * 20) == Range(8.0, 8.0, 8.0) and median_range([8.0] * 20).half_width == 0
    found = median_range([8.0, 8.5, 8.0, 8.0, 8.5] * 8)
    assert (found.centre, found.low) == (8.0, 8.0)


def test_fewer_than_six_have_no_interval():
    assert median_range([1.0] * 5) == Range(1.0, 0.0, math.inf) and median_range([1.0] * 6) == Range(1.0, 1.0, 1.0)
    assert median_range([3.0, 1.0, 6.0, 2.0, 5.0, 4.0]) == Range(3.5, 1.0, 6.0)
    with pytest.raises(statistics.StatisticsError):
        median_range([])


def test_half_width_is_a_fraction_of_the_centre():
    assert Range(100.0, 98.0, 104.0).half_width == pytest.approx(0.03)
    assert Range(0.0, 0.0, 0.0).half_width == math.inf and Range(1.0, 0.0, math.inf).half_width == math.inf


def test_f41_one_run_gives_no_spread():
    only = median_range([12.5])
    assert only == Range(12.5, 0.0, math.inf) and only.half_width == math.inf
    assert p_value([0.3], 0.0) == 1.0 and mean_interval([0.3]).high == rank_interval([0.3]).high == math.inf
    assert difference_interval([0.3], [0.1, 0.2]).high == math.inf and tick([12.5]) == 0.0


@UNHURRIED
@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60), st.floats(0.5, 0.999))
def test_f39_min_is_not_above_median_is_not_above_max(values, confidence):
    found = median_range(values, confidence)
    assert found.low <= found.centre <= found.high and found.centre == statistics.median(values)
    if found.high < math.inf:
        assert min(values) <= found.low and found.high <= max(values) and {found.low, found.high} <= set(values)
        assert found.half_width >= 0


@pytest.mark.parametrize("place", range(10))
def test_f50_uncertainty_is_of_the_same_estimator(place):
    once_wild = [1.0] * 10
    once_wild[place] = 10.0
    found = median_range(once_wild)
    assert found.high < 1.2 == median_range([1.2] * 10).low, "a change of 20 % hides behind no single value"
    assert mean_interval([math.log(v) for v in once_wild]).high > 1.2, "as it would in an interval of the mean"


LOGS = st.lists(st.floats(-1, 1), min_size=2, max_size=30)
PROBABILITIES = st.lists(st.floats(0, 1), max_size=20)


@UNHURRIED
@given(LOGS)
def test_without_a_margin_the_p_value_is_below_5_percent_where_the_interval_excludes_1(logs):
    found, p = mean_interval(logs), p_value(logs, 0.0)
    assume(abs(p - 0.05) > 1e-6 and max(map(abs, logs)) > 1e-12)  # below, the ends of the interval are rounded to 1
    assert (p < 0.05) == (not found.low <= 1 <= found.high) or found.low == found.high


def test_the_p_value_is_students():
    from scipy import stats

    logs = [0.021, 0.034, 0.028, 0.019, 0.041]
    shifted = [log - math.log(1.01) for log in logs]
    assert p_value(logs, 0.0) == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert p_value(logs, 0.01) == p_value([-log for log in logs], 0.01) == pytest.approx(stats.ttest_1samp(shifted, 0).pvalue)


@pytest.mark.parametrize("margin", [0.0, 0.01])
@pytest.mark.parametrize("side", [-1, 1])
def test_equal_code_has_a_p_value_below_5_percent_in_no_more_than_5_percent(margin, side):
    rng = np.random.default_rng(9)
    edge = side * math.log1p(margin)
    assert np.mean([p_value(rng.normal(edge, 0.005, 10).tolist(), margin) < 0.05 for _ in range(2000)]) <= 0.065


@UNHURRIED
@given(LOGS, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_wider_margin_has_no_smaller_p_value(logs, one, other):
    assert 0 <= p_value(logs, min(one, other)) <= p_value(logs, max(one, other)) <= 1


def test_without_spread_the_side_of_the_margin_decides():
    assert p_value([0.1] * 5, 0.01) == 0.0 and p_value([-0.1] * 5, 0.01) == 0.0
    assert p_value([0.005] * 5, 0.01) == 1.0 and p_value([0.0] * 5, 0.0) == 1.0
    assert p_value([], 0.0) == p_value([0.5], 0.0) == 1.0


def test_f45_a_p_value_that_underflows_is_still_a_number():
    certain = p_value([0.7 + 0.01 * (-1) ** n for n in range(2000)], 0.01)
    assert certain == 0.0 and isinstance(certain, float) and certain is not None
    assert holm([0.5, certain, 0.04]) == [0.5, 0.0, 0.08]
    assert 0 < p_value([0.7 + 0.01 * (-1) ** n for n in range(20)], 0.01) < 1e-20, "a small one is not cut to 0"


def test_holm_steps_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0] and holm([0.04]) == [0.04] and holm([]) == []


@UNHURRIED
@given(PROBABILITIES)
def test_holms_are_no_smaller_than_their_own_and_no_larger_than_bonferronis(p_values):
    adjusted = holm(p_values)
    assert all(p <= a <= min(1.0, p * len(p_values)) for p, a in zip(p_values, adjusted, strict=True))
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert all(a <= b for (_, a), (_, b) in itertools.pairwise(ranked))
    assert not p_values or min(adjusted) == min(1.0, min(p_values) * len(p_values))


@UNHURRIED
@given(PROBABILITIES, st.randoms(use_true_random=False))
def test_holms_go_with_their_own_in_any_order(p_values, shuffler):
    places = list(range(len(p_values)))
    shuffler.shuffle(places)
    adjusted = holm(p_values)
    assert holm([p_values[place] for place in places]) == [adjusted[place] for place in places]


@pytest.mark.parametrize("wrong", [math.nan, -0.1, 1.1])
def test_what_is_no_probability_is_not_adjusted(wrong):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, wrong])


def test_two_take_turns_as_a_b_b_a_b_a_a_b():
    assert "".join("AB"[i] for turn in range(8) for i in balanced_order(2, turn)) == "ABBABAAB" * 2
    assert balanced_order(1, 5) == (0,) and balanced_order(0, 5) == ()


@pytest.mark.parametrize("count", range(1, 13))
def test_the_first_turn_is_the_declared_order(count):
    assert balanced_order(count, 0) == tuple(range(count))
    assert balanced_order(count, 1) == tuple(range(count))[::-1]


@UNHURRIED
@given(st.integers(1, 12), st.integers(0, 200))
def test_each_takes_part_once_in_each_turn(count, turn):
    assert sorted(balanced_order(count, turn)) == list(range(count))


@UNHURRIED
@given(st.integers(1, 12), st.integers(0, 100))
def test_a_linear_drift_cancels_in_each_pair_of_turns(count, pair):
    first, second = (balanced_order(count, 2 * pair + half) for half in (0, 1))
    assert first == second[::-1] and {first.index(i) + second.index(i) for i in range(count)} == {count - 1}


@UNHURRIED
@given(st.integers(2, 10), st.integers(0, 5))
def test_over_a_cycle_positions_and_neighbours_are_equally_frequent(count, cycle):
    length = count if count % 2 == 0 else 2 * count
    turns = [balanced_order(count, cycle * length + turn) for turn in range(length)]
    places = collections.Counter((i, place) for turn in turns for place, i in enumerate(turn))
    assert len(places) == count**2 and set(places.values()) == {length // count}
    pairs = collections.Counter(pair for turn in turns for pair in itertools.pairwise(turn))
    assert len(pairs) == count * (count - 1) and set(pairs.values()) == {length // count}


@UNHURRIED
@given(st.integers(2, 10))
def test_a_row_and_its_reverse_take_turns_to_be_first(count):
    rows = count if count % 2 else count // 2
    firsts = [[balanced_order(count, 2 * (cycle * rows + row)) for row in range(rows)] for cycle in (0, 1)]
    assert [order[::-1] for order in firsts[0]] == firsts[1], "what was first in one cycle is second in the next"


def test_the_step_that_a_timer_shows():
    assert tick([8.0, 9.5, 8.5, 8.0]) == 0.5 and tick([]) == tick([8.0, 8.0]) == 0.0


@UNHURRIED
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=60))
def test_the_step_is_no_finer_than_the_timers(counts):
    seen = tick([count * 0.5 for count in counts])
    assert seen % 0.5 == 0 and (seen > 0) == (len(set(counts)) > 1)


def test_f40_a_timer_of_half_a_us_takes_125_calls_of_8_us_for_half_a_percent():
    assert calls_for_resolution(0.5, 8.0, 0.005) == 125
    assert calls_for_resolution(0.5, 8.1, 0.005) == 124 and calls_for_resolution(0.5, 7.9, 0.005) == 127
    assert calls_for_resolution(tick([8.2, 8.3]), 8.0, 0.005) == 25, "a rounding error of the step costs no call"
    assert calls_for_resolution(0.5, 1e6, 0.005) == calls_for_resolution(0.0, 8.0, 0.005) == 1


@pytest.mark.parametrize("time_us, target", [(0.0, 0.01), (-1.0, 0.01), (8.0, 0.0)])
def test_a_time_of_zero_is_not_resolved(time_us, target):
    with pytest.raises(ValueError, match="resolves"):
        calls_for_resolution(0.5, time_us, target)


@UNHURRIED
@given(st.floats(1e-4, 10), st.floats(0.1, 1e5), st.floats(1e-4, 0.5))
def test_as_few_calls_as_resolve_the_target(tick_us, time_us, target):
    calls = calls_for_resolution(tick_us, time_us, target)
    assert tick_us <= calls * time_us * target / 10 * (1 + 1e-6)
    assert calls == 1 or tick_us > (calls - 1) * time_us * target / 10


def of(times, **changes):
    """A record of the kernel "k"."""
    return record(times=times, kernel="k", **changes)


def judged(kernel_us):
    times = {"k": kernel_us, "b": steady(100.0, rounds=len(kernel_us))}
    return against(of(times), "b")


@pytest.mark.parametrize("us, verdict", [(90.0, "faster"), (110.0, "slower"), (100.1, "same"), (100.4, "inconclusive")])
def test_the_verdict_is_about_the_interval_and_the_margin(us, verdict):
    found = judged([[us * (1 + 0.002 * (-1) ** (n // 2))] * 3 for n in range(20)])
    assert (found.verdict, found.old_us) == (verdict, 100.0) and found.new_us == pytest.approx(us, rel=0.003)
    assert found.low <= found.ratio <= found.high


def test_a_verdict_takes_eight_units():
    found = judged(steady(90.0, rounds=2 * MIN_UNITS - 2))
    assert found.verdict == "inconclusive" and "--rounds 16" in found.reason
    assert judged(steady(90.0, rounds=2 * MIN_UNITS)).verdict == "faster"


def test_the_mean_and_the_ranks_must_agree():
    rounds = steady(99.0, rounds=18, jitter=0.0) + [[300.0] * 3] * 2
    found = judged(rounds)
    assert found.verdict == "inconclusive"


def test_a_drift_that_falls_on_both_is_no_difference():
    drift = [1 + 0.05 * n / 20 for n in range(20)]
    times = {name: [[100.0 * (f + (0.001 if position else 0))] * 3 for f in drift] for position, name in enumerate("kb")}
    assert against(of(times), "b").verdict == "same"


def test_one_round_is_no_unit():
    found = judged(steady(90.0, rounds=1))
    assert found.verdict == "inconclusive" and found.ratio == pytest.approx(0.9, rel=0.01) and not found.sound


def test_a_baseline_that_was_not_timed_is_no_comparison():
    with pytest.raises(NothingRanError, match="torch.mm was not timed"):
        against(record(), "torch.mm")


def test_a_noise_floor_is_how_far_equal_code_strays_and_how_unsure_that_is():
    same = of({"k": steady(100.3, rounds=16, jitter=0), "k again": steady(100.0, rounds=16, jitter=0)})
    assert noise_floor(same, "k again") == pytest.approx(math.log(1.003), rel=1e-6)
    with pytest.raises(NothingRanError, match="3 units") as raised:
        noise_floor(of({"k": steady(1.0, rounds=6), "k again": steady(1.0, rounds=6)}), "k again")
    assert raised.value.hint == "--rounds 16"


@pytest.mark.parametrize(
    "floor, verdict, said",
    [(None, "faster", "bench --self-test"), (0.002, "faster", "0.50% either way"), (0.0095, "same", "0.95% either way"),
     (0.011, "inconclusive", "noise floor of this card is 1.1%")],
)  # fmt: skip
def test_no_difference_below_the_noise_floor_is_one_and_above_one_percent_none_is(floor, verdict, said):
    times = {"k": steady(99.2, rounds=16), "b": steady(100.0, rounds=16)}
    found = against(of(times, noise_floor=floor), "b")
    assert found.verdict == verdict and said in found.reason
