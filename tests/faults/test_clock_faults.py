"""F23 to F32: what clocks, power, warm-up and neighbours do to a time."""

from __future__ import annotations

import math
import statistics
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers_records import kernel, record, steady, timing, verification
from simulated import Card, simulated_timers

from tirx_bench.compare import against, compare
from tirx_bench.device import Loop
from tirx_bench.device.fake import EVICTION_US, FakeDevice
from tirx_bench.device.nvml import Nvml
from tirx_bench.model import NothingRanError, Sample, Timing, TimingPolicy, UsageError
from tirx_bench.render import comparison, page
from tirx_bench.timing import judge, measure
from tirx_bench.verify import prepare, verify

SHORT = {"block_ms": 1, "warmup_ms": 1, "settle_s": 0.5, "rounds": 16, "max_rounds": 16, "cache": "warm"}


def measured(kernels, **policy):
    device = next(iter(kernels.values())).device
    return measure(kernels, TimingPolicy(**{**SHORT, **policy}), device, verification())


def names(statuses):
    return {s.name for s in statuses}


# ---------------------------------------------------------------------------------- warm-up and drift


def ramp(clock_us):
    """30 % too slow at first, as on a card that was idle, and half of that gone after 0.35 s."""
    return 1000 * (1 + 0.3 * math.exp(-clock_us / 0.5e6))


@pytest.mark.parametrize("us", [1000, 10])
def test_f23_the_warm_up_lasts_until_a_ramp_is_over(us):
    """Also of short calls back to back, of which a block takes a millisecond: in that time any ramp looks flat."""
    found = measured({"k": FakeDevice().kernel(lambda clock_us: us / 1000 * ramp(clock_us))}, settle_s=20)
    assert found.timing.median_us("k") == pytest.approx(us, rel=0.02)
    assert found.timing.warmed_ms > 1000 and "NOT_SETTLED" not in names(found.statuses)


def test_f23_a_warm_up_that_is_cut_short_is_said():
    found = measured({"k": FakeDevice().kernel(ramp)}, settle_s=0.1)
    assert "NOT_SETTLED" in names(found.statuses)


def test_f23_a_ramp_in_the_rounds_is_a_drift_and_gives_no_absolute_time():
    rounds = [[100 * (1 + 0.3 * math.exp(-n / 8))] * 3 for n in range(20)]
    times = timing({"add": rounds})
    drift = tuple(judge.statuses(times, "add", None, {}))
    assert "DRIFT" in names(drift)
    found = compare(record(times={"add": steady(100.0)}), record(timing=times, statuses=drift))
    assert found.verdict == "inconclusive" and "DRIFT" in found.reason


def test_f24_the_warm_up_is_the_timed_loop_with_its_flush_and_lasts_as_long_as_it_says():
    device = FakeDevice()
    calls = []
    measured({"k": device.kernel(5, lambda: calls.append(device.evictions))}, cache="cold", warmup_ms=200, max_rounds=1, rounds=1)
    flushed = [b - a for a, b in zip(calls, calls[1:], strict=False)]
    assert sum(flushed) * (5 + EVICTION_US) > 200e3
    assert flushed.count(0) < 20, "only the probes, which ask whether the call can be timed at all, run without"


def test_f24_the_time_that_the_warm_up_took_is_recorded():
    device = FakeDevice()
    found = measured({"k": device.kernel(5)}, cache="cold", warmup_ms=200)
    assert 200 <= found.timing.warmed_ms < 600 and f"after {found.timing.warmed_ms:.0f} ms of warm-up" in page(
        record(kernel="k", timing=found.timing)
    )


# ----------------------------------------------------------------------------------------- the clock


def test_f25_a_clock_that_falls_to_80_percent_is_throttled_although_no_reason_is_given():
    device = FakeDevice()
    device.clock_mhz = lambda clock_us: max(1580.0, 1965.0 - clock_us / 1000)
    found = measured({"k": device.kernel(lambda clock_us: 100 * 1965 / device.clock_mhz(clock_us))}, settle_s=0, block_ms=20)
    (throttled,) = [s for s in found.statuses if s.name == "THROTTLED"]
    assert "the SM clock varied by" in throttled.evidence


def test_f25_a_card_that_says_why_it_is_slow_gives_no_absolute_time():
    times = timing({"add": steady(10.0)}, throttle=("software thermal",))
    statuses = tuple(judge.statuses(times, "add", None, {}))
    assert "software thermal in 1 of 10 looks" in next(s.evidence for s in statuses if s.name == "THROTTLED")
    found = compare(record(us=8.0), record(timing=times, statuses=statuses))
    assert found.verdict == "inconclusive" and "THROTTLED" in found.reason


def test_f26_times_from_inputs_of_another_distribution_are_not_compared():
    zeros = record(verification=replace(verification(), fill="uniform(0, 0)"))
    with pytest.raises(UsageError, match=r"not comparable: input fill normal\(0, 1\) and uniform\(0, 0\)"):
        compare(record(), zeros)


def test_f26_inputs_that_were_not_drawn_are_told_apart_by_what_they_hold():
    def checked(value):
        device, of = FakeDevice(), kernel(inputs=lambda m, k, dtype: {"x": np.full((m, k), value, dtype)})
        case = prepare(of, of.params(of.workloads[0]), device, 0)
        return record(verification=verify(case, lambda b: b["y"].__setitem__(..., b["x"] + 1), device))

    with pytest.raises(UsageError, match="not comparable: input fill x mean 0 sd 0 and x mean 1 sd 0"):
        compare(checked(0), checked(1))
    assert compare(checked(1), checked(1)).verdict == "same"


def test_f26_one_input_that_was_not_drawn_is_told_apart_beside_one_that_was():
    def fill(value):
        of = kernel(inputs=lambda m, k, dtype, rng: {"x": rng.normal((m, k), dtype), "w": np.full(3, value, dtype)})
        return prepare(of, of.params(of.workloads[0]), FakeDevice(), 0).fill

    assert fill(0) != fill(1) and fill(1) == fill(1)


def test_f32_every_sample_has_the_clock_that_it_ran_at():
    device = FakeDevice()
    device.clock_mhz = lambda clock_us: 1980.0 - clock_us / 1e6
    found = measured({"k": device.kernel(10)})
    clocks = [s.clock_mhz for s in found.timing.samples]
    assert None not in clocks and clocks == sorted(clocks, reverse=True) and len(set(clocks)) == len(clocks)


def test_f32_the_clock_is_counted_by_the_card_around_each_call(monkeypatch):
    card = Card()
    timers = simulated_timers(monkeypatch, card)
    card.mhz = 1410.0
    readings = timers.time("event", [card.kernel(500)] * 3, Loop(lambda: None, "read"))
    assert [r.clock_mhz for r in readings] == [pytest.approx(1410, abs=1)] * 3


def test_f32_an_interval_within_one_step_of_the_cards_timer_has_no_clock_rather_than_an_absurd_one(monkeypatch):
    timers = simulated_timers(monkeypatch, card := Card())
    card.tick_ns = 1_000_000
    readings = timers.time("event", [card.kernel(5)] * 3, Loop(lambda: None))
    assert [(r.us, r.clock_mhz) for r in readings] == [(5, None)] * 3


# ------------------------------------------------------------------------------------ nothing was timed


@pytest.mark.parametrize("samples", [(), (Sample("k", 0, math.nan),)], ids=["none", "nan"])
def test_f27_a_timing_without_a_valid_sample_is_an_error_of_its_own_kind(samples):
    with pytest.raises(NothingRanError) as raised:
        Timing(TimingPolicy(), samples, (), True)
    assert raised.value.exit_code == 4


def test_f27_no_table_says_nan():
    assert "nan" not in page(record(times={"add": [[10.0]], "torch.add": [[20.0]]}))


def test_f27_a_ratio_of_one_round_is_a_number_without_an_interval():
    found = against(record(times={"add": [[10.0]], "torch.add": [[20.0]]}), "torch.add")
    assert (found.ratio, found.low, found.high, found.verdict) == (0.5, 0.0, math.inf, "inconclusive")
    assert "ratio 0.5000, no interval" in comparison(found) and "nan" not in comparison(found)


# ------------------------------------------------------------------------- order, modes, the first call


@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_f28_equal_code_under_a_drift_is_not_called_different(cache):
    device = FakeDevice()

    def drifting(clock_us):
        return 100 * (1 + clock_us / 1e6)

    found = measured({"A": device.kernel(drifting), "B": device.kernel(drifting)}, cache=cache, block_ms=20, settle_s=0)
    rounds = found.timing.round_medians_us("A")
    assert rounds[-1] > 1.05 * rounds[0], "the drift is large"
    assert against(record(kernel="A", timing=found.timing, statuses=found.statuses), "B").verdict == "same"


def test_f28_an_odd_number_of_turns_in_each_round_favours_nobody():
    """Three turns a round, and each call 1 % slower than the one before it."""
    device = FakeDevice()

    def drifting(clock_us):
        return 100 * (1 + clock_us / 1e4)

    calls = {"A": device.kernel(drifting), "B": device.kernel(drifting)}
    found = measured(calls, timer="event", cache="cold", block_ms=0.1, settle_s=0)
    assert len(found.timing.of("A")) == 3 * 16
    assert against(record(kernel="A", timing=found.timing, statuses=found.statuses), "B").verdict == "same"


def test_f28_a_warm_up_that_does_nothing_would_be_seen():
    ran = []
    device = FakeDevice()
    found = measured({"k": device.kernel(10, lambda: ran.append(device.clock_us))}, warmup_ms=50)
    before = [us for us in ran if us < ran[-1] - found.timing.session_s * 1e6]
    assert found.timing.warmed_ms >= 50 and len(before) * 10 >= 50e3


def test_f29_a_mode_in_between_does_not_change_what_comes_after():
    """Calls back to back leave the card hot: what runs in the quarter of a second after them is 20 % slower."""
    device = FakeDevice()
    hot_until = [0.0]

    def us(clock_us):
        return 10 * (1.2 if clock_us < hot_until[0] else 1)

    def cold():
        return measured({"k": device.kernel(us)}, cache="cold", warmup_ms=200, settle_s=5).timing.median_us("k")

    first = cold()
    measured({"k": device.kernel(us)}, timer="event", calls=50)
    hot_until[0] = device.clock_us + 250e3
    assert cold() == first == 10


def test_f30_a_first_call_after_idling_is_in_no_sample():
    """The card sleeps before each round, and the first call after that takes fifty times as long."""
    slept = []

    class Sleepy(FakeDevice):
        def sleep(self, seconds):
            super().sleep(seconds)
            slept.append(seconds)

    device = Sleepy()

    def us(clock_us):
        return 500.0 if slept and slept.pop() else 10.0

    slept.append(1.0)  # the very first call too
    found = measured({"k": device.kernel(us)}, cooldown_s=2.0, rounds=4, max_rounds=4)
    assert not slept and {s.us for s in found.timing.samples} == {10}


# ----------------------------------------------------------------------------------------- neighbours


def test_f31_another_user_of_the_card_allows_no_verdict():
    device = FakeDevice()
    device.neighbours = ["process 4711 with 2048 MB"]
    found = measured({"A": device.kernel(10), "B": device.kernel(14)})
    verdict = against(record(kernel="A", timing=found.timing, statuses=found.statuses), "B")
    assert verdict.verdict == "inconclusive" and verdict.reason == "SHARED: process 4711 with 2048 MB"


@pytest.mark.parametrize("pids, others", [([10, 20], 1), ([10], 0), ([20], 0), ([20, 30], 2)])
def test_f31_the_driver_lists_processes_and_this_one_is_none_of_the_others(monkeypatch, pids, others):
    """In a container of its own this process may go by another number, so one unknown process is taken for it."""
    processes = [SimpleNamespace(pid=pid, usedGpuMemory=2e9) for pid in pids]
    driver = SimpleNamespace(
        NVMLError=RuntimeError, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: processes,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr("tirx_bench.device.nvml.os.getpid", lambda: 10)
    assert len(Nvml("1").others()) == others


def test_f29_the_order_of_the_rounds_is_recorded():
    device = FakeDevice()
    found = measured({"A": device.kernel(10), "B": device.kernel(11)}).timing
    assert [s.at_us for s in found.samples] == sorted(s.at_us for s in found.samples)
    firsts = [next(s.implementation for s in found.samples if s.round == n) for n in range(4)]
    assert firsts == ["A", "B", "B", "A"] and statistics.median(s.us for s in found.of("A")) == 10
