"""Modes that are none of noise, and outliers that are only counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.shape import modes, outliers
from tirx_bench.stats import median_range, tick

TIMES = st.floats(1e-3, 1e6)
UNHURRIED = settings(deadline=None)


def test_outliers_are_counted_by_the_median_distance():
    noise = [100 + 0.1 * (n % 11 - 5) for n in range(44)]  # median distance 0.3: the reach is 2.22
    assert outliers(noise) == 0 and outliers([*noise, 102.0, 98.0]) == 0
    assert outliers([*noise, 103.0, 97.0, 1e6]) == 3
    assert outliers([8.0] * 30 + [9.0] * 3) == 0, "half of the values are the same"


@UNHURRIED
@given(st.lists(TIMES, min_size=2, max_size=50), st.integers(-10, 10))
def test_outliers_do_not_hang_on_the_unit_or_the_order(values, octave):
    scale = 2.0**octave  # exact, so that no rounding decides
    assert outliers(values) == outliers([v * scale for v in values[::-1]]) < len(values) / 2


NOISE = {
    "normal": lambda rng, n: rng.normal(1, 0.01, n),
    "uniform": lambda rng, n: rng.uniform(1, 1.05, n),
    "exponential": lambda rng, n: 1 + rng.exponential(0.02, n),
    "lognormal": lambda rng, n: rng.lognormal(0, 0.5, n),
    "spikes": lambda rng, n: rng.normal(1, 0.01, n) * np.where(rng.random(n) < 0.01, rng.uniform(1.2, 2, n), 1),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("count", [20, 50, 100, 300, 1000])
def test_noise_has_one_mode(noise, count):
    rng = np.random.default_rng(count)
    sessions = 1000 if count < 300 else 200
    assert np.mean([len(modes(NOISE[noise](rng, count).tolist())) > 1 for _ in range(sessions)]) < 0.02


def two(rng, count, share, up, spikes=0.0):
    second = rng.permutation(count) < round(count * share)
    return (rng.normal(1, 0.01, count) * np.where(second, up, 1) * np.where(rng.random(count) < spikes, 1.6, 1)).tolist()


@pytest.mark.parametrize("count", [50, 100, 300, 1000])
@pytest.mark.parametrize(
    "share, up, spikes", [(0.2, 1.1, 0.0), (0.2, 1.1, 0.01), (0.8, 1.1, 0.0), (0.5, 1.08, 0.0), (0.3, 0.9, 0.0)]
)
def test_two_modes_are_found_and_measured(count, share, up, spikes):
    rng = np.random.default_rng(count)
    found = [modes(two(rng, count, share, up, spikes)) for _ in range(100)]
    both = [sorted(m, key=lambda mode: abs(mode[0] - up)) for m in found if len(m) == 2]
    assert len(both) >= 85
    for (centre, part), (other, rest) in both:
        assert centre == pytest.approx(up, rel=0.015) and other == pytest.approx(1, rel=0.015)
        assert part == pytest.approx(share, abs=0.05) and part + rest == pytest.approx(1)


def test_f42_a_20_percent_mode_is_reported_and_nothing_deleted():
    values = two(np.random.default_rng(4), 200, 0.2, 1.1)
    before = list(values)
    (low, most), (high, few) = modes(values)
    assert (most, few) == (0.8, 0.2) and low == pytest.approx(1, rel=0.01) and high == pytest.approx(1.1, rel=0.01)
    outliers(values), median_range(values), tick(values)
    assert values == before, "neither deleted nor put in another order"


def test_one_value_has_one_mode_and_no_outlier():
    assert modes([12.5]) == ((12.5, 1.0),) and outliers([12.5]) == 0


def test_a_mode_takes_a_tenth_and_more_than_one_value():
    assert modes([1.0] * 90 + [1.1] * 10) == ((1.0, 0.9), (1.1, 0.1))
    assert len(modes([1.0] * 93 + [1.1] * 7)) == 1
    assert len(modes([1.0] * 9 + [10.0])) == 1 and len(modes([1.0] * 8 + [10.0] * 2)) == 2
    assert modes([5.0] * 40) == ((5.0, 1.0),)


def test_a_value_between_two_modes_does_not_join_them():
    values = two(np.random.default_rng(6), 300, 0.3, 1.1)
    assert len(modes(values)) == len(modes([*values, 1.045, 1.05, 1.055])) == 2
    assert len(modes([*values, *np.linspace(1.04, 1.06, 30).tolist()])) == 1


def test_wide_clusters_are_one():
    levels = [96.0] * 4 + [100.0] * 36 + [101.5] * 36 + [105.5] * 4  # means 1.9 apart, a gap of 1.5, a spread of 0.9
    assert len(modes([level + n % 5 / 1000 for n, level in enumerate(levels)])) == 1
    assert len(modes([level + n % 5 / 1000 for n, level in enumerate(levels[4:76])])) == 2


def test_steps_of_a_timer_are_no_modes():
    rng = np.random.default_rng(2)
    stepped = [np.round(rng.normal(8, 0.2, 200) * 2) / 2 for _ in range(100)]
    assert all(len(modes(values.tolist())) == 1 for values in stepped), "three steps show that they are steps"
    assert len(modes([8.0, 8.5] * 50)) == 2 and len(modes([8.0, 8.5] * 50, step=0.5)) == 1
    assert len(modes([8.0, 9.5] * 50, step=0.5)) == 2


@UNHURRIED
@given(st.lists(TIMES, min_size=1, max_size=80), st.randoms(use_true_random=False))
def test_modes_are_shares_of_all_values_in_any_order(values, shuffler):
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    found = modes(values)
    assert found == modes(shuffled) and list(found) == sorted(found)
    assert sum(share for _, share in found) == pytest.approx(1) and all(share >= 0.1 for _, share in found)
    assert min(values) <= found[0][0] and found[-1][0] <= max(values)
