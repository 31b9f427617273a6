"""F1 to F11: what the host, streams and graphs do to a time."""

from __future__ import annotations

import contextlib
import math
import re
import sys
from types import SimpleNamespace

import pytest
from helpers_records import kernel, record, steady, timing, verification
from simulated import GATE_LIMIT_US, TrialDevice, median_us

from tirx_bench.compare import against
from tirx_bench.device import Loop
from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import Baseline, FailedError, NothingRanError, Sample, Timing, TimingPolicy, UsageError
from tirx_bench.pipeline.trial import Trial
from tirx_bench.render import page
from tirx_bench.timing import judge, measure
from tirx_bench.timing.probe import call_statuses
from tirx_bench.verify import prepare

SHORT = {"block_ms": 0.5, "warmup_ms": 1, "settle_s": 0.5, "rounds": 16, "max_rounds": 16}


def measured(calls, **policy):
    """A timing of fake kernels, and its record; the first call is the kernel."""
    found = measure(calls, TimingPolicy(**{**SHORT, **policy}), next(iter(calls.values())).device, verification())
    kernel_name = next(iter(calls))
    return found, found.timing and record(kernel=kernel_name, timing=found.timing, statuses=found.statuses)


def names(found, implementation=None):
    return {s.name for s in found.statuses if implementation in (None, s.implementation)}


def probed(timers, call):
    """What the probes say of a call on the simulated card."""
    device = SimpleNamespace(time_calls=timers.time, hidden_us=timers.hidden_us, synchronizes=timers.synchronizes)
    return [s.name for s in call_statuses("k", call, lambda: None, device)]


# ---------------------------------------------------------------------------------- a host that is slow


def test_f01_a_slow_host_shows_in_an_empty_queue_and_hides_behind_a_flush_or_a_gate(card, timers):
    slow = card.kernel(10, host_us=50)
    assert median_us(timers, "event", slow) > 45
    assert median_us(timers, "event", slow, flush="read") == 10
    assert median_us(timers, "event", slow, gate=True) == 10


def test_f01_the_event_interval_stands_beside_the_kernel_span(card):
    device = FakeDevice()
    found, _ = measured({"k": device.kernel(10, host_us=50)}, cache="warm")
    assert (found.timing.median_us("k"), found.timing.host_gap_us("k")) == (10, 50)
    assert "HOST_BOUND" in names(found, "k")


def test_f02_a_slow_launcher_is_flagged_and_changes_no_verdict_on_kernel_time():
    device = FakeDevice()
    calls = {"plain": device.kernel(10), "slow host": device.kernel(10, host_us=50)}
    found, kept = measured(calls, cache="warm")
    assert "HOST_BOUND" in names(found, "slow host") and "HOST_BOUND" not in names(found, "plain")
    assert against(kept, "slow host").verdict == "same"


def test_f02_by_events_a_slow_launcher_allows_no_verdict():
    times = timing({"plain": steady(10.0, rounds=16), "slow host": steady(13.0, rounds=16)})
    statuses = judge.statuses(times, "plain", None, gated_us={"plain": 10.0, "slow host": 10.0})
    found = against(record(kernel="plain", timing=times, statuses=tuple(statuses)), "slow host")
    assert found.ratio < 0.8 and found.verdict == "inconclusive" and found.reason.startswith("HOST_BOUND")


def test_f03_the_gaps_of_a_starved_operation_are_kept_apart_from_its_work():
    device = FakeDevice()
    found, _ = measured({"starved": device.kernel(423, idle_us=319)})
    assert {(s.us, s.busy_us) for s in found.timing.samples} == {(423, 104)}


def test_f03_the_page_shows_the_share_in_which_anything_ran():
    device = FakeDevice()
    starved = page(measured({"starved": device.kernel(423, idle_us=319)})[1])
    assert re.search(r" SM clock +busy .*\n +starved .* MHz +25% ", starved)


def test_f04_a_host_that_sleeps_before_it_launches_is_in_the_wall_time(card, timers):
    assert median_us(timers, "wall", card.kernel(10, host_us=5000)) == pytest.approx(5010)


def test_f04_no_gate_holds_a_wall_time():
    with pytest.raises(UsageError, match="gate says something about the event timer only"):
        TimingPolicy(timer="wall", gate=True)


# ------------------------------------------------------------------------------- a call that waits


def waiting(card):
    launch = card.kernel(10)

    def call():
        launch()
        card.synchronize()

    return call


def test_f05_a_call_that_waits_behind_a_gate_gives_no_number(card, timers):
    with pytest.raises(FailedError, match="a gate reached its time limit"):
        timers.time("event", [waiting(card)], Loop(lambda: None, gate=True))
    assert card.host_us < 2 * GATE_LIMIT_US


def test_f05_a_call_that_waits_is_found_before_it_is_timed(card, timers):
    assert probed(timers, waiting(card)) == ["SYNCS"]
    assert probed(timers, card.kernel(10)) == []


def test_f05_a_first_call_that_compiles_and_waits_is_not_held_against_the_others(card, timers):
    first = iter([card.synchronize])
    launch = card.kernel(10)

    def call():
        next(first, lambda: None)()
        launch()

    assert probed(timers, call) == []


def test_f05_what_waits_is_timed_without_a_gate_and_refused_behind_one():
    device = FakeDevice()
    call = device.kernel(10, syncs=True)
    assert measured({"k": call})[0].timing and "SYNCS" in names(measured({"k": call})[0])
    assert measured({"k": call}, timer="event", gate=True)[0].timing is None


# ------------------------------------------------------------------------- work that the events miss


def test_f06_events_on_another_stream_than_the_work_are_found_out(card, timers):
    call = card.kernel(5, side_us=250)
    assert median_us(timers, "event", call) == 5
    card.synchronize()
    assert probed(timers, call) == ["HIDDEN_WORK"]


def test_f06_what_works_on_another_stream_is_not_timed():
    device = FakeDevice()
    hidden, plain = device.kernel(5, hidden_us=250), device.kernel(100)
    assert measured({"hidden": hidden})[0].timing is None
    assert measured({"plain": plain, "hidden": hidden})[0].timing.implementations == ("plain",)


@pytest.mark.parametrize("us", [0.0, -3.0, math.nan, math.inf])
def test_f07_a_time_that_is_none_does_not_construct(us):
    with pytest.raises(NothingRanError, match="a time of .* us is none"):
        Timing(TimingPolicy(), (Sample("k", 0, us),), (), True)


def test_f07_eight_nanoseconds_are_below_what_the_card_needs():
    found = timing({"k": steady(0.008), "b": steady(20.0)})
    assert [s.implementation for s in judge.statuses(found, "k", 15.0, {}) if s.name == "IMPOSSIBLE"] == ["k"]


@pytest.mark.parametrize("nodes", [0, 1])
def test_f07_a_graph_that_captured_nothing_is_refused(monkeypatch, timers, nodes):
    graph = SimpleNamespace(raw_cuda_graph=lambda: 0, instantiate=lambda: None, replay="replay")
    timers.torch.cuda.CUDAGraph = lambda keep_graph: graph
    timers.torch.cuda.graph = lambda graph: contextlib.nullcontext()
    driver = SimpleNamespace(CUgraph=lambda raw: raw, cuGraphGetNodes=lambda graph, limit: (0, [], nodes))
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cuda.bindings", SimpleNamespace(driver=driver))
    if nodes:
        assert timers.capture(lambda: None, 1) == "replay"
    else:
        with pytest.raises(FailedError, match="holds no work"):
            timers.capture(lambda: None, 1)


def test_f08_a_graph_that_left_a_launch_out_fails_on_its_stale_output():
    """The eager run was right, and what it wrote would pass for the replay's work."""

    class Forgetful(TrialDevice):
        def capture(self, call, calls):
            call()
            return self.kernel(5.0)  # what was launched is not in the graph

    device, of = Forgetful(), kernel()
    trial = Trial(prepare(of, of.params(of.workloads[0]), device, 0), TimingPolicy(timer="graph", cache="warm"), device)
    # What it may prepare stays as it is, so that the old answer would be right.
    trial.add_baseline("by numpy", Baseline(lambda x, y: lambda: y.__setitem__(..., x + 1), prepared=("x",)))
    (baseline,) = trial.implementations
    checked = trial.check(baseline)
    assert not checked.passed and checked.outputs[0].wrong_elements == 30


def test_f09_work_that_goes_on_after_the_stop_event_is_found(card, timers):
    assert timers.hidden_us(card.kernel(0, side_us=400), lambda: None, held=False) == pytest.approx(400)
    assert probed(timers, card.kernel(0, side_us=400)) == ["HIDDEN_WORK"]


def test_f09_what_is_written_after_the_call_returned_is_too_late_although_waiting_shows_it():
    class Later(TrialDevice):
        """Whose other threads and streams come to an end when somebody waits for them."""

        works = ()

        def synchronize(self):
            for work in self.works:
                work()

    device = Later()

    def hands_over(x, y):
        def work():
            y[...] = x + 1

        def run():
            device.works = (work,)

        return run

    of = kernel()
    trial = Trial(prepare(of, of.params(of.workloads[0]), device, 0), TimingPolicy(cache="warm"), device)
    trial.add_baseline("late", Baseline(hands_over))
    assert trial.left_out == ["baseline late: its output does not match the reference"]


# ------------------------------------------------------------------------------------- an idle device


def test_f11_a_clock_that_fell_in_idle_gaps_is_named_as_the_reason():
    """Waiting for every call leaves the device idle, its clock falls by a tenth, and the same code takes longer."""
    found = timing({"k": steady(110.0, rounds=16), "back to back": steady(100.0, rounds=16)})
    samples = tuple(Sample(**{**s.__dict__, "clock_mhz": 1800.0 if s.implementation == "k" else 1980.0}) for s in found.samples)
    verdict = against(record(kernel="k", timing=Timing(**{**found.__dict__, "samples": samples})), "back to back")
    assert verdict.verdict == "slower" and verdict.cycle_ratio == pytest.approx(1.0, abs=0.002)
    assert "clock effect: by cycles it is same" in verdict.reason
