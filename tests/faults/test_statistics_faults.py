"""F39 to F55: statistics, reports and arguments. F39 to F42, F45 and F50 are in test_stats.py and test_shape.py as well."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import statistics

import pytest
from helpers_records import artifact, record, steady, timing, verification
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import Card, simulated_timers

from tirx_bench import model
from tirx_bench.compare import against, compare, noise_floor, together
from tirx_bench.device import Loop
from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import NothingRanError, Sample, Status, TimingPolicy, UsageError
from tirx_bench.render import page, verdicts
from tirx_bench.render.histogram import shape_line
from tirx_bench.stats import median_range
from tirx_bench.store import read_noise_floor, read_record, write_noise_floor, write_record
from tirx_bench.timing import judge, measure

SHORT = {"block_ms": 1, "warmup_ms": 1, "settle_s": 0, "rounds": 16, "max_rounds": 16, "cache": "warm"}


def measured(us, **policy):
    device = FakeDevice()
    return measure({"k": device.kernel(us)}, TimingPolicy(**{**SHORT, **policy}), device, verification())


def names(statuses):
    return {s.name for s in statuses}


def noise(seed, share):
    generator = random.Random(seed)
    return lambda us: us * (1 + generator.gauss(0, share))


# ------------------------------------------------------------------------------------- one estimator


@settings(deadline=None)
@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=40))
def test_f39_least_median_and_most_are_printed_in_that_order(values):
    found = re.search(r"min (\S+), median (\S+?)(?: \(.*?\))?, max (\S+) us", shape_line(values))
    least, median, most = map(float, found.groups())
    assert least <= median <= most
    assert least == pytest.approx(min(values), rel=1e-3) and most == pytest.approx(max(values), rel=1e-3)


def test_f40_equal_ticks_are_not_precise():
    """Ticks of half a microsecond on a kernel of 8 us: the first rounds are equal, and the median may be 3 % off."""
    few = timing({"k": [[8.0] * 3] * 8})
    assert judge.half_widths(few, "k") == {"k": 0} and not judge.precise(few, "k")
    device = FakeDevice()
    device.step_us = 0.5
    jitter = noise(1, 0.01)
    found = measure({"k": device.kernel(lambda us: jitter(8.1))}, TimingPolicy(**SHORT), device, verification())
    (coarse,) = [s for s in found.statuses if s.name == "COARSE"]
    assert "--calls 125" in coarse.evidence and found.timing.rounds == 16


def test_f41_one_round_has_no_spread():
    assert math.isnan(timing({"k": [[1.0, 2.0]]}).spread("k"))
    assert math.isinf(judge.half_widths(timing({"k": [[1.0]]}), "k")["k"])


def test_f43_an_estimate_of_zero_is_below_what_the_timer_resolves():
    with pytest.raises(NothingRanError, match="below what the timer resolves") as raised:
        measured(0.0, cache="cold")
    assert "--calls" in raised.value.hint


# ------------------------------------------------------------------------------ equal and different


@pytest.mark.parametrize("share", [1e-6, 1e-4])
def test_f44_equal_code_with_hardly_any_noise_is_not_called_different(share):
    """The interval excludes 1 by far; 0.3 % is what two runs of the same instructions show."""
    jitter = noise(1, share)
    times = {"k": [[jitter(100.3)] for _ in range(40)], "again": [[jitter(100.0)] for _ in range(40)]}
    found = against(record(kernel="k", timing=timing(times)), "again")
    assert found.low > 1 and found.verdict == "same"


def test_f44_what_the_card_showed_between_equal_code_widens_the_margin():
    times = timing({"k": steady(100.8, rounds=40), "b": steady(100.0, rounds=40)})
    floor = noise_floor(record(kernel="k", timing=timing({"k": steady(100.9, rounds=40), "b": steady(100.0, rounds=40)})), "b")
    assert 0.008 < floor < 0.01
    assert against(record(kernel="k", timing=times), "b").verdict == "slower"
    assert against(record(kernel="k", timing=times, noise_floor=floor), "b").verdict == "same"


BACK_TO_BACK = TimingPolicy(timer="event", cache="warm", calls=10)


@pytest.mark.parametrize(
    "policy, change",
    [(BACK_TO_BACK, {"calls": 1}), (BACK_TO_BACK, {"gate": True}), (TimingPolicy(), {"flush": "discard"})],
    ids=["calls", "gate", "flush"],
)
def test_f44_what_equal_code_showed_otherwise_timed_is_no_floor(tmp_path, policy, change):
    write_noise_floor(tmp_path, "GPU-1", policy, 0.002)
    assert read_noise_floor(tmp_path, "GPU-1", policy) == 0.002
    assert read_noise_floor(tmp_path, "GPU-1", dataclasses.replace(policy, **change)) is None


def found_of(us, **changes):
    jitter = noise(1, 0.001)
    times = {"k": [[jitter(us)] for _ in range(40)], "b": [[jitter(100.0)] for _ in range(40)]}
    return dataclasses.replace(against(record(kernel="k", timing=timing(times)), "b"), **changes)


def test_f45_a_p_value_of_zero_stays_in_the_table():
    held = together({"clear": found_of(150.0, p=0.0), "none": found_of(100.0)})
    assert held["clear"].p == 0.0 and held["clear"].verdict == "slower"
    row = next(line for line in verdicts(held).splitlines() if "clear" in line)
    assert row.split()[-2:] == ["0", "slower"]


def test_f51_a_workload_with_a_forbidding_status_is_not_in_the_geometric_mean():
    flagged = record(
        kernel="k", timing=timing({"k": steady(0.001, rounds=16), "b": steady(100.0, rounds=16)}),
        statuses=(Status("IMPOSSIBLE", "faster than the card can be", "k"),),
    )  # fmt: skip
    text = verdicts({"whole": found_of(90.0), "half": found_of(110.0), "near zero": against(flagged, "b")})
    assert "geometric mean of 2 ratios 0.99" in text and "1 left out" in text
    assert "no ratio to average" in verdicts({"near zero": against(flagged, "b")})


def test_f51_a_workload_without_an_interval_is_not_in_the_geometric_mean():
    lone = against(record(kernel="k", timing=timing({"k": [[0.001]], "b": [[100.0]]})), "b")
    text = verdicts({"whole": found_of(90.0), "half": found_of(110.0), "one round": lone})
    assert "geometric mean of 2 ratios 0.99" in text and "1 left out" in text and "nan" not in text


@pytest.mark.parametrize("us, code, verdict", [(105.0, 1, "slower"), (100.0, 0, "same"), (95.0, 0, "faster")])
def test_f55_a_planted_regression_fails_the_gate(tmp_path, capsys, us, code, verdict):
    from tirx_bench.cli import main

    paths = [str(write_record(record(us=time), tmp_path / str(n))) for n, time in enumerate((100.0, us))]
    assert main(["compare", *paths]) == code
    assert capsys.readouterr().out.startswith(f"{verdict}: ")


@pytest.mark.parametrize("factor, verdict", [(1.02, "slower"), (1.0, "same")])
def test_f55_a_planted_regression_of_two_percent_is_found_between_noisy_samples(factor, verdict):
    device = FakeDevice()
    first, second = noise(1, 0.01), noise(2, 0.01)
    calls = {"k": device.kernel(lambda us: first(10 * factor)), "b": device.kernel(lambda us: second(10))}
    found = measure(calls, TimingPolicy(**{**SHORT, "cache": "cold", "rounds": 40, "max_rounds": 40}), device, verification())
    assert against(record(kernel="k", timing=found.timing, statuses=found.statuses), "b").verdict == verdict


# --------------------------------------------------------------------------------- ends and counts


def test_f46_a_kernel_that_never_becomes_precise_ends_at_its_rounds_and_says_so():
    jitter = noise(3, 0.5)
    found = measured(lambda us: abs(jitter(100)) + 1, rounds=2, max_rounds=6)
    assert found.timing.rounds == 6 and "IMPRECISE" in names(found.statuses)


def test_f46_a_kernel_that_never_becomes_precise_ends_at_its_time():
    jitter = noise(3, 0.5)
    found = measured(lambda us: abs(jitter(1000)) + 1, rounds=2, max_rounds=1000, max_time_s=0.1)
    assert found.timing.rounds < 100 and 0.1 <= found.timing.session_s < 0.2


@pytest.mark.parametrize("timer", ["event", "graph"])
def test_f47_many_calls_in_one_interval_are_divided_by_their_number_once(monkeypatch, timer):
    card = Card()
    timers = simulated_timers(monkeypatch, card)
    one = card.kernel(71.9)

    def replay():
        for _ in range(32):
            one()

    (reading,) = timers.time(timer, [replay if timer == "graph" else one], Loop(lambda: None, calls=32))
    assert reading.us == pytest.approx(71.9)


@pytest.mark.parametrize("values", [[2294.0], [2294.0] * 5])
def test_f48_a_few_samples_of_many_calls_have_no_interval(values):
    assert (median_range(values).low, median_range(values).high) == (0.0, math.inf)


def test_f48_how_many_calls_a_sample_holds_is_said():
    many = timing({"add": [[10.0]]}, TimingPolicy(timer="event", cache="warm", calls=100))
    text = page(record(timing=many))
    assert "a sample is the mean of 100 calls back to back" in text and "1 sample, 10.00 us" in text


def test_f49_samples_that_add_up_to_more_than_the_session_are_impossible():
    times = timing({"k": steady(10.0)})  # 30 samples in a session of 9 s
    assert "IMPOSSIBLE" not in names(judge.statuses(times, "k", None, {}))
    inflated = timing({"k": steady(10.0 * 100_000)})
    (status,) = [s for s in judge.statuses(inflated, "k", None, {}) if s.name == "IMPOSSIBLE"]
    assert status.evidence == "the samples add up to 30 s and the session took 9 s"


# ------------------------------------------------------------------------------ records and options


def test_f52_what_changes_from_day_to_day_does_not_part_the_records_of_one_card():
    one, other = ({**record().environment, "memory_bytes": n << 20, "temperature_c": n % 100} for n in (10678, 10681))
    before = record(environment=one, created="2026-01-02T03:04:05.678+00:00", command="tirx-bench run add")
    after = record(environment=other, created="2026-02-03T04:05:06.789+00:00", command="run", artifact=artifact(folder="/other"))
    assert compare(before, after).verdict == "same"
    with pytest.raises(UsageError, match="not comparable: GPU UUID GPU-1 and GPU-2"):
        compare(before, record(environment={**other, "gpu_uuid": "GPU-2"}))


def test_f53_half_a_percent_survives_a_record_and_what_is_missing_is_no_number(tmp_path):
    samples = (Sample("add", 0, 10.0471234567), Sample("add", 1, 10.0973590741, clock_mhz=1980.0))
    kept = record(timing=dataclasses.replace(timing({"add": [[1.0]]}), samples=samples))
    path = write_record(kept, tmp_path)
    assert read_record(path).timing.samples == samples
    assert json.loads(path.read_text())["timing"]["samples"][0]["clock_mhz"] is None


@pytest.mark.parametrize("us", [-1.0, 0.0])
def test_f53_a_default_in_place_of_a_time_is_refused(us):
    with pytest.raises(NothingRanError):
        timing({"add": [[10.0], [us]]})


UNITS = re.compile(r"(^|_)(us|ms|s|mhz|c|w|bytes|mb|per_s)$|tflops$")
WITHOUT_UNIT = {
    "calls", "precision", "rounds", "max_rounds", "seed", "round", "noise_floor", "rtol", "atol", "flops", "bytes",
    "max_abs_error", "max_rel_error", "rms_rel_error", "worst_actual", "worst_expected", "wrong_elements",
    "bound_share", "seeds", "repeats", "launches", "steps", "unit", "c",
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    ["TimingPolicy", "Timing", "Sample", "CardState", "Peak", "Work", "Record", "OutputCheck", "VerifyPolicy", "Attempt",
     "RoundingBound"],
)  # fmt: skip
def test_f54_every_number_has_its_unit_in_its_name_or_has_none(kind):
    for field in dataclasses.fields(getattr(model, kind)):
        if re.search(r"\b(int|float)\b", field.type) and "Mapping" not in field.type:
            assert UNITS.search(field.name) or field.name in WITHOUT_UNIT, f"{kind}.{field.name}"


def test_f54_options_that_take_a_time_say_its_unit_and_no_other_name_is_guessed():
    from tirx_bench.cli import parser

    commands = next(a for a in parser()._actions if a.dest == "command").choices
    said = {a.option_strings[0]: a.metavar for a in commands["bench"]._actions if a.type is float and a.option_strings}
    assert said == {"--timeout": "S", "--max-time": "S", "--cooldown": "S"}
    with pytest.raises(UsageError, match="unknown option"):
        parser().parse_args(["bench", "gemm", "--warmup", "25"])


def test_f54_a_share_may_be_written_as_percent_and_five_is_not_five_percent():
    from tirx_bench.cli.options import percent

    assert percent("0.5%") == percent("0.005") == 0.005
    with pytest.raises(UsageError, match="a precision of 5 is not one"):
        TimingPolicy(precision=percent("5"))


def test_f50_the_median_and_its_interval_are_both_of_the_median():
    rng = random.Random(5)
    values = [rng.gauss(1, 0.01) for _ in range(99)] + [50.0]
    found = median_range(values)
    assert found.centre == statistics.median(values) and found.half_width < 0.01
