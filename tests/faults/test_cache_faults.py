"""F12 to F22 and F67: what the caches and the flush do to a time. F19 and F22 are in test_trace.py as well."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers_records import kernel, record, steady, timing, verification
from simulated import FLUSH_US, MISS_US, WRITE_BACK_US, TrialDevice, median_us

from tirx_bench.compare import against, compare
from tirx_bench.device import Loop
from tirx_bench.device import helpers as helpers_module
from tirx_bench.device.fake import FakeDevice
from tirx_bench.device.helpers import Helpers
from tirx_bench.model import Peak, TimingPolicy, UsageError, Work
from tirx_bench.pipeline.rotation import copies_needed
from tirx_bench.pipeline.trial import Trial
from tirx_bench.render import page
from tirx_bench.timing import measure
from tirx_bench.timing.probe import unproven
from tirx_bench.verify import prepare

MB, L2_BYTES = 1_000_000, 50_000_000


def trial_of(device, **policy):
    of = kernel()
    return Trial(prepare(of, of.params(of.workloads[0]), device, 0), TimingPolicy(**policy), device)


# ------------------------------------------------------------------------------------ warm or cold


def test_f12_a_time_with_a_warm_cache_is_not_compared_with_a_cold_one():
    cold, warm = (record(timing=timing({"add": steady(10.0)}, TimingPolicy(cache=cache))) for cache in ("cold", "warm"))
    with pytest.raises(UsageError, match="not comparable: cache policy cold and warm"):
        compare(cold, warm)


def test_f12_calls_back_to_back_are_not_called_cold():
    with pytest.raises(UsageError, match="the second of several calls back to back finds the cache warm"):
        TimingPolicy(timer="graph", cache="cold", calls=20)


@pytest.mark.parametrize("megabytes", [1, 2, 4, 7, 16, 25, 49, 50, 51, 60])
def test_f13_between_two_uses_of_a_copy_twice_the_l2_is_touched(megabytes):
    copies = copies_needed(megabytes * MB, L2_BYTES)
    assert (copies - 1) * megabytes * MB >= 2 * L2_BYTES


def test_f13_a_graph_of_ten_calls_comes_by_every_copy():
    device = TrialDevice()
    device.l2_bytes = 125 * 240
    trial = trial_of(device, timer="graph", cache="rotate", calls=10)
    touched = set()
    calls = [lambda n=n: touched.add(n) for n in range(len(trial.cases))]
    device.capture(trial.rotation.over(calls, set()), trial.policy.calls)()
    assert len(touched) == len(trial.cases) == 251


def test_f13_an_eviction_that_does_not_evict_allows_no_verdict():
    device = FakeDevice()
    device.cycles["read"] = 300.0
    assert "takes 280 cycles from L2 and 300 after the flush" in unproven("read", device)
    calls = {name: device.kernel(us) for name, us in (("k", 10), ("b", 20))}
    found = measure(calls, TimingPolicy(block_ms=0.5, warmup_ms=1, settle_s=0), device, verification())
    verdict = against(record(kernel="k", timing=found.timing, statuses=found.statuses), "b")
    assert verdict.verdict == "inconclusive" and verdict.reason.startswith("COLD_UNPROVEN")


def test_f14_rotation_with_nothing_to_rotate_is_refused():
    with pytest.raises(UsageError, match="there is nothing to rotate"):
        copies_needed(0, L2_BYTES)


# ------------------------------------------------------------------------ the flush and its place


def test_f15_what_is_written_before_a_call_is_evicted_too(card, timers):
    reads = card.kernel(10, reads="x")
    assert median_us(timers, "event", reads, before=card.write("x")) == 10
    assert median_us(timers, "event", reads, before=card.write("x"), flush="read") == 10 + MISS_US


def test_f16_lines_that_persist_do_not_outlive_the_flush(card, timers):
    card.cached |= {"x"}
    card.persisting |= {"x"}
    assert median_us(timers, "event", card.kernel(10, reads="x"), flush="read") == 10 + MISS_US


def test_f16_persisting_is_turned_off_before_its_lines_are_reset(timers, monkeypatch):
    asked = []
    driver = SimpleNamespace(
        CUlimit=SimpleNamespace(CU_LIMIT_PERSISTING_L2_CACHE_SIZE="persisting"),
        cuCtxSetLimit=lambda *values: asked.append(values) or (0,),
        cuCtxResetPersistingL2Cache=lambda: asked.append("reset") or (0,),
    )  # fmt: skip
    monkeypatch.setattr(helpers_module, "_bindings", lambda: (driver, None))
    Helpers.forget_persisting(timers.helpers)
    assert asked == [("persisting", 0), "reset"]


def test_f17_a_fill_that_l2_absorbs_is_called_impossible_and_gets_no_verdict():
    device = FakeDevice()
    calls = {name: device.kernel(us) for name, us in (("fill", 3.0), ("b", 6.0))}
    policy = TimingPolicy(block_ms=0.5, warmup_ms=1, settle_s=0)
    found = measure(calls, policy, device, verification(), floor_us=3.5)  # 16 MB at 4.8 TB/s
    (impossible,) = [s for s in found.statuses if s.name == "IMPOSSIBLE"]
    assert impossible.implementation == "fill" and "its writes stayed in L2" in impossible.evidence
    assert against(record(kernel="fill", timing=found.timing, statuses=found.statuses), "b").verdict == "inconclusive"


def test_f17_more_than_the_measured_peak_is_said_on_the_page():
    fast = record(us=3.0, measured=Peak("measured on this card", 800.0, 4.0), work=Work(1.0, 16e6, "bfloat16"))
    assert "faster than the measured peak allows" in page(fast)
    assert "faster than the measured peak allows" not in page(replace(fast, work=Work(1.0, 8e6, "bfloat16")))


@pytest.mark.parametrize("flush", ["read", "discard"])
def test_f18_no_flush_leaves_dirty_lines_to_the_next_kernel(card, timers, flush):
    other = timers.torch.zeros(4, dtype="uint8")
    plain = card.kernel(10)
    assert median_us(timers, "event", plain, before=lambda: other.fill_(0)) == 10 + WRITE_BACK_US
    assert median_us(timers, "event", plain, flush=flush) == 10


def test_f19_a_flush_of_twenty_times_the_call_is_in_no_interval(card, timers):
    assert median_us(timers, "event", card.kernel(5), flush="read") == 5 < FLUSH_US / 10
    assert median_us(timers, "wall", card.kernel(5), flush="read") == pytest.approx(5)


def test_f20_the_host_waits_for_the_flush_before_its_clock_starts(card, timers):
    assert median_us(timers, "wall", lambda: None, flush="read") == pytest.approx(0)


@pytest.mark.parametrize("timer", ["event", "graph", "wall"])
def test_f21_a_hook_that_writes_and_flushes_is_outside_the_interval(card, timers, timer):
    hook = card.kernel(300)
    assert median_us(timers, timer, card.kernel(5), before=hook, flush="discard") == pytest.approx(5)


def test_f21_each_call_has_its_own_flush_as_the_last_thing_before_it():
    order = []

    class Watched(FakeDevice):
        def evict_l2(self, flush):
            order.append("flush")
            super().evict_l2(flush)

    device = Watched()
    call = device.kernel(5, lambda: order.append("call"))
    policy = TimingPolicy(block_ms=0.1, warmup_ms=1, settle_s=0, rounds=2, max_rounds=2)
    found = measure({"k": call}, policy, device, verification(), before=lambda: order.append("before"))
    timed = order[-3 * len(found.timing.samples) :]
    assert timed == ["before", "flush", "call"] * len(found.timing.samples) and {s.us for s in found.timing.samples} == {5}


def test_f67_a_flush_that_varies_by_more_than_the_kernel_takes_moves_no_time(card, timers):
    """Subtracting flush times from flush and kernel would give 5 us plus or minus 10, and some below 0."""
    noise = random.Random(1)
    card.flush_us = lambda: FLUSH_US + noise.choice([-10, 0, 10])
    readings = timers.time("event", [card.kernel(5)] * 20, Loop(lambda: None, "read"))
    assert {r.us for r in readings} == {5}
    assert all(b.at_us - a.at_us > FLUSH_US - 11 for a, b in itertools.pairwise(readings))
