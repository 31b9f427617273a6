"""Order, budgets, samples and refusals on a device whose clock only its calls move."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import statistics

import pytest
from helpers_records import steady, timing, verification
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.device.fake import EVICTION_US, HOST_US, FakeDevice, FakeKernel, FakeWatch
from tirx_bench.model import CACHES, TIMERS, FailedError, NothingRanError, Sample, Timing, TimingPolicy, UsageError
from tirx_bench.timing import CALLS_PER_BLOCK, Measured, measure
from tirx_bench.timing.probe import call_statuses
from tirx_bench.timing.settle import WINDOW_MS, WINDOWS

PASSED = verification()
FAILED = verification(wrong_elements=1)


def policy(rounds=4, **changes) -> TimingPolicy:
    """By events, blocks of a few calls, a warm-up that is over at once, and so many rounds."""
    short = {"timer": "event", "warmup_ms": 0.1, "settle_s": 0, "block_ms": 0.03, "rounds": rounds, "max_rounds": rounds}
    return TimingPolicy(**{**short, **changes})


SHORT = policy()


def measured(times, how=SHORT, device=None, **options) -> Measured:
    """Measure implementations that take `times` microseconds of a fake device, or are its kernels."""
    device = device or FakeDevice()
    calls = {name: us if isinstance(us, FakeKernel) else device.kernel(us) for name, us in times.items()}
    return measure(calls, how, device, PASSED, **options)


def timed(*arguments, **options) -> Timing:
    found = measured(*arguments, **options).timing
    assert found is not None
    return found


def said(found: Measured, name: str) -> list[tuple[str | None, str]]:
    """About whom a status is, and its evidence."""
    return [(s.implementation, s.evidence) for s in found.statuses if s.name == name]


class Logged(FakeDevice):
    """A fake that writes down every call, eviction and look at the card."""

    def __init__(self):
        super().__init__()
        self.log: list[str] = []

    def call(self, name, us):
        return self.kernel(us, lambda: self.log.append(name))

    def evict_l2(self, flush):
        self.log.append(f"evict {flush}")
        super().evict_l2(flush)

    @contextlib.contextmanager
    def watch(self):
        yield LoggedWatch(self)

    def rounds(self):
        """What happened in the rounds, after the warm-up."""
        looks = [n for n, entry in enumerate(self.log) if entry.startswith("look")]
        return self.log[looks[0] : looks[-1] + 1]


class LoggedWatch(FakeWatch):
    def look(self):
        self.device.log.append(f"look {self.round}")
        super().look()


def without_repetitions(log):
    return [name for n, name in enumerate(log) if n == 0 or log[n - 1] != name]


# ----------------------------------------------------------------------------------------- not at all


def test_a_kernel_that_did_not_pass_verification_is_not_timed_at_all():
    device = Logged()
    with pytest.raises(UsageError, match="did not pass verification"):
        measure({"add": device.call("add", 5)}, SHORT, device, FAILED)
    assert device.log == [] and device.timers_used == []


def test_a_timing_of_a_kernel_that_did_not_pass_does_not_construct():
    found = timed({"add": 5})
    with pytest.raises(UsageError, match="passed verification"):
        Timing(found.policy, found.samples, found.states, verified=False)


def test_nothing_to_time_is_refused():
    with pytest.raises(UsageError, match="nothing to time"):
        measured({})


def test_a_timing_without_samples_is_said_and_is_exit_code_4():
    with pytest.raises(NothingRanError, match="nothing was timed") as raised:
        Timing(SHORT, (), (), True)
    assert raised.value.exit_code == 4


@pytest.mark.parametrize("us", [0.0, -0.5, math.inf, math.nan])
def test_a_time_that_is_none_does_not_construct_and_says_how_to_resolve_it(us):
    with pytest.raises(NothingRanError, match=f"add: a time of {us:g} us is none") as raised:
        Timing(SHORT, (Sample("add", 0, 5.0), Sample("add", 0, us)), (), True)
    assert "--calls 100 --cache warm" in raised.value.hint and raised.value.exit_code == 4


@pytest.mark.parametrize("cache", CACHES)
def test_a_call_that_takes_no_time_is_no_answer(cache):
    device = FakeDevice()
    with pytest.raises(NothingRanError, match="a time of 0 us is none"):
        measure({"add": device.kernel(0)}, policy(cache=cache, warmup_ms=0), device, PASSED, before=lambda: device.sleep(1e-4))


def test_an_error_of_a_call_is_not_swallowed():
    def broken():
        raise ValueError("a launch failed")

    with pytest.raises(ValueError, match="a launch failed"):
        measure({"add": broken}, SHORT, FakeDevice(), PASSED)


# ---------------------------------------------------------------------------------------------- policy


@pytest.mark.parametrize(
    "wrong, near",
    [("evnt", "event"), ("Proton", "proton"), ("walls", "wall"), ("cuda-events", "event"), ("kernels", "kernel"),
     ("cupti", "known: event, graph, kernel, proton, wall")],
)  # fmt: skip
def test_an_unknown_timer_is_refused_with_the_near_names(wrong, near):
    with pytest.raises(UsageError, match=f"unknown timer {wrong!r}") as raised:
        TimingPolicy(timer=wrong)
    assert near in raised.value.hint


@pytest.mark.parametrize(
    "wrong, near",
    [("hot", "known: cold, rotate, warm"), ("colt", "cold"), ("warmed", "warm"), ("rotated", "rotate"), ("", "known")],
)
def test_an_unknown_cache_policy_is_refused_with_the_near_names(wrong, near):
    with pytest.raises(UsageError, match="unknown cache policy") as raised:
        TimingPolicy(cache=wrong)
    assert near in raised.value.hint


@pytest.mark.parametrize("wrong, near", [("reed", "read"), ("discart", "discard"), ("write", "known: discard, read")])
def test_an_unknown_flush_is_refused_with_the_near_names(wrong, near):
    with pytest.raises(UsageError, match=f"unknown flush {wrong!r}") as raised:
        TimingPolicy(flush=wrong)
    assert near in raised.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0}, {"rounds": -2}, {"rounds": 81}, {"max_rounds": 15}, {"block_ms": 0}, {"block_ms": math.nan},
        {"warmup_ms": -1}, {"settle_s": -1}, {"cooldown_s": -0.1}, {"max_time_s": 0},
        {"precision": 0}, {"precision": 1}, {"precision": math.nan},
    ],
    ids=str,
)  # fmt: skip
def test_a_budget_that_measures_nothing_is_refused(wrong):
    with pytest.raises(UsageError):
        TimingPolicy(**wrong)


@pytest.mark.parametrize("timer", [t for t in TIMERS if t not in ("event", "graph")])
def test_several_calls_in_one_interval_need_a_timer_that_has_intervals(timer):
    with pytest.raises(UsageError, match=f"100 calls in one interval need the timer event or graph, not {timer}"):
        TimingPolicy(timer=timer, cache="warm", calls=100)


@pytest.mark.parametrize("timer", ["event", "graph"])
def test_several_calls_in_one_interval_find_the_cache_warm_and_may_not_be_called_cold(timer):
    with pytest.raises(UsageError, match="finds the cache warm") as raised:
        TimingPolicy(timer=timer, calls=2)
    assert "--cache warm or --cache rotate" in raised.value.hint
    assert {TimingPolicy(timer=timer, cache=c, calls=2).calls for c in ("warm", "rotate")} == {2}


@pytest.mark.parametrize("calls", [0, -1])
def test_an_interval_holds_a_call_at_least(calls):
    with pytest.raises(UsageError, match=f"{calls} calls in one interval"):
        TimingPolicy(timer="event", cache="warm", calls=calls)


@pytest.mark.parametrize("timer", [t for t in TIMERS if t != "event"])
def test_a_gate_says_something_about_the_event_timer_only(timer):
    with pytest.raises(UsageError, match=f"the event timer only, not {timer}") as raised:
        TimingPolicy(timer=timer, gate=True)
    assert "--timer event --gate" in raised.value.hint
    assert TimingPolicy(timer="event", gate=True).gate


def test_the_default_is_the_kernel_span_with_a_cold_cache_to_half_a_percent():
    default = TimingPolicy()
    assert (default.timer, default.cache, default.flush, default.calls, default.gate) == ("kernel", "cold", "read", 1, False)
    assert (default.precision, default.rounds, default.max_rounds) == (0.005, 16, 80)


@pytest.mark.parametrize("timer", TIMERS)
def test_the_rounds_use_the_timer_that_the_policy_names_and_store_the_policy(timer):
    device, how = FakeDevice(), policy(3, timer=timer, cache="warm")
    found = timed({"a": 5, "b": 6}, how, device)
    in_rounds = device.timers_used[: -2 if timer == "event" else None]  # behind a gate afterwards, once for each
    both = ["kernel", "kernel", "event", "event"]
    assert in_rounds[-12:] == both + both[::-1] + both if timer == "kernel" else in_rounds[-6:] == [timer] * 6
    assert found.policy == how


# ---------------------------------------------------------------------------------------------- order


def test_with_a_cold_cache_the_order_is_balanced_from_call_to_call():
    found = timed(dict.fromkeys("AB", 5), policy(2, block_ms=0.1))
    order = ["".join(s.implementation for s in found.samples if s.round == number) for number in range(2)]
    assert order == ["ABBABAAB" * 5] * 2


def test_an_odd_number_of_turns_in_a_round_does_not_break_the_balance():
    found = timed(dict.fromkeys("AB", 5), policy(16, block_ms=0.015))
    order = "".join(s.implementation for s in found.samples)
    assert order == "ABBABAAB" * 12
    firsts = [next(s.implementation for s in found.samples if s.round == number) for number in range(16)]
    assert firsts.count("A") == firsts.count("B")


def test_rotating_through_copies_is_as_balanced_as_a_cold_cache():
    orders = [[s.implementation for s in timed(dict.fromkeys("ABC", 5), policy(cache=c)).samples] for c in ("cold", "rotate")]
    assert orders[0] == orders[1]


def test_with_a_warm_cache_the_order_is_balanced_in_units_of_two_rounds():
    device = Logged()
    measure({name: device.call(name, 5) for name in "AB"}, policy(cache="warm"), device, PASSED)
    looks = [entry for n in range(4) for entry in (f"look {n}", *("AB" if n in (0, 3) else "BA"), f"look {n}")]
    assert without_repetitions(device.rounds()) == looks


def test_with_a_warm_cache_three_follow_themselves_and_each_other_equally_often():
    device = Logged()
    measure({name: device.call(name, 5) for name in "ABC"}, policy(6, cache="warm"), device, PASSED)
    blocks = [entry for entry in without_repetitions(device.rounds()) if not entry.startswith("look")]
    rounds = ["".join(blocks[n : n + 3]) for n in range(0, len(blocks), 3)]
    assert sorted(rounds) == sorted("".join(p) for p in itertools.permutations("ABC"))
    assert all(a == b[::-1] for a, b in zip(rounds[::2], rounds[1::2], strict=True)), "so that a drift cancels in each unit"


def test_the_kernel_timer_alternates_blocks_with_and_without_tracing_in_balanced_order():
    device = FakeDevice()
    found = timed({"A": 5, "B": 6}, policy(timer="kernel"), device)
    in_rounds = device.timers_used[-8:]
    assert in_rounds == ["kernel", "event", "event", "kernel"] * 2
    assert [s.implementation for s in found.untraced] == [s.implementation for s in found.samples]
    assert [s.round for s in found.untraced] == [s.round for s in found.samples], "the same calls in the same order"


def test_only_the_kernel_timer_has_untraced_samples():
    assert all(timed({"A": 5}, policy(timer=t, cache="warm")).untraced == () for t in TIMERS if t != "kernel")


def test_every_sample_is_kept_in_the_order_it_was_taken():
    device = FakeDevice()
    taken = []

    def slower(name):
        def us(clock):
            taken.append((name, float(len(taken) + 1)))
            return float(len(taken))

        return us

    found = measure({n: device.kernel(slower(n)) for n in "AB"}, policy(3, gate=True), device, PASSED).timing
    kept = [(s.implementation, s.us) for s in found.samples]
    assert kept == taken[-len(kept) :]
    assert [s.round for s in found.samples] == sorted(s.round for s in found.samples)
    assert {s.round for s in found.samples} == {0, 1, 2} and found.rounds == 3


def test_a_sample_says_when_it_began_from_the_first_one_on_and_at_which_clock():
    device = FakeDevice()
    device.clock_mhz = lambda clock_us: 1500.0 + clock_us / 1e3
    found = timed({"A": 5}, policy(2, warmup_ms=50), device)
    begins = [s.at_us for s in found.samples]
    assert begins[:3] == [0.0, 5 + EVICTION_US, 2 * (5 + EVICTION_US)]
    assert begins == sorted(begins)
    clocks = [s.clock_mhz for s in found.samples]
    assert clocks[1] - clocks[0] == pytest.approx((5 + EVICTION_US) / 1e3)
    assert found.clock_mhz("A") == statistics.median(clocks)


def test_traced_and_untraced_samples_are_on_one_clock():
    found = timed({"A": 5}, policy(2, timer="kernel"))
    first_untraced = min(s.at_us for s in found.untraced)
    last_traced = max(s.at_us for s in found.samples if s.round == 0)
    assert first_untraced == last_traced + 5 + HOST_US + EVICTION_US


def test_the_kernel_is_listed_before_its_baselines_in_whatever_order_the_last_round_ran():
    assert timed({"add": 5, "torch.add": 6, "other": 7}).implementations == ("add", "torch.add", "other")


def test_progress_tells_the_warm_up_and_each_round():
    told = []
    timed({"add": 5}, policy(2, max_rounds=6), progress=told.append)
    assert told == ["looking at the card and the calls", "warming up", *(f"round {n} of 2 to 6" for n in range(1, 7))]


@pytest.mark.parametrize("timer", ["event", "kernel"])
def test_what_happens_when_the_rounds_start_happens_once_after_the_warm_up(timer):
    log, device = [], FakeDevice()
    measure(
        {"A": device.kernel(5)}, policy(timer=timer), device, PASSED, started=lambda: log.append("started"), progress=log.append
    )
    assert log[: log.index("started")] == ["looking at the card and the calls", "warming up"]
    assert log.count("started") == 1 and all(text.startswith("round") for text in log[log.index("started") + 1 :])


def test_the_cards_state_is_kept_around_every_round():
    class Heating(FakeDevice):
        @contextlib.contextmanager
        def watch(self):
            yield HeatingWatch(self)

    class HeatingWatch(FakeWatch):
        def look(self):
            self.device.throttle = ("power cap",) if self.round == 2 else ()
            super().look()

    found = timed({"add": 5}, device=Heating())
    held = ("power cap",)
    assert [(s.round, s.throttle) for s in found.states] == [
        (0, ()), (0, ()), (1, ()), (1, ()), (2, held), (2, held), (3, ()), (3, ()),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------- cache


@pytest.mark.parametrize("flush", ["read", "discard"])
def test_cold_evicts_once_before_each_call_and_outside_the_interval(flush):
    device = Logged()
    found = measure({"A": device.call("A", 5), "B": device.call("B", 7)}, policy(flush=flush), device, PASSED).timing
    calls = [entry for entry in device.rounds() if not entry.startswith("look")]
    assert calls[0::2] == [f"evict {flush}"] * (len(calls) // 2)
    assert set(calls[1::2]) == {"A", "B"}
    assert EVICTION_US > 7
    assert {s.us for s in found.samples} == {5.0, 7.0}


@pytest.mark.parametrize("cache", ["warm", "rotate"])
def test_warm_and_rotate_never_evict_also_not_while_warming_up(cache):
    device = FakeDevice()
    found = timed({"A": 5}, policy(cache=cache), device)
    assert device.evictions == 0
    assert {s.us for s in found.samples} == {5.0}


@pytest.mark.parametrize("timer", ["event", "kernel"])
@pytest.mark.parametrize("cache", CACHES)
def test_before_is_called_before_each_call_outside_the_interval_and_ahead_of_the_eviction(cache, timer):
    device = Logged()

    def before():
        device.log.append("before")
        device.clock_us += 33

    how = policy(2, cache=cache, timer=timer)
    found = measure({"A": device.call("A", 5)}, how, device, PASSED, before=before, progress=device.log.append).timing
    each = ["before", "evict read", "A"] if cache == "cold" else ["before", "A"]
    from_the_warm_up_on = device.log[device.log.index("warming up") :]
    log = [entry for entry in from_the_warm_up_on if not entry.startswith(("look", "round", "warming"))]
    assert log == each * log.count("A"), "in the warm-up too"
    assert {s.us for s in found.samples} == {5.0}


def test_a_kernel_that_adds_to_its_argument_sees_the_first_values_in_every_timed_call():
    device, argument, seen = FakeDevice(), [0], []

    def accumulate():
        seen.append(argument[0])
        argument[0] += 1

    found = measure({"A": device.kernel(5, accumulate)}, SHORT, device, PASSED, before=lambda: argument.__setitem__(0, 0)).timing
    assert set(seen) == {0} and len(seen) > len(found.samples), "and before: what was tried, the warm-up"


def test_the_probes_restore_the_argument_before_each_of_their_calls():
    class Probed(FakeDevice):
        def hidden_us(self, call, before, held):
            for _ in range(3):
                before()
                call()
            return super().hidden_us(call, before, held)

        def synchronizes(self, call, before):
            before()
            call()
            return super().synchronizes(call, before)

    device, argument, seen = Probed(), [7], []

    def accumulate():
        seen.append(argument[0])
        argument[0] += 1

    found = call_statuses("A", device.kernel(5, accumulate), lambda: argument.__setitem__(0, 0), device)
    assert found == [] and len(seen) > 4 and set(seen) == {0}, "the very first call too"


def test_what_a_call_does_on_its_own_last_result_is_not_held_against_it():
    """Work that a call would hide only if it found what the call before had left."""
    device, argument = FakeDevice(), [0]
    call = device.kernel(5, lambda: argument.__setitem__(0, argument[0] + 1))

    def hidden_us(call, before, held):
        before()
        call()
        return 50.0 if argument[0] > 1 else 0.0

    device.hidden_us = hidden_us
    assert call_statuses("A", call, lambda: argument.__setitem__(0, 0), device) == []
    assert [s.name for s in call_statuses("A", call, lambda: None, device)] == ["HIDDEN_WORK"]


# --------------------------------------------------------------------------------------------- budgets


def spent(found: Timing) -> dict[str, float]:
    return {name: sum(s.us for s in found.samples if s.implementation == name) for name in found.implementations}


@pytest.mark.parametrize("cache, fast_us", [("warm", 20e3), ("cold", 10e3), ("rotate", 10e3)])
def test_the_slowest_gets_a_block_and_in_turns_the_others_get_as_many_calls(cache, fast_us):
    found = timed({"fast": 50, "slow": 100}, policy(10, cache=cache, block_ms=2))
    assert spent(found) == {"fast": pytest.approx(fast_us), "slow": pytest.approx(20e3)}


def test_a_block_of_the_kernel_timer_is_half_traced_and_half_not():
    found = timed({"A": 50}, policy(10, timer="kernel", block_ms=2))
    assert (len(found.samples), len(found.untraced)) == (200, 200)


def test_a_block_of_calls_back_to_back_has_fewer_samples():
    found = timed({"A": 10}, policy(10, cache="warm", block_ms=5, calls=20))
    assert len(found.samples) == 10 * 25 and {s.us for s in found.samples} == {10.0}


def test_the_warm_up_takes_its_budget_before_the_first_round():
    device = Logged()
    found = measure({"A": device.call("A", 100)}, policy(1, cache="warm", warmup_ms=350), device, PASSED).timing
    assert found.warmed_ms == pytest.approx(4 * WINDOW_MS, rel=1e-3), "in whole windows"
    assert 4000 <= device.log.index("look 0") <= 4020, "and a few to estimate how many a block takes"


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("us", [4, 40, 5000])
def test_a_window_of_the_warm_up_lasts_as_long_as_it_says_however_short_the_call_is(us, cache):
    found = timed({"A": us}, policy(1, cache=cache, warmup_ms=0, settle_s=5))
    window_ms = found.warmed_ms / WINDOWS
    assert WINDOW_MS <= window_ms < WINDOW_MS + CALLS_PER_BLOCK[1] * (us + EVICTION_US) / 1e3, "and ends with whole blocks"


def test_the_warm_up_of_two_lasts_as_long_as_that_of_one_and_each_takes_part():
    device = Logged()
    calls = {"A": device.call("A", 10), "B": device.call("B", 500)}
    found = measure(calls, policy(1, cache="warm", warmup_ms=0), device, PASSED).timing
    assert WINDOW_MS <= found.warmed_ms < 1.6 * WINDOW_MS, "one window of at most 100 calls of each, again and again"
    assert device.log.count("A") > 100 < device.log.count("B")


def test_the_warm_up_is_the_timed_loop_with_its_flush():
    device = Logged()
    how = policy(1, warmup_ms=50, flush="discard", cache="cold")
    measure({n: device.call(n, 100) for n in "AB"}, how, device, PASSED, progress=device.log.append)
    warming = device.log[device.log.index("warming up") + 1 : device.log.index("look 0")]
    warming = [entry for entry in warming if not entry.startswith("round")]
    assert warming[0::2] == ["evict discard"] * (len(warming) // 2)
    order = "".join(warming[1::2])
    assert "ABBABAAB" in order, "in turns, as in the rounds"


def test_a_warm_up_that_was_cut_short_says_that_nobody_looked():
    ((who, evidence),) = said(measured({"A": 5}, policy(settle_s=0)), "NOT_SETTLED")
    assert who is None and "nobody looked" in evidence


def test_a_warm_up_ends_when_times_stand_still_and_then_says_nothing():
    found = measured({"A": lambda clock: 100 + 100 * math.exp(-clock / 1e5)}, policy(cache="warm", warmup_ms=0, settle_s=5))
    assert said(found, "NOT_SETTLED") == []
    assert WINDOWS * WINDOW_MS < found.timing.warmed_ms < 1500
    steady_from_the_start = timed({"A": 100}, policy(cache="warm", warmup_ms=0, settle_s=5))
    assert steady_from_the_start.warmed_ms == pytest.approx(WINDOWS * WINDOW_MS, rel=1e-3), "the least that tells"


def ramp(clock_us):
    """10 us, and half as much again at first, as on a card that was idle; over after a second."""
    return 10 * (1 + 0.5 * max(0.0, 1 - clock_us / 1e6))


def test_a_short_call_whose_ramp_lasts_a_second_is_warmed_up_until_it_is_over():
    """A block of 100 such calls takes a millisecond, within which any ramp looks flat."""
    found = measured({"A": ramp}, policy(16, cache="warm", warmup_ms=0, settle_s=20, block_ms=1))
    assert said(found, "NOT_SETTLED") == said(found, "DRIFT") == []
    assert found.timing.warmed_ms > 1000 and found.timing.median_us("A") == 10


def test_a_short_call_whose_ramp_outlasts_the_warm_up_is_said_to_be_unsettled():
    found = measured({"A": ramp}, policy(cache="warm", warmup_ms=0, settle_s=0.5))
    ((who, evidence),) = said(found, "NOT_SETTLED")
    assert who is None and evidence.startswith("A moved by ") and 500 <= found.timing.warmed_ms < 700


@pytest.mark.parametrize("timer", TIMERS)
def test_every_timer_was_used_once_before_the_warm_up_so_that_the_card_does_not_cool_down_while_it_is_loaded(timer):
    device, used = FakeDevice(), {}
    timed({"A": 5}, policy(timer=timer), device, progress=lambda text: used.setdefault(text, list(device.timers_used)))
    assert used["warming up"] == ["event", timer, *(["event"] if timer == "kernel" else [])], "the first is the probe's"


@pytest.mark.parametrize("what", ["times", "clock"])
def test_times_or_a_clock_that_never_settle_end_the_warm_up_at_its_cap_and_are_said(what):
    device = FakeDevice()
    us = 100.0
    if what == "times":
        us = lambda clock: 100 + clock / 1e4  # noqa: E731
    else:
        device.clock_mhz = lambda clock: 1980 - clock / 500
    found = measured({"A": us}, policy(cache="warm", settle_s=0.4), device)
    ((who, evidence),) = said(found, "NOT_SETTLED")
    assert who is None and ("A moved by" if what == "times" else "the SM clock moved by") in evidence
    assert 400 <= found.timing.warmed_ms <= 510, "whole windows"


def test_before_each_round_the_card_may_idle_and_is_warmed_again():
    device = Logged()
    how = policy(3, cache="warm", cooldown_s=2.0)
    measure({"A": device.call("A", 100)}, how, device, PASSED, progress=device.log.append)
    told = [e for e in device.log if e != "A" and not e.startswith(("look", "looking"))]
    assert told == ["warming up", *(entry for n in range(1, 4) for entry in (f"round {n} of 3 to 3", "warming up"))]
    assert 6e6 < device.clock_us < 7e6
    assert timed({"A": 100}, policy(3, cache="warm")).session_s < 0.1


@pytest.mark.parametrize("us, calls", [(1e6, CALLS_PER_BLOCK[0]), (0.001, CALLS_PER_BLOCK[1])], ids=str)
def test_the_calls_of_a_block_are_bounded_for_a_very_slow_and_a_very_fast_kernel(us, calls):
    found = timed({"A": us}, policy(2, block_ms=20))
    assert len(found.samples) == 2 * calls


def test_an_unlimited_block_still_ends():
    found = timed({"A": 5}, policy(1, block_ms=math.inf))
    assert len(found.samples) == CALLS_PER_BLOCK[1]


@given(us=st.floats(0.01, 1e7), block_ms=st.floats(0.001, 1e5), rounds=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_a_block_has_a_median_and_keeps_few_events_alive_whatever_the_budget(us, block_ms, rounds):
    found = timed({"A": us}, policy(rounds, block_ms=block_ms))
    low, high = CALLS_PER_BLOCK
    assert low * rounds <= len(found.samples) <= high * rounds
    assert {s.round for s in found.samples} == set(range(rounds))


def test_the_first_slow_calls_do_not_decide_the_number_of_calls():
    device = FakeDevice()
    times = iter([50_000.0] * 8)  # first calls that load the module, and an estimate that is none
    call = device.kernel(lambda clock: next(times, 10.0))
    found = measure({"A": call}, policy(5, block_ms=0.5), device, PASSED).timing
    assert len(found.samples) == 5 * 50


# --------------------------------------------------------------------------------------- when it ends


class Noisy:
    """`us` with a spread that does not depend on the clock, and from the first round on is the same for every `us`."""

    def __init__(self, us, spread, seed):
        self.us, self.spread, self.seed = us, spread, seed
        self.restart()

    def __call__(self, clock):
        return self.us * math.exp(self.rng.gauss(0, self.spread))

    def restart(self):
        self.rng = random.Random(self.seed)


def rounds_of(times, how) -> Measured:
    def progress(text):
        if text.startswith("round 1 "):
            for us in times.values():
                us.restart()

    return measured(times, how, progress=progress)


def adaptive(**changes) -> TimingPolicy:
    return policy(**{"rounds": 4, "max_rounds": 80, "block_ms": 0.001, "warmup_ms": 0, **changes})


@pytest.mark.parametrize("names", ["A", "AB", "ABC"])
@pytest.mark.parametrize("rounds, ended", [(2, 16), (16, 16), (20, 20), (21, 22)])
def test_it_ends_when_every_interval_is_narrow_but_not_before_16_rounds_and_after_whole_units(names, rounds, ended):
    found = measured(dict.fromkeys(names, 10), adaptive(rounds=rounds))
    assert found.timing.rounds == ended
    assert said(found, "IMPRECISE") == []


def test_it_goes_on_until_the_widest_interval_is_narrow():
    times = {"A": 10, "still": 10, "moving": Noisy(10, 0.03, 1)}
    found = measured(times, adaptive(precision=0.005))
    assert 16 < found.timing.rounds < 80 and said(found, "IMPRECISE") == []
    assert measured(times, adaptive(precision=0.05)).timing.rounds == 16


@pytest.mark.parametrize("seed", range(4))
def test_it_never_ends_because_of_what_the_ratio_is(seed):
    ended = [
        rounds_of({"A": Noisy(10, 0.01, seed), "B": Noisy(us, 0.01, seed + 100)}, adaptive(precision=0.003)).timing.rounds
        for us in (10, 10.05, 10.2, 12, 100)
    ]
    assert len(set(ended)) == 1 and 16 < ended[0] < 80


def test_the_budget_of_rounds_ends_it_too_and_is_said():
    found = measured({"A": Noisy(10, 0.05, 1), "B": Noisy(10, 0.05, 2), "C": 10}, adaptive(max_rounds=18))
    assert found.timing.rounds == 18
    ((b, evidence), (c, _)) = said(found, "IMPRECISE")
    assert (b, c) == ("B", "C") and "after 18 rounds, 0.50% asked for" in evidence
    assert [who for who, _ in said(measured({"A": Noisy(10, 0.3, 1)}, adaptive(max_rounds=4)), "IMPRECISE")] == ["A"]


def test_the_budget_of_time_ends_it_too_and_is_said():
    device = FakeDevice()
    times = {"A": Noisy(1000, 0.3, 1), "B": Noisy(1000, 0.3, 2)}
    found = measured(times, adaptive(cache="warm", max_time_s=0.06), device)
    assert 8 <= found.timing.rounds <= 12 and found.timing.rounds % 2 == 0
    assert 0.06 <= found.timing.session_s < 0.08
    assert [who for who, _ in said(found, "IMPRECISE")] == ["B"]
    assert measured(times, adaptive(cache="warm", max_time_s=1e-9)).timing.rounds == 4, "the rounds asked for all the same"


# ---------------------------------------------------------------------------- what cannot be timed so


@pytest.mark.parametrize("timer", TIMERS)
def test_hidden_work_of_the_kernel_means_that_nothing_is_timed(timer):
    device = FakeDevice()
    found = measured({"k": device.kernel(50, hidden_us=30), "b": 50}, policy(timer=timer), device)
    assert found.timing is None and found.kernels == {}
    ((who, evidence),) = said(found, "HIDDEN_WORK")
    assert found.refused == found.statuses and len(found.refused) == 1
    assert who == "k" and "busy for 30.0 us after the stop event of a call of 50.0 us" in evidence
    assert set(device.timers_used) == {"event"}, "the probes' own"


def test_hidden_work_of_a_baseline_leaves_only_that_one_out():
    device = FakeDevice()
    found = measured({"k": 50, "hides": device.kernel(50, hidden_us=30), "b": 50}, SHORT, device)
    assert found.timing.implementations == ("k", "b")
    assert [who for who, _ in said(found, "HIDDEN_WORK")] == [s.implementation for s in found.refused] == ["hides"]


@pytest.mark.parametrize("us, hidden_us, hides", [(10, 4.9, False), (10, 5.1, True), (1000, 49, False), (1000, 51, True)])
def test_work_is_hidden_above_5_us_and_5_percent(us, hidden_us, hides):
    device = FakeDevice()
    found = measured({"k": device.kernel(us, hidden_us=hidden_us)}, SHORT, device)
    assert bool(said(found, "HIDDEN_WORK")) == hides == (found.timing is None)


def test_a_call_that_synchronises_is_timed_and_said_without_a_gate_and_not_timed_behind_one():
    def both(gate):
        device = FakeDevice()
        return measured({"k": device.kernel(50, syncs=True), "b": 50}, policy(gate=gate), device)

    free, gated = both(False), both(True)
    assert free.timing.implementations == ("k", "b") and gated.timing is None
    assert free.refused == () and [s.name for s in gated.refused] == ["SYNCS"]
    for found in (free, gated):
        ((who, evidence),) = said(found, "SYNCS")
        assert who == "k" and "did not return while a waiting kernel held its stream" in evidence


def test_a_baseline_that_synchronises_is_left_out_behind_a_gate_only():
    def implementations(**how):
        device = FakeDevice()
        return measured({"k": 50, "syncs": device.kernel(50, syncs=True)}, policy(**how), device).timing.implementations

    assert implementations(gate=True) == ("k",)
    assert implementations() == implementations(timer="kernel") == ("k", "syncs")


def test_a_call_that_synchronises_is_never_put_behind_a_gate():
    class Strict(FakeDevice):
        def time_calls(self, timer, calls, loop):
            assert not (loop.gate and any(call.syncs for call in calls)), "it would never return"
            return super().time_calls(timer, calls, loop)

    device = Strict()
    assert measure({"k": device.kernel(50, syncs=True), "b": device.kernel(50)}, SHORT, device, PASSED).timing


# ------------------------------------------------------------------------------------ what is in doubt


def test_others_on_the_card_are_said():
    device = FakeDevice()
    device.neighbours = ["process 7 with 500 MB", "process 8 with 1 MB"]
    assert said(measured({"k": 5}, SHORT, device), "SHARED") == [(None, "process 7 with 500 MB; process 8 with 1 MB")]
    assert said(measured({"k": 5}), "SHARED") == []


@pytest.mark.parametrize(
    "cycles, how, proven",
    [
        ({}, {}, True),
        ({"read": 300.0}, {}, False),
        ({"read": 300.0}, {"flush": "discard"}, True),
        ({"discard": 300.0}, {"flush": "discard"}, False),
        ({"read": 300.0}, {"cache": "warm"}, True),  # nothing should have left L2
        ({"read": 300.0}, {"cache": "rotate", "flush": "discard"}, False),  # other copies are read
        ({"read": 419.0}, {}, False),
        ({"read": 421.0}, {}, True),
    ],
    ids=str,
)
def test_a_cache_that_should_be_cold_and_answers_as_fast_as_l2_is_said(cycles, how, proven):
    device = FakeDevice()
    device.cycles.update(cycles)
    found = said(measured({"k": 5}, policy(**how), device), "COLD_UNPROVEN")
    assert (found == []) == proven
    if not proven:
        flush = how.get("flush", "read") if how.get("cache") != "rotate" else "read"
        assert found == [(None, f"a dependent load takes 280 cycles from L2 and {cycles[flush]:.0f} after the flush ({flush})")]


@pytest.mark.parametrize(
    "timer, bound", [("kernel", True), ("event", True), ("wall", False), ("proton", False), ("graph", False)]
)
def test_a_host_that_is_slower_than_the_device_is_said_where_the_timer_shows_it(timer, bound):
    device = FakeDevice()
    found = measured({"k": device.kernel(50, host_us=20), "b": 50}, policy(timer=timer), device)
    assert [who for who, _ in said(found, "HOST_BOUND")] == (["k"] if bound else [])
    if bound:
        assert "event interval 70.00 us, 50.00 us" in said(found, "HOST_BOUND")[0][1]


def test_behind_a_gate_no_host_is_seen():
    device = FakeDevice()
    found = measured({"k": device.kernel(50, host_us=20)}, policy(gate=True), device)
    assert said(found, "HOST_BOUND") == [] and found.timing.median_us("k") == 50


def test_what_the_host_and_what_tracing_add_are_derived_from_the_two_kinds_of_blocks():
    device = FakeDevice()
    device.tracing_us = 3.0
    found = timed({"k": device.kernel(50, host_us=20, idle_us=8), "b": 50}, policy(timer="kernel"), device)
    assert (found.median_us("k"), found.host_gap_us("k"), found.tracing_cost_us("k")) == (50, 20, 3)
    assert (found.host_gap_us("b"), found.tracing_cost_us("b")) == (0, 3)
    assert {s.busy_us for s in found.of("k")} == {42.0} and {s.event_us for s in found.of("k")} == {73.0}
    by_events = timed({"k": 50})
    assert by_events.host_gap_us("k") is None and by_events.tracing_cost_us("k") is None


def test_a_timer_whose_steps_are_wide_is_said_with_how_many_calls_resolve():
    device = FakeDevice()
    device.step_us = 0.5
    times = itertools.cycle([8.2, 8.7])  # shown as 8 and 8.5
    found = measured({"k": lambda clock: next(times)}, policy(16), device)
    ((who, evidence),) = said(found, "COARSE")
    assert who == "k" and "steps of 0.5 us" in evidence and "--calls 12" in evidence
    fine = measured({"k": lambda clock: next(times)}, policy(16, cache="warm", calls=128), FakeDevice())
    assert said(fine, "COARSE") == []


def test_a_time_below_what_the_card_needs_is_said():
    assert [who for who, _ in said(measured({"k": 9, "b": 11}, floor_us=10), "IMPOSSIBLE")] == ["k"]
    assert said(measured({"k": 9, "b": 11}), "IMPOSSIBLE") == []


# -------------------------------------------------------------------------------------------- kernels


def test_the_kernels_of_each_implementation_are_told_by_the_timers_that_see_them():
    def kernels(timer):
        device = FakeDevice()
        return measured({"k": device.kernel(5, kernels=("repack", "gemm")), "b": 5}, policy(timer=timer), device).kernels

    assert kernels("kernel") == kernels("proton") == {"k": (("repack", "gemm"), 1), "b": (("kernel",), 1)}
    assert kernels("event") == kernels("wall") == kernels("graph") == {}


class Changing:
    """A call that launches other kernels from some call on."""

    hidden_us = host_us = idle_us = 0.0
    syncs = False

    def __init__(self, device, after, first=("a",), then=("b",)):
        self.device, self.after, self.first, self.then, self.count = device, after, first, then, 0

    def __call__(self):
        self.count += 1
        self.device.clock_us += 5

    @property
    def kernels(self):
        return self.first if self.count <= self.after else self.then


def calls_before_the_rounds(timer) -> int:
    device = FakeDevice()
    call = Changing(device, math.inf)
    found = measure({"k": call}, policy(2, timer=timer, cache="warm"), device, PASSED).timing
    return call.count - len(found.samples) - len(found.untraced)


@pytest.mark.parametrize("timer", ["kernel", "proton"])
@pytest.mark.parametrize(
    "within, said", [(3, r"k launched a in one block and b in another"), (2, r"k launched 3 kernels in 3 calls")]
)
def test_an_implementation_that_launches_other_kernels_in_between_is_refused(timer, within, said):
    device = FakeDevice()
    call = Changing(device, calls_before_the_rounds(timer) + within)
    with pytest.raises(FailedError, match=said):
        measure({"k": call}, policy(4, timer=timer, cache="warm", block_ms=0.001), device, PASSED)


def test_the_same_kernels_in_another_order_are_the_same_operation():
    device = FakeDevice()
    call = Changing(device, calls_before_the_rounds("proton") + 3, ("a", "b"), ("b", "a"))
    found = measure({"k": call}, policy(4, timer="proton", cache="warm", block_ms=0.001), device, PASSED)
    assert found.kernels == {"k": (("a", "b"), 1)}


# --------------------------------------------------------------------------------------------- derived


def test_medians_and_the_spread_are_derived_from_the_samples():
    found = timing({"A": [[1, 2, 9], [4, 4, 4], [3, 5, 6, 100]], "B": [[10], [20], [30]]})
    assert found.median_us("A") == 4
    assert found.round_medians_us("A") == (2, 4, 5.5)
    assert found.spread("A") == pytest.approx(statistics.stdev([2, 4, 5.5]) / statistics.mean([2, 4, 5.5]))
    assert found.median_us("B") == 20
    assert found.rounds == 3


def test_one_outlier_does_not_move_the_median():
    found = timing({"A": [[10, 10, 10, 10, 5000]] * 3})
    assert found.median_us("A") == 10
    assert found.spread("A") == 0


def test_one_round_has_no_spread():
    assert math.isnan(timing({"A": [[1, 2, 3]]}).spread("A"))


def at_clock(mhz):
    """A and B, whose clock is `mhz` in the round; B takes 1 000 cycles more than A."""
    samples = [
        Sample(name, n, cycles / clock, clock_mhz=clock)
        for n, clock in enumerate(mhz)
        for name, cycles in (("A", 10_000), ("B", 11_000))
    ]
    return Timing(SHORT, tuple(samples), (), True)


def test_the_share_of_its_span_in_which_anything_ran_is_derived():
    device = FakeDevice()
    found = timed({"gaps": device.kernel(50, idle_us=20), "full": 50}, policy(timer="kernel"), device)
    assert (found.busy_share("gaps"), found.busy_share("full")) == (pytest.approx(0.6), 1.0)
    assert timed({"A": 50}).busy_share("A") is None, "events show no activities"


def test_in_cycles_a_clock_that_moves_is_taken_out():
    found = at_clock([1000.0, 2000.0, 1500.0, 1500.0])
    assert found.unit_log_cycle_ratios("A", "B") == pytest.approx([math.log(1.1)] * 2)
    both = [Sample(name, n, 10.0, clock_mhz=clock) for n in range(4) for name, clock in (("A", 2000.0), ("B", 1000.0))]
    held_back = Timing(SHORT, tuple(both), (), True)
    assert held_back.unit_log_ratios("A", "B") == (0.0, 0.0)
    assert held_back.unit_log_cycle_ratios("A", "B") == pytest.approx([math.log(0.5)] * 2)


def test_without_the_clock_of_every_sample_there_is_no_ratio_in_cycles():
    found = at_clock([1000.0] * 4)
    one_lacks_it = Timing(SHORT, (*found.samples[:-1], Sample("B", 3, 11.0)), (), True)
    assert one_lacks_it.unit_log_cycle_ratios("A", "B") == () and len(one_lacks_it.unit_log_ratios("A", "B")) == 2
    none = Timing(SHORT, (Sample("A", 0, 5.0),), (), True)
    assert none.clock_mhz("A") is None and found.clock_mhz("A") == 1000


def test_a_steady_drift_of_the_card_falls_on_all_alike():
    """Two equal kernels that become slower with every microsecond of the clock, as a card does that heats up."""

    def drifting(clock):
        return 100 + clock * 2e-4

    found = timed({"A": drifting, "B": drifting}, policy(10, cache="warm", block_ms=10, warmup_ms=5))
    assert found.round_medians_us("A")[-1] > 1.2 * found.round_medians_us("A")[0], "the drift is large"
    assert found.median_us("B") / found.median_us("A") == pytest.approx(1, abs=0.01)
    one_way = [b / a for a, b in zip(found.round_medians_us("A"), found.round_medians_us("B"), strict=True)]
    assert one_way[0] > 1 > one_way[1], "within one round it falls on the second"


def test_the_share_of_the_session_in_which_timed_calls_ran_is_derived():
    found = timed({"A": 90}, policy(10, cache="warm", block_ms=2))
    assert 0.999 < found.duty < 1, "the rest is the host's"
    cold = timed({"A": 90}, policy(10, block_ms=2))
    assert cold.duty == pytest.approx(90 / (90 + EVICTION_US), rel=2e-3)
    assert timed({"A": 90}, policy(10, timer="kernel", block_ms=2)).duty == pytest.approx(cold.duty, rel=2e-3)
    assert timed({"A": 10}, policy(10, cache="warm", block_ms=2, calls=20)).duty == pytest.approx(1.0, rel=1e-3)
    assert timing({"A": [[25.0] * 4] * 2}).duty == pytest.approx(8 * 25 / (7 * 100 + 25)), "from the first to the end of the last"
    assert Timing(SHORT, (Sample("A", 0, 5.0),), (), True).duty == 1


def test_steady_times_have_the_spread_that_was_put_in():
    assert timing({"A": steady(10, jitter=0.01)}).spread("A") == pytest.approx(0.0105, rel=0.01)
