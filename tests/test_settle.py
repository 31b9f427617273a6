"""The warm-up: it goes on while anything moves, ends when three windows are alike, and says what was not still."""

from __future__ import annotations

import itertools

import pytest

from tirx_bench.device import Reading
from tirx_bench.timing.settle import STILL, STILL_CLOCK, WINDOWS, settle, still_moving


def window(mhz=1980.0, **times):
    """Readings of `times` microseconds by implementation."""
    return {
        name: [Reading(us, 0.0, mhz) for us in (found if isinstance(found, list) else [found])] for name, found in times.items()
    }


class Loop:
    """Each window takes a tenth of a second and gives the next of `windows`, the last of them for ever."""

    def __init__(self, *windows):
        self.windows, self.ran = windows, 0

    def __call__(self):
        self.ran += 1
        return self.windows[min(self.ran, len(self.windows)) - 1]

    def seconds(self):
        return self.ran / 10


def settled(*windows, warmup_ms=0.0, cap_s=100.0):
    loop = Loop(*windows)
    found = settle(loop, warmup_ms, cap_s, loop.seconds)
    assert found.warmed_ms == pytest.approx(100 * loop.ran)
    return loop.ran, found.moving


def test_what_stands_still_is_settled_after_three_windows():
    assert settled(window(A=10.0)) == (3, "")


def test_it_ends_with_the_last_three_windows_and_not_with_all_of_them():
    falling = [window(A=us) for us in (20.0, 15.0, 12.0, 10.0)]
    assert settled(*falling) == (6, ""), "10 us three times"


@pytest.mark.parametrize("apart, still", [(0.9 * STILL, True), (1.1 * STILL, False), (-0.9 * STILL, True), (-1.1 * STILL, False)])
def test_times_are_still_within_half_a_percent(apart, still):
    moving = still_moving([window(A=10.0), window(A=10.0), window(A=10.0 * (1 + apart))])
    assert (moving == "") == still
    assert still or moving.startswith("A moved by ") and moving.endswith(f"in the last {WINDOWS} windows")


@pytest.mark.parametrize("apart, still", [(0.9 * STILL_CLOCK, True), (1.1 * STILL_CLOCK, False), (-1.1 * STILL_CLOCK, False)])
def test_the_clock_is_still_within_one_percent(apart, still):
    moving = still_moving([window(A=10.0), window(A=10.0), window(1980 * (1 + apart), A=10.0)])
    assert (moving == "") == still
    assert still or moving.startswith("the SM clock moved by ")


def test_the_medians_of_a_window_count_and_not_its_extremes():
    assert still_moving([window(A=[10.0, 10.0, us]) for us in (10.0, 50.0, 1.0)]) == ""


@pytest.mark.parametrize("moves", ["A", "B"])
def test_every_implementation_must_stand_still(moves):
    windows = [window(**{"A": 10.0, "B": 10.0, moves: us}) for us in (10.0, 10.0, 11.0)]
    assert still_moving(windows).startswith(f"{moves} moved by 10.0%")


def test_without_a_clock_only_the_times_count():
    assert still_moving([window(None, A=10.0)] * 3) == ""
    assert still_moving([window(None, A=10.0), window(1980, A=10.0), window(None, A=10.0)]) == ""


def test_times_of_zero_are_for_others_to_refuse():
    assert still_moving([window(A=0.0)] * 3) == ""


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_windows_do_not_tell(count):
    assert "too few to tell" in still_moving([window(A=10.0)] * count)


def test_the_time_asked_for_passes_however_still_it_is():
    assert settled(window(A=10.0), warmup_ms=1000) == (10, "")


def test_what_never_settles_ends_at_the_cap_and_says_what_moved():
    rising = [window(A=us) for us in itertools.accumulate([0.1] * 100, initial=10.0)]
    ran, moving = settled(*rising, cap_s=2.0)
    assert ran == 20 and moving.startswith("A moved by ")


def test_the_time_asked_for_passes_also_beyond_the_cap():
    rising = [window(A=us) for us in itertools.accumulate([0.1] * 100, initial=10.0)]
    assert settled(*rising, warmup_ms=3000, cap_s=2.0)[0] == 30


def test_what_settles_late_is_settled():
    late = [window(A=20.0 - n) for n in range(10)]
    assert settled(*late, cap_s=5.0) == (12, "")


def test_without_a_cap_nobody_looks_and_that_is_said():
    ran, moving = settled(window(A=10.0), warmup_ms=500, cap_s=0)
    assert ran == 5 and "nobody looked" in moving
