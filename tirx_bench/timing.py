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
    """Time the implementations in rounds that alternate their order. Nothing is timed without a passed verification.

    Each implementation gets `policy.repeat_ms` of device time over all rounds. Two rounds make a unit, one in
    the order given and one in reverse (A B B A), and the next unit begins with the reverse (B A A B), so that a drift of the
    card falls on all alike. `reset` restores in-place arguments before each call, outside the interval.
    """
    if not verification.passed:
        raise UsageError("the kernel did not pass verification, so it is not timed")

    def before() -> None:
        reset()
        if policy.cache == "cold":
            device.evict_l2()

    per_block = {name: _warm_up(call, policy, device, before) for name, call in calls.items()}
    samples: list[Sample] = []
    states = []
    for number in range(policy.rounds):
        progress(f"round {number + 1} of {policy.rounds}")
        states.append(device.state(number))
        for name in list(calls) if number % 4 in (0, 3) else reversed(list(calls)):
            times = device.time_calls(policy.timer, [calls[name]] * per_block[name], before)
            samples += [Sample(name, number, us) for us in times]
    return Timing(policy, tuple(samples), tuple(states), verification.passed)


def _warm_up(call: Call, policy: TimingPolicy, device: Device, before: Call) -> int:
    """Run `call` for the warm-up budget, eviction included as in the rounds; returns the calls of one block."""
    estimate = _estimate_us(call, policy, device, before)
    device.time_calls("event", [call] * _bounded(policy.warmup_ms * 1e3 / estimate), before)
    estimate = _estimate_us(call, policy, device, before)
    return _bounded(policy.repeat_ms * 1e3 / policy.rounds / estimate)


def _estimate_us(call: Call, policy: TimingPolicy, device: Device, before: Call) -> float:
    return max(statistics.median(device.time_calls("event", [call] * ESTIMATE_CALLS, before)), 0.1)


def _bounded(calls: float) -> int:
    low, high = CALLS_PER_BLOCK
    return math.ceil(min(max(calls, low), high))
