"""Calls, a policy and a device to every sample in order. The device is an argument, so all of this runs against a fake."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

from tirx_bench.device import Call, Device
from tirx_bench.model import Sample, Timing, TimingPolicy, UsageError, Verification

CALLS_PER_BLOCK = (3, 1000)  # a block of fewer calls has no median; more would keep too many events alive
ESTIMATE_CALLS = 5


def measure(
    calls: Mapping[str, Call],
    policy: TimingPolicy,
    device: Device,
    verification: Verification,
    *,
    reset: Call = lambda: None,
    progress: Callable[[str], None] = lambda text: None,
) -> Timing:
    """Time the implementations in rounds, each alternating between them. Nothing is timed without a passed verification.

    With a cold cache the order is balanced from call to call (A B B A), because the clock of a card at its power limit
    moves within tens of milliseconds: in blocks of 20 ms one H200 showed 1 to 2.6 % between equal code. With a warm cache
    an implementation must follow itself, so each has one block in a round, and the rounds are balanced. `reset` restores
    in-place arguments before each call, outside the interval.
    """
    if not verification.passed:
        raise UsageError("the kernel did not pass verification, so it is not timed")

    def before() -> None:
        reset()
        if policy.cache == "cold":
            device.evict_l2()

    counts = {name: _warm_up(call, policy, device, before) for name, call in calls.items()}
    samples: list[Sample] = []
    states = []
    for number in range(policy.rounds):
        progress(f"round {number + 1} of {policy.rounds}")
        states.append(device.state(number))
        for names in _blocks(counts, policy, number):
            times = device.time_calls(policy.timer, [calls[name] for name in names], before)
            samples += [Sample(name, number, us) for name, us in zip(names, times, strict=True)]
    return Timing(policy, tuple(samples), tuple(states), verification.passed)


def _blocks(counts: Mapping[str, int], policy: TimingPolicy, number: int) -> list[list[str]]:
    """The names of the calls of one round, in order, by block."""
    if policy.cache == "warm":
        return [[name] * counts[name] for name in _order(list(counts), number)]
    turns = min(counts.values(), default=0)  # the slowest sets the time that a round takes
    return [[name for turn in range(turns) for name in _order(list(counts), number + turn)]]


def _order(names: list[str], turn: int) -> list[str]:
    """Forward, back, back, forward: A B B A, B A A B."""
    return names if turn % 4 in (0, 3) else names[::-1]


def _warm_up(call: Call, policy: TimingPolicy, device: Device, before: Call) -> int:
    """Run `call` for the warm-up budget, eviction included as in the rounds; returns its calls in one round."""
    estimate = _estimate_us(call, policy, device, before)
    device.time_calls("event", [call] * _bounded(policy.warmup_ms * 1e3 / estimate), before)
    estimate = _estimate_us(call, policy, device, before)
    return _bounded(policy.repeat_ms * 1e3 / policy.rounds / estimate)


def _estimate_us(call: Call, policy: TimingPolicy, device: Device, before: Call) -> float:
    return max(statistics.median(device.time_calls("event", [call] * ESTIMATE_CALLS, before)), 0.1)


def _bounded(calls: float) -> int:
    low, high = CALLS_PER_BLOCK
    return math.ceil(min(max(calls, low), high))
