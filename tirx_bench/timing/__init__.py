"""Calls, a policy and a device to every sample in order. The device is an argument, so all of this runs against a fake."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tirx_bench.device import Call, Device, Loop, Reading, Watch
from tirx_bench.device.trace import constant_kernels
from tirx_bench.model import STATUSES, FailedError, Sample, Status, Timing, TimingPolicy, UsageError, Verification
from tirx_bench.timing import judge
from tirx_bench.timing.order import blocks
from tirx_bench.timing.probe import call_statuses, card_statuses
from tirx_bench.timing.settle import WINDOW_MS, Settled, settle

CALLS_PER_BLOCK = (3, 100)  # a block of fewer calls has no median; more would make records of many megabytes
ESTIMATE_CALLS = 5


@dataclass(frozen=True)
class Measured:
    """The timing, without the implementations that could not be timed; None if the kernel is one of them.

    `refused` are the statuses for which they could not.
    """

    timing: Timing | None
    statuses: tuple[Status, ...]
    refused: tuple[Status, ...]
    kernels: Mapping[str, tuple[tuple[str, ...], int]]  # of each implementation, with its streams, where the timer shows them


def measure(
    calls: Mapping[str, Call],
    policy: TimingPolicy,
    device: Device,
    verification: Verification,
    *,
    before: Call = lambda: None,
    started: Call = lambda: None,
    floor_us: float | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Measured:
    """Time the implementations in rounds; the first is the kernel. Nothing is timed without a passed verification.

    `before` runs before every interval and outside it: it restores in-place arguments, or moves on to the next copy.
    `started` runs once, after the warm-up: what the outputs hold then is not of the timed calls.
    `floor_us` is the least time that the card's data sheet allows.
    """
    if not verification.passed:
        raise UsageError("the kernel did not pass verification, so it is not timed")
    if not calls:
        raise UsageError("nothing to time")
    progress("looking at the card and the calls")
    kernel = next(iter(calls))
    found = card_statuses(policy, device)
    for name, call in calls.items():
        found += call_statuses(name, call, before, device)
    forbidding = {"nothing is timed", *(["nothing is timed behind a gate"] if policy.gate else [])}
    refused = tuple(s for s in found if STATUSES[s.name].forbids in forbidding)
    untimed = {s.implementation for s in refused}
    if kernel in untimed:
        return Measured(None, tuple(found), refused, {})
    session = _Session({n: c for n, c in calls.items() if n not in untimed}, policy, device, before, progress)
    timing = session.run(kernel, started)
    gated = session.gated_us(found) if policy.timer == "event" and not policy.gate and policy.calls == 1 else {}
    found += session.doubts() + judge.statuses(timing, kernel, floor_us, gated)
    return Measured(timing, tuple(found), refused, session.kernels)


class _Session:
    """The rounds of one timing, and what they gathered."""

    def __init__(
        self, calls: Mapping[str, Call], policy: TimingPolicy, device: Device, before: Call, progress: Callable[[str], None]
    ):
        self.calls, self.policy, self.device, self.progress = calls, policy, device, progress
        self.loop = Loop(before, policy.flush if policy.cache == "cold" else None, policy.gate, policy.calls)
        self.timers = [policy.timer, "event"] if policy.timer == "kernel" else [policy.timer]
        self.in_turns = policy.cache != "warm"
        self.samples: list[Sample] = []
        self.untraced: list[Sample] = []
        self.kernels: dict[str, tuple[tuple[str, ...], int]] = {}
        self.settled = Settled(0.0, "")
        self.first_us: dict[str, float] = {}

    def run(self, kernel: str, started: Call) -> Timing:
        self.empty_event_us = self.device.empty_event_us()
        for timer in self.timers:  # a profiler's first session takes seconds, in which the card would cool down again
            self.device.time_calls(timer, list(self.calls.values()), self.loop)
        self._warm_up()
        started()
        began = self.device.seconds()
        with self.device.watch() as watch:
            for number in range(self.policy.max_rounds):
                self.progress(f"round {number + 1} of {self.policy.rounds} to {self.policy.max_rounds}")
                self._cool_down()
                self._round(number, watch)
                took = self.device.seconds() - began
                if number + 1 >= self.policy.rounds and number % 2 and self._enough(watch, kernel, took):
                    break
        return self._timing(watch, took)

    def _enough(self, watch: Watch, kernel: str, took_s: float) -> bool:
        return took_s >= self.policy.max_time_s or judge.precise(self._timing(watch, took_s), kernel)

    def _timing(self, watch: Watch, took_s: float) -> Timing:
        policy = self.policy
        return Timing(policy, tuple(self.samples), tuple(watch.states), True, tuple(self.untraced), self.settled.warmed_ms,
                      took_s, self.empty_event_us)  # fmt: skip

    def _round(self, number: int, watch: Watch) -> None:
        watch.round = number
        watch.look()
        for timer in self.timers if number % 2 == 0 else self.timers[::-1]:
            for names in blocks(self.turns, self.in_turns, number):
                readings = self.device.time_calls(timer, [self.calls[name] for name in names], self.loop)
                self._keep(timer, number, names, readings)
        watch.look()

    def _keep(self, timer: str, number: int, names: list[str], readings: list[Reading]) -> None:
        kept = self.samples if timer == self.policy.timer else self.untraced
        for name, r in zip(names, readings, strict=True):
            at = round(r.at_us - self.first_us.setdefault(timer if timer == "wall" else "device", r.at_us), 3)
            kept.append(Sample(name, number, r.us, at, r.clock_mhz, r.busy_us, r.event_us))
        if timer in ("kernel", "proton"):
            for name in dict.fromkeys(names):
                traced = [r for n, r in zip(names, readings, strict=True) if n == name]
                kernels = (constant_kernels(traced, name), max(r.streams for r in traced))
                self._same_as_before(name, kernels)

    def _same_as_before(self, name: str, kernels: tuple[tuple[str, ...], int]) -> None:
        before = self.kernels.setdefault(name, kernels)
        if sorted(before[0]) != sorted(kernels[0]):
            raise FailedError(f"{name} launched {', '.join(before[0])} in one block and {', '.join(kernels[0])} in another")

    # ---------------------------------------------------------------------------------------- warm-up

    def _warm_up(self) -> None:
        self.progress("warming up")
        loop = replace(self.loop, gate=False)
        estimates = {name: self._estimate_us(call, loop) for name, call in self.calls.items()}
        window_calls = {name: _bounded(WINDOW_MS * 1e3 / sum(estimates.values())) for name in estimates}

        def window() -> dict[str, list[Reading]]:
            readings: dict[str, list[Reading]] = {name: [] for name in self.calls}
            end = self.device.seconds() + WINDOW_MS / 1e3
            while self.device.seconds() < end:
                for names in blocks(window_calls, self.in_turns, 0):
                    timed = self.device.time_calls(self._plain_timer(), [self.calls[name] for name in names], loop)
                    for name, reading in zip(names, timed, strict=True):
                        readings[name].append(reading)
            return readings

        self.settled = settle(window, self.policy.warmup_ms, self.policy.settle_s, self.device.seconds)
        estimates = {name: self._estimate_us(call, loop) for name, call in self.calls.items()}
        share = self.policy.block_ms * 1e3 / len(self.timers) / self.policy.calls
        self.turns = {name: _bounded(share / us) for name, us in estimates.items()}

    def _plain_timer(self) -> str:
        """The timer that disturbs least and runs the same loop."""
        return "graph" if self.policy.timer == "graph" else "event"

    def _cool_down(self) -> None:
        if self.policy.cooldown_s:
            self.device.sleep(self.policy.cooldown_s)
            self._warm_up()

    def _estimate_us(self, call: Call, loop: Loop) -> float:
        readings = self.device.time_calls(self._plain_timer(), [call] * ESTIMATE_CALLS, loop)
        return max(statistics.median(r.us for r in readings), 0.1)

    # ------------------------------------------------------------------------------------------ doubts

    def doubts(self) -> list[Status]:
        return [Status("NOT_SETTLED", self.settled.moving)] if self.settled.moving else []

    def gated_us(self, found: list[Status]) -> dict[str, float]:
        """Event intervals with the host's lag kept out, of the calls that a gate can hold."""
        syncing = {s.implementation for s in found if s.name == "SYNCS"}
        loop = replace(self.loop, gate=True)
        held = {name: call for name, call in self.calls.items() if name not in syncing}
        return {name: self._median_us(call, self.turns[name], loop) for name, call in held.items()}

    def _median_us(self, call: Call, count: int, loop: Loop) -> float:
        return statistics.median(r.us for r in self.device.time_calls("event", [call] * count, loop))


def _bounded(calls: float) -> int:
    low, high = CALLS_PER_BLOCK
    return math.ceil(min(max(calls, low), high))
