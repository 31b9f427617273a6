"""Intervals that hold what they say under the noise that cards show, and verdicts that are not made of noise."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from helpers_records import record, steady, timing

from tirx_bench.compare import MIN_UNITS, against, noise_floor
from tirx_bench.model import NothingRanError
from tirx_bench.stats import Interval, mean_interval, rank_interval, trend

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


def judged(kernel_us, **changes):
    times = {"k": kernel_us, "b": steady(100.0, rounds=len(kernel_us))}
    return against(timing(times), "k", "b")


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
    assert against(timing(times), "k", "b").verdict == "same"


def test_one_round_and_a_time_of_zero_are_no_unit():
    assert judged(steady(90.0, rounds=1)).verdict == "inconclusive"
    found = judged([[0.0] * 3] * 20)
    assert found.verdict == "inconclusive" and math.isnan(found.ratio)


def test_a_baseline_that_was_not_timed_is_no_comparison():
    with pytest.raises(NothingRanError, match="torch.mm was not timed"):
        against(record().timing, "add", "torch.mm")


def test_a_noise_floor_is_how_far_equal_code_strays_and_how_unsure_that_is():
    same = timing({"k": steady(100.3, rounds=16, jitter=0), "k again": steady(100.0, rounds=16, jitter=0)})
    assert noise_floor(same, "k", "k again") == pytest.approx(math.log(1.003), rel=1e-6)
    with pytest.raises(NothingRanError, match="3 units") as raised:
        noise_floor(timing({"k": steady(1.0, rounds=6), "k again": steady(1.0, rounds=6)}), "k", "k again")
    assert raised.value.hint == "--rounds 16"


@pytest.mark.parametrize(
    "floor, verdict, said",
    [(None, "faster", "bench --self-test"), (0.002, "faster", "0.50% either way"), (0.0095, "same", "0.95% either way"),
     (0.011, "inconclusive", "noise floor of this card is 1.1%")],
)  # fmt: skip
def test_no_difference_below_the_noise_floor_is_one_and_above_one_percent_none_is(floor, verdict, said):
    times = {"k": steady(99.2, rounds=16), "b": steady(100.0, rounds=16)}
    found = against(timing(times), "k", "b", floor)
    assert found.verdict == verdict and said in found.reason
