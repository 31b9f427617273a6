"""A histogram that fits a terminal, drops nothing and is not squashed by one outlier; and the samples in one line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.render.histogram import central, histogram, number, shape_line

TIMES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60)
UNHURRIED = settings(deadline=None)
NOISE = [184 + 0.01 * (n * 37 % 101) for n in range(200)]  # 184 to 185, no two neighbours alike


def counts(text: str) -> list[int]:
    """Every count in the histogram: one of each bin, and those of what lies outside."""
    bins = [int(n) for n in re.findall(r"us  +(\d+)", text)]
    return bins + [int(n) for n in re.findall(r"and (\d+) (?:below|above)", text)]


@UNHURRIED
@given(TIMES, st.integers(1, 12))
def test_every_value_is_counted_and_no_line_is_too_long(values, rows):
    lines = histogram(values, width=20, rows=rows).split("\n")
    assert sum(counts("\n".join(lines))) == len(values) and len(lines) <= rows
    assert max(len(re.sub(r"[^▏▎▍▌▋▊▉█]", "", line)) for line in lines) == 20


def test_one_outlier_does_not_squash_the_rest_and_is_said():
    lines = histogram([*NOISE, 9e5]).split("\n")
    assert len(lines) == 8 and sum(counts(lines[0])) > 10
    assert lines[-1].endswith("  and 1 above, up to 900000 us")
    assert histogram([0.5, *NOISE]).split("\n")[0].endswith("  and 1 below, down to 0.5000 us")
    assert central([*NOISE, 0.5, 9e5]) == (min(NOISE), max(NOISE))


def test_a_second_mode_is_drawn():
    lines = histogram([*NOISE, *(20 + value for value in NOISE[:50])]).split("\n")
    assert counts(lines[0])[0] >= 150 and counts(lines[-1]) == [50]


def test_bins_of_a_coarse_timer_hold_as_many_of_its_steps():
    steps = [9.6 + 0.032 * (n % 20) for n in range(400)]
    assert counts(histogram(steps)) == [60] * 6 + [40]
    assert histogram([8.0, 8.5] * 20) == "7.75 to 8.25 us  20 " + "█" * 40 + "\n8.25 to 8.75 us  20 " + "█" * 40


@pytest.mark.parametrize("values", ([5.0], [5.0] * 9, [1.0, 1.0 + 2e-16]))
def test_values_that_are_the_same_are_one_bar(values):
    assert histogram(values, width=4) == f"{number(values[0])} us  {len(values)} ████"


def test_a_bar_has_eighths_and_a_single_value_shows():
    text = histogram([100.0] * 300 + [101.0] * 60 + [102.0] * 20 + [103.0], width=8)
    assert [line.split()[-1] for line in text.split("\n")] == ["████████", "█▋", "▋", "▏"]


# ------------------------------------------------------------------------------------------- in one line


@UNHURRIED
@given(TIMES)
def test_the_line_of_any_values_is_in_order(values):
    line = shape_line(values)
    assert "\n" not in line and line.startswith(f"{len(values)} sample")
    if len(values) > 1:
        low, median, high = (float(re.search(rf"{word} ([\d.]+)", line).group(1)) for word in ("min", "median", "max"))
        assert low <= median <= high
        if around := re.search(r"\(([\d.]+) to ([\d.]+)\)", line):
            assert low <= float(around.group(1)) <= median <= float(around.group(2)) <= high


def test_the_line_holds_the_interval_the_outliers_and_the_modes():
    noise = [184 + 0.01 * (n * 379 % 1009) / 10 for n in range(1000)]
    assert shape_line(noise) == "1000 samples, min 184.00, median 184.50 (184.47 to 184.53), max 185.01 us"
    assert shape_line([*noise, 300.0]).endswith("max 300.00 us; 1 outlier")
    both = shape_line([*noise, *(20 + value for value in noise[:250]), 300.0, 400.0])
    assert re.search(r"; 2 outliers; two modes: 184.\d+ us \(80 %\) and 204.\d+ us \(20 %\)$", both), both


def test_below_six_samples_there_is_no_interval():
    assert shape_line([1.0, 3.0, 2.0, 5.0, 4.0]) == "5 samples, min 1.000, median 3.000, max 5.000 us"
    assert shape_line([185.21]) == "1 sample, 185.2 us"


@given(st.floats(1e-6, 1e9), st.floats(1e-6, 1e9))
def test_a_larger_number_never_reads_as_a_smaller_one(a, b):
    assert (float(number(a)) <= float(number(b))) if a <= b else (float(number(a)) >= float(number(b)))
    assert "e" not in number(a) and float(number(a)) == pytest.approx(a, rel=1e-3)
