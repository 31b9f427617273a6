"""What a finished timing says about itself: made-up samples in, statuses out."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from helpers_records import steady, timing

from tirx_bench.model import STATUSES, CardState, Sample, Status, Timing, TimingPolicy, UsageError
from tirx_bench.stats import median_range
from tirx_bench.timing.judge import CLOCK_SPREAD, OF_THE_ROUNDS, half_widths, precise, statuses

EVENT = TimingPolicy(timer="event")


def fine(us, rounds=16, calls=5):
    """Rounds around `us` whose values differ in the sixth digit, so that no step of the timer shows."""
    rng = random.Random(rounds)
    return [[us * (1 + 1e-6 * rng.random()) for _ in range(calls)] for _ in range(rounds)]


def said(found: Timing, name=None, floor_us=None, gated_us=None, kernel="k"):
    """The statuses with this name, or all."""
    return [s for s in statuses(found, kernel, floor_us, gated_us or {}) if name in (None, s.name)]


def abouts(*arguments, **options):
    return [s.implementation for s in said(*arguments, **options)]


def test_still_times_of_two_have_nothing_to_say():
    assert said(timing({"k": fine(10), "b": fine(20)}, EVENT)) == []


def test_a_status_that_is_not_known_is_refused_with_the_near_names():
    with pytest.raises(UsageError, match="unknown status 'HOST_BOUNT'") as raised:
        Status("HOST_BOUNT", "")
    assert "HOST_BOUND" in raised.value.hint


def test_what_takes_all_rounds_to_tell_is_said_of_the_rounds_and_of_nothing_that_was_tried_before_them():
    moving = [[us * (1 + 0.01 * n) for us in found] for n, found in enumerate(fine(10))]
    stepping = [[8.0, 8.0 + 0.5 * (n % 2)] * 5 for n in range(16)]
    found = timing({"k": moving, "b": stepping}, EVENT, throttle=("power brake",))
    assert {s.name for s in said(found)} == OF_THE_ROUNDS
    assert set(STATUSES) > OF_THE_ROUNDS and not {"HIDDEN_WORK", "SYNCS", "SHARED", "NOT_SETTLED"} & OF_THE_ROUNDS


def test_what_each_status_takes_away():
    takes = {name: meaning.forbids for name, meaning in STATUSES.items()}
    assert [n for n, forbids in takes.items() if forbids == "nothing is timed"] == ["HIDDEN_WORK"]
    assert [n for n, forbids in takes.items() if forbids == "no verdict"] == ["IMPOSSIBLE", "COLD_UNPROVEN", "SHARED"]
    assert [n for n, forbids in takes.items() if forbids == "no verdict by events"] == ["HOST_BOUND"]
    assert [n for n, forbids in takes.items() if forbids == "no absolute time"] == ["THROTTLED", "DRIFT", "NOT_SETTLED"]
    assert [n for n, forbids in takes.items() if not forbids] == ["COARSE", "IMPRECISE"], "said, and nothing taken away"


# ------------------------------------------------------------------------------------------------ host


def traced(gap_us, us=50.0, empty_us=0.0, rounds=16):
    """A timing by kernel spans whose untraced event intervals are longer by `gap_us`."""
    base = timing({"k": fine(us, rounds)}, TimingPolicy())
    untraced = tuple(replace(s, us=s.us + gap_us) for s in base.samples)
    return replace(base, untraced=untraced, empty_event_us=empty_us)


@pytest.mark.parametrize(
    "us, gap_us, empty_us, bound",
    [
        (10, 0.9, 0, False), (10, 1.1, 0, True),  # 1 us at least
        (1000, 19, 0, False), (1000, 21, 0, True),  # 2 %
        (10, 2.9, 2, False), (10, 3.1, 2, True),  # what two events show with nothing between them is not the host's
    ],
)  # fmt: skip
def test_the_host_is_what_the_event_interval_has_beyond_kernel_span_and_events(us, gap_us, empty_us, bound):
    found = said(traced(gap_us, us, empty_us), "HOST_BOUND")
    assert [s.implementation for s in found] == (["k"] if bound else [])
    if bound:
        assert f"event interval {us + gap_us:.2f} us, {us:.2f} us of kernel span: the host adds" in found[0].evidence


@pytest.mark.parametrize("behind_us, bound", [(49.1, False), (48.9, True), (30, True)])
def test_between_two_event_intervals_the_events_cancel(behind_us, bound):
    found = replace(timing({"k": fine(50), "b": fine(50)}, EVENT), empty_event_us=20.0)
    assert abouts(found, "HOST_BOUND", gated_us={"k": behind_us}) == (["k"] if bound else [])
    if bound:
        assert f"{behind_us:.2f} us behind a gate" in said(found, "HOST_BOUND", gated_us={"k": behind_us})[0].evidence


def test_without_a_second_interval_nobody_knows_the_host():
    assert abouts(timing({"k": fine(50)}, EVENT), "HOST_BOUND") == []


# ----------------------------------------------------------------------------------------- times move


def test_times_that_move_from_first_to_last_are_a_drift_of_that_implementation():
    moving = [[us * (1 + 0.002 * n) for us in found] for n, found in enumerate(fine(10))]
    found = timing({"k": fine(10), "b": moving}, EVENT)
    (status,) = said(found, "DRIFT")
    assert status.implementation == "b" and status.evidence.startswith("+3.0% from the first round to the last, p = ")
    back = timing({"k": moving[::-1], "b": fine(10)}, EVENT)
    assert said(back, "DRIFT")[0].evidence.startswith("-3.0%") and abouts(back, "DRIFT") == ["k"]


def test_a_drift_below_one_percent_is_none():
    moving = [[us * (1 + 0.0005 * n) for us in found] for n, found in enumerate(fine(10))]
    assert said(timing({"k": moving}, EVENT), "DRIFT") == []


# ------------------------------------------------------------------------------------------------ steps


def stepped(us, step, calls=5, policy=EVENT):
    """Times on a grid: `us` and the next step above it."""
    return timing({"k": [[us, us + step * (n % 2)] * calls for n in range(16)]}, policy)


def test_steps_that_are_wide_against_the_precision_say_how_many_calls_resolve_it():
    (status,) = said(stepped(8.0, 0.5), "COARSE")
    assert status.implementation == "k"
    assert "steps of 0.5 us against 8 us" in status.evidence
    assert "--timer event --cache rotate --calls 125 resolves 0.50%" in status.evidence


def test_steps_that_are_small_against_the_precision_are_not_said():
    assert said(stepped(1000.0, 0.5), "COARSE") == []
    assert said(stepped(8.0, 0.5, policy=TimingPolicy(timer="event", precision=0.7)), "COARSE") == []
    assert said(timing({"k": [[8.0] * 5] * 16}, EVENT), "COARSE") == [], "one value shows no step"


def test_enough_calls_in_one_interval_resolve_and_are_not_said_to_be_coarse():
    many = TimingPolicy(timer="event", cache="warm", calls=125)
    assert said(stepped(8.0, 0.5 / 125, policy=many), "COARSE") == []
    few = TimingPolicy(timer="event", cache="warm", calls=2)
    assert "--calls 126" in said(stepped(8.0, 0.5 / 2, policy=few), "COARSE")[0].evidence


# ------------------------------------------------------------------------------------------- held back


def test_a_power_cap_alone_is_no_reason_to_doubt():
    assert said(timing({"k": fine(10)}, EVENT, throttle=("power cap",)), "THROTTLED") == []


def test_a_card_that_was_held_back_otherwise_is_said_with_how_often():
    found = timing({"k": fine(10)}, EVENT, throttle=("power cap", "hardware thermal"))
    (status,) = said(found, "THROTTLED")
    assert status.implementation is None
    assert status.evidence == "hardware thermal in 1 of 16 looks at the card", "the power cap is none of the reasons"
    states = [CardState(n, 1980, 40, 300.0, ("power brake", "hardware slowdown")[: n % 3]) for n in range(6)]
    (status,) = said(replace(found, states=tuple(states)), "THROTTLED")
    assert status.evidence == "hardware slowdown, power brake in 4 of 6 looks at the card"


def clocked(mhz):
    samples = [Sample("k", n, us, clock_mhz=clock) for n, clock in enumerate(mhz) for us in fine(10, 1)[0]]
    return Timing(EVENT, tuple(samples), (), True, session_s=1.0)


def test_a_clock_that_varies_between_rounds_is_said():
    found = said(clocked([1980.0] * 15 + [1755.0]), "THROTTLED")
    assert [s.implementation for s in found] == [None]
    assert "the SM clock varied by 2.9% between rounds, 1755 to 1980 MHz" in found[0].evidence
    assert said(clocked([1980.0 * (1 + 0.5 * CLOCK_SPREAD * (-1) ** n) for n in range(16)]), "THROTTLED") == []
    assert said(clocked([1980.0]), "THROTTLED") == [], "one round has no spread"


def test_without_clocks_nothing_is_said_about_them():
    found = timing({"k": fine(10)}, EVENT)
    silent = replace(found, samples=tuple(replace(s, clock_mhz=None) for s in found.samples))
    assert said(silent, "THROTTLED") == []


# ------------------------------------------------------------------------------------------ impossible


@pytest.mark.parametrize("us, said_to_be", [(9.7, ["k"]), (9.9, []), (20, [])])
def test_faster_than_the_card_can_be_is_impossible(us, said_to_be):
    found = timing({"k": fine(us), "b": fine(30)}, EVENT)
    assert abouts(found, "IMPOSSIBLE", floor_us=10) == said_to_be
    if said_to_be:
        assert "the card needs 10 us" in said(found, "IMPOSSIBLE", floor_us=10)[0].evidence


def test_a_baseline_that_leaves_work_out_is_impossible_too():
    assert abouts(timing({"k": fine(30), "b": fine(5)}, EVENT), "IMPOSSIBLE", floor_us=10) == ["b"]


def test_with_a_warm_cache_the_floor_of_the_memory_is_none():
    found = timing({"k": fine(5)}, TimingPolicy(timer="event", cache="warm"))
    assert abouts(found, "IMPOSSIBLE", floor_us=10) == []
    assert abouts(replace(found, policy=TimingPolicy(timer="event", cache="rotate")), "IMPOSSIBLE", floor_us=10) == ["k"]


def test_samples_that_add_up_to_more_than_the_session_are_impossible():
    found = timing({"k": fine(1e5, calls=1)}, EVENT)  # 1.6 s
    (status,) = said(replace(found, session_s=1.0), "IMPOSSIBLE")
    assert status.implementation is None and status.evidence == "the samples add up to 1.6 s and the session took 1 s"
    assert said(replace(found, session_s=1.6), "IMPOSSIBLE") == []
    many = replace(found, policy=TimingPolicy(timer="event", cache="warm", calls=10), session_s=9.0)
    assert len(said(many, "IMPOSSIBLE")) == 1, "a sample of ten calls is a tenth of its interval"
    assert said(replace(found, session_s=0.0), "IMPOSSIBLE") == [], "nobody took the time"


# ------------------------------------------------------------------------------------------- precision


def test_a_lone_kernel_asks_for_the_interval_of_its_median_and_others_for_their_ratios():
    assert half_widths(timing({"k": fine(10)}, EVENT), "k").keys() == {"k"}
    found = half_widths(timing({"k": fine(10), "b": fine(20), "c": steady(30, 16, 0.3)}, EVENT), "k")
    assert found.keys() == {"b", "c"} and found["b"] < 1e-5


def test_the_interval_of_a_lone_kernel_is_of_its_rounds_whose_calls_remember_each_other():
    """Within a round all calls are alike, and from round to round the clock moves by 2 % either way."""
    rng = random.Random(3)
    found = timing({"k": [[10 * (1 + rng.uniform(-0.02, 0.02))] * 200 for _ in range(16)]}, EVENT)
    width = half_widths(found, "k")["k"]
    assert width == median_range(found.round_medians_us("k")).half_width > 0.005 and not precise(found, "k")
    assert [s.implementation for s in said(found, "IMPRECISE")] == ["k"]
    wide = timing({"k": [[9.0, 10.0, 11.0]] * 16}, EVENT)
    assert half_widths(wide, "k")["k"] == 0, "what a call strays within its round is not how unsure the median is"


@pytest.mark.parametrize("rounds, known", [(1, False), (5, False), (6, True)])
def test_a_lone_kernel_takes_six_rounds_to_have_an_interval_however_many_calls_they_have(rounds, known):
    found = half_widths(timing({"k": [[10.0] * 100] * rounds}, EVENT), "k")
    assert (found["k"] < math.inf) == known


@pytest.mark.parametrize("rounds, known", [(1, False), (2, False), (3, False), (4, True)])
def test_a_ratio_takes_two_units_to_have_an_interval(rounds, known):
    found = half_widths(timing({"k": fine(10, rounds), "b": fine(20, rounds)}, EVENT), "k")
    assert (found["b"] < math.inf) == known


@pytest.mark.parametrize("rounds", [2, 4, 8, 14])
def test_fewer_than_eight_units_are_never_precise_however_still(rounds):
    assert not precise(timing({"k": fine(10, rounds), "b": fine(10, rounds)}, EVENT), "k")
    assert not precise(timing({"k": fine(10, rounds, 50)}, EVENT), "k")
    assert precise(timing({"k": fine(10, 16), "b": fine(10, 16)}, EVENT), "k")


def test_the_widest_interval_decides():
    still, wide = fine(10), [[10 * (1 + 0.05 * (n % 4 > 1))] * 5 for n in range(16)]
    assert not precise(timing({"k": still, "b": still, "c": wide}, EVENT), "k")
    loose = TimingPolicy(timer="event", precision=0.2)
    assert precise(timing({"k": still, "b": still, "c": wide}, loose), "k")


def test_every_interval_that_is_wider_than_asked_for_is_said():
    wide = [[10 * (1 + 0.05 * (n % 4 > 1))] * 5 for n in range(16)]
    found = said(timing({"k": fine(10), "b": fine(10), "c": wide}, EVENT), "IMPRECISE")
    assert [s.implementation for s in found] == ["c"]
    assert found[0].evidence.startswith("half-width ") and "after 16 rounds, 0.50% asked for" in found[0].evidence
    assert "no interval after 2 rounds" in said(timing({"k": fine(10, 2), "b": fine(10, 2)}, EVENT), "IMPRECISE")[0].evidence
