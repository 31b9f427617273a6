"""Order, budgets and samples on a device whose clock only its calls move."""

from __future__ import annotations

import math
import statistics

import pytest
from helpers_records import steady, timing, verification
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.device.fake import EVICTION_US, FakeDevice
from tirx_bench.model import CACHES, TIMERS, NothingRanError, Timing, TimingPolicy, UsageError
from tirx_bench.timing import CALLS_PER_BLOCK, measure

PASSED = verification()
FAILED = verification(wrong_elements=1)
SHORT = TimingPolicy(warmup_ms=0.1, repeat_ms=0.3, rounds=4)


def timed(times, policy=SHORT, device=None, **options) -> Timing:
    """Measure implementations that take `times` microseconds of a fake device."""
    device = device or FakeDevice()
    return measure({name: device.kernel(us) for name, us in times.items()}, policy, device, PASSED, **options)


class Logged(FakeDevice):
    """A fake that writes down every block that is timed, and what happens inside it."""

    def __init__(self):
        super().__init__()
        self.log: list[str] = []

    def call(self, name, us):
        return self.kernel(us, lambda: self.log.append(name))

    def evict_l2(self):
        self.log.append("evict")
        super().evict_l2()

    def state(self, round_number):
        self.log.append(f"state {round_number}")
        return super().state(round_number)

    def rounds(self):
        """What happened in the rounds, after the warm-up."""
        return self.log[self.log.index("state 0") :]


def blocks(log):
    """A list without its repetitions."""
    return [name for n, name in enumerate(log) if n == 0 or log[n - 1] != name]


# ----------------------------------------------------------------------------------------- not at all


def test_a_kernel_that_did_not_pass_verification_is_not_timed_at_all():
    device = Logged()
    with pytest.raises(UsageError, match="did not pass verification"):
        measure({"add": device.call("add", 5)}, SHORT, device, FAILED)
    assert device.log == []


def test_a_timing_of_a_kernel_that_did_not_pass_does_not_construct():
    found = timed({"add": 5})
    with pytest.raises(UsageError, match="passed verification"):
        Timing(found.policy, found.samples, found.rounds, verified=False)


def test_nothing_to_time_is_said_and_is_exit_code_4():
    with pytest.raises(NothingRanError) as raised:
        timed({})
    assert raised.value.exit_code == 4


def test_an_error_of_a_call_is_not_swallowed():
    def broken():
        raise ValueError("a launch failed")

    with pytest.raises(ValueError, match="a launch failed"):
        measure({"add": broken}, SHORT, FakeDevice(), PASSED)


# ---------------------------------------------------------------------------------------------- policy


@pytest.mark.parametrize(
    "wrong, near",
    [("evnt", "event"), ("Proton", "proton"), ("walls", "wall"), ("cuda-events", "event"), ("cupti", "known: event")],
)
def test_an_unknown_timer_is_refused_with_the_near_names(wrong, near):
    with pytest.raises(UsageError, match=f"unknown timer {wrong!r}") as raised:
        TimingPolicy(timer=wrong)
    assert near in raised.value.hint


@pytest.mark.parametrize("wrong, near", [("hot", "known: cold, warm"), ("colt", "cold"), ("warmed", "warm"), ("", "known")])
def test_an_unknown_cache_policy_is_refused_with_the_near_names(wrong, near):
    with pytest.raises(UsageError, match="unknown cache policy") as raised:
        TimingPolicy(cache=wrong)
    assert near in raised.value.hint


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"repeat_ms": 0}, {"repeat_ms": math.nan}, {"warmup_ms": -1}], ids=str)
def test_a_budget_that_measures_nothing_is_refused(wrong):
    with pytest.raises(UsageError):
        TimingPolicy(**wrong)


@pytest.mark.parametrize("timer", TIMERS)
def test_the_rounds_use_the_timer_that_the_policy_names_and_store_the_policy(timer):
    device, policy = FakeDevice(), TimingPolicy(timer=timer, cache="warm", warmup_ms=0.1, repeat_ms=0.1, rounds=3)
    found = timed({"a": 5, "b": 6}, policy, device)
    assert device.timers_used[-6:] == [timer] * 6
    assert found.policy == policy


# ---------------------------------------------------------------------------------------------- order


def test_with_a_cold_cache_the_order_is_balanced_from_call_to_call():
    device = Logged()
    policy = TimingPolicy(cache="cold", warmup_ms=0.1, repeat_ms=0.1, rounds=2)
    found = measure({name: device.call(name, 5) for name in "AB"}, policy, device, PASSED)
    order = ["".join(s.implementation for s in found.samples if s.round == number) for number in range(2)]
    assert order[0].startswith("ABBABAAB") and order[1].startswith("BABAABAB")
    assert {n: order[0].count(n) - order[0].count("A") for n in "AB"} == {"A": 0, "B": 0}


def test_with_a_warm_cache_the_order_is_balanced_in_units_of_two_rounds():
    device = Logged()
    policy = TimingPolicy(cache="warm", warmup_ms=0.1, repeat_ms=0.1, rounds=4)
    measure({name: device.call(name, 5) for name in "ABC"}, policy, device, PASSED)
    assert blocks(device.rounds()) == [
        "state 0", "A", "B", "C", "state 1", "C", "B", "A", "state 2", "C", "B", "A", "state 3", "A", "B", "C",
    ]  # fmt: skip


def test_every_sample_is_kept_in_the_order_it_was_taken():
    device = FakeDevice()
    taken = []

    def slower(name):
        def us(clock):
            taken.append((name, float(len(taken))))
            return float(len(taken) - 1)

        return us

    found = measure(
        {n: device.kernel(slower(n)) for n in "AB"}, TimingPolicy(warmup_ms=0, repeat_ms=0.1, rounds=3), device, PASSED
    )
    kept = [(s.implementation, s.us) for s in found.samples]
    assert kept == taken[-len(kept) :]
    assert [s.round for s in found.samples] == sorted(s.round for s in found.samples)
    assert {s.round for s in found.samples} == {0, 1, 2}


def test_the_kernel_is_listed_before_its_baselines_in_whatever_order_the_last_round_ran():
    assert timed({"add": 5, "torch.add": 6, "other": 7}).implementations == ("add", "torch.add", "other")


def test_progress_tells_each_round():
    told = []
    timed({"add": 5}, progress=told.append)
    assert told == ["round 1 of 4", "round 2 of 4", "round 3 of 4", "round 4 of 4"]


def test_the_cards_state_is_kept_for_every_round():
    class Heating(FakeDevice):
        def state(self, number):
            self.throttle = ("power cap",) if number == 2 else ()
            return super().state(number)

    found = timed({"add": 5}, device=Heating())
    assert [(s.round, s.throttle) for s in found.rounds] == [(0, ()), (1, ()), (2, ("power cap",)), (3, ())]


# ---------------------------------------------------------------------------------------------- cache


def test_cold_evicts_once_before_each_call_and_outside_the_interval():
    device = Logged()
    found = measure({"A": device.call("A", 5), "B": device.call("B", 7)}, SHORT, device, PASSED)
    calls = [entry for entry in device.rounds() if not entry.startswith("state")]
    assert calls[0::2] == ["evict"] * (len(calls) // 2)
    assert "evict" not in calls[1::2]
    assert EVICTION_US > 7
    assert {s.us for s in found.samples} == {5.0, 7.0}


def test_warm_never_evicts_also_not_while_warming_up():
    device = FakeDevice()
    found = timed({"A": 5}, TimingPolicy(cache="warm", rounds=2, repeat_ms=1), device)
    assert device.evictions == 0
    assert {s.us for s in found.samples} == {5.0}


@pytest.mark.parametrize("cache", CACHES)
def test_reset_is_called_before_each_call_outside_the_interval_and_before_the_eviction(cache):
    device = Logged()

    def reset():
        device.log.append("reset")
        device.clock_us += 33

    policy = TimingPolicy(cache=cache, warmup_ms=0.1, repeat_ms=0.1, rounds=2)
    found = measure({"A": device.call("A", 5)}, policy, device, PASSED, reset=reset)
    before = ["reset", "evict"] if cache == "cold" else ["reset"]
    log = [entry for entry in device.log if not entry.startswith("state")]
    assert log == [*before, "A"] * log.count("A"), "in the warm-up too"
    assert {s.us for s in found.samples} == {5.0}


def test_a_kernel_that_adds_to_its_argument_sees_the_first_values_in_every_timed_call():
    device, argument, seen = FakeDevice(), [0], []

    def accumulate():
        seen.append(argument[0])
        argument[0] += 1

    measure({"A": device.kernel(5, accumulate)}, SHORT, device, PASSED, reset=lambda: argument.__setitem__(0, 0))
    assert set(seen) == {0}


# --------------------------------------------------------------------------------------------- budgets


@pytest.mark.parametrize("cache, fast_us", [("warm", 20e3), ("cold", 2e3)])
def test_the_slowest_gets_the_repeat_budget_and_in_turns_the_others_get_as_many_calls(cache, fast_us):
    policy = TimingPolicy(cache=cache, warmup_ms=1, repeat_ms=20, rounds=5)
    found = timed({"fast": 10, "slow": 100}, policy)
    spent = {name: sum(s.us for s in found.samples if s.implementation == name) for name in ("fast", "slow")}
    assert spent == {"fast": pytest.approx(fast_us), "slow": pytest.approx(20e3)}


def test_the_warm_up_takes_its_budget_before_the_first_round():
    device = Logged()
    measure({"A": device.call("A", 100)}, TimingPolicy(warmup_ms=10, cache="warm", rounds=1), device, PASSED)
    assert 100 <= device.log.index("state 0") <= 115, "100 calls of 100 us, and a few to estimate how many those are"


@pytest.mark.parametrize(
    "us, calls", [(1e6, CALLS_PER_BLOCK[0]), (0.001, CALLS_PER_BLOCK[1]), (0.0, CALLS_PER_BLOCK[1])], ids=str
)
def test_the_calls_of_a_block_are_bounded_for_a_very_slow_and_a_very_fast_kernel(us, calls):
    found = timed({"A": us}, TimingPolicy(rounds=2))
    assert len(found.samples) == 2 * calls


def test_an_unlimited_budget_still_ends():
    found = timed({"A": 5}, TimingPolicy(repeat_ms=math.inf, warmup_ms=math.inf, rounds=1))
    assert len(found.samples) == CALLS_PER_BLOCK[1]


@given(us=st.floats(0.01, 1e7), repeat_ms=st.floats(0.001, 1e5), rounds=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_a_block_has_a_median_and_keeps_few_events_alive_whatever_the_budget(us, repeat_ms, rounds):
    found = timed({"A": us}, TimingPolicy(warmup_ms=0, repeat_ms=repeat_ms, rounds=rounds))
    low, high = CALLS_PER_BLOCK
    assert low * rounds <= len(found.samples) <= high * rounds
    assert {s.round for s in found.samples} == set(range(rounds))


def test_the_first_slow_call_does_not_decide_the_number_of_calls():
    device = FakeDevice()
    times = iter([50_000.0])  # a first call that loads the module
    call = device.kernel(lambda clock: next(times, 10.0))
    found = measure({"A": call}, TimingPolicy(warmup_ms=1, repeat_ms=10, rounds=5), device, PASSED)
    assert len(found.samples) == 5 * 200


# --------------------------------------------------------------------------------------------- derived


def test_medians_and_the_spread_are_derived_from_the_samples():
    found = timing({"A": [[1, 2, 9], [4, 4, 4], [3, 5, 6, 100]], "B": [[10], [20], [30]]})
    assert found.median_us("A") == 4
    assert found.round_medians_us("A") == (2, 4, 5.5)
    assert found.spread("A") == pytest.approx(statistics.stdev([2, 4, 5.5]) / statistics.mean([2, 4, 5.5]))
    assert found.median_us("B") == 20


def test_one_outlier_does_not_move_the_median():
    found = timing({"A": [[10, 10, 10, 10, 5000]] * 3})
    assert found.median_us("A") == 10
    assert found.spread("A") == 0


def test_one_round_has_no_spread():
    assert math.isnan(timing({"A": [[1, 2, 3]]}).spread("A"))


def test_a_steady_drift_of_the_card_falls_on_all_alike():
    """Two equal kernels that become slower with every microsecond of the clock, as a card does that heats up."""

    def drifting(clock):
        return 100 + clock * 2e-4

    device = FakeDevice()
    policy = TimingPolicy(cache="warm", warmup_ms=5, repeat_ms=50, rounds=10)
    found = timed({"A": drifting, "B": drifting}, policy, device)
    assert found.round_medians_us("A")[-1] > 1.2 * found.round_medians_us("A")[0], "the drift is large"
    assert found.median_us("B") / found.median_us("A") == pytest.approx(1, abs=0.01)
    one_way = [b / a for a, b in zip(found.round_medians_us("A"), found.round_medians_us("B"), strict=True)]
    assert one_way[0] > 1 > one_way[1], "within one round it falls on the second"


def test_steady_times_have_the_spread_that_was_put_in():
    assert timing({"A": steady(10, jitter=0.01)}).spread("A") == pytest.approx(0.0105, rel=0.01)
