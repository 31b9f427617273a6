"""How to time."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_bench.model.errors import UsageError, unknown

# Each timer has one quantity; a verdict uses the chosen timer's and no other.
TIMERS = {
    "kernel": "kernel span: from the start of the first to the end of the last device activity of one call",
    "event": "CUDA event interval: stream time between two events around one call",
    "proton": "kernel sum: the device times of the kernels that one call launched, added up",
    "wall": "single-call latency: from the host call to the end of its device work, synchronised",
    "graph": "graph interval: stream time between two events around the replay of a CUDA graph that holds the call",
}
CACHES = {
    "cold": "L2 evicted before every call, outside the interval",
    "warm": "nothing evicted between calls",
    "rotate": "each call on the next of several copies with other values, enough of them that none is still in L2",
}
# A buffer that was only written leaves dirty lines, whose write-back the next kernel pays for: on an H200 a 64 MB read took
# 26.2 us after a fill of other memory, 19.9 us after a read of it and 20.1 us after a fill that was discarded.
FLUSHES = {"read": "by reading other memory", "discard": "by writing other memory and discarding the lines"}


@dataclass(frozen=True)
class TimingPolicy:
    """How to time.

    Rounds alternate the order of the implementations, two to a unit. From `rounds` rounds on, timing ends when every
    interval's half-width is below `precision` (a fraction), else after `max_rounds` rounds or `max_time_s` seconds; never
    because of what the ratio is. `block_ms` is the device time of one implementation in one round. The warm-up takes at
    least `warmup_ms` of device time and lasts until times and clock have settled, at most `settle_s` seconds.
    `calls` calls back to back make one sample, their mean. `gate` holds the device until the host has launched everything.
    Before each round `cooldown_s` seconds of idling, followed by a warm-up.
    """

    timer: str = "kernel"
    cache: str = "cold"
    flush: str = "read"
    calls: int = 1
    gate: bool = False
    precision: float = 0.005
    rounds: int = 16
    max_rounds: int = 80
    max_time_s: float = 60.0
    block_ms: float = 20.0
    warmup_ms: float = 200.0
    settle_s: float = 5.0
    cooldown_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind, name, known in (
            ("timer", self.timer, TIMERS),
            ("cache policy", self.cache, CACHES),
            ("flush", self.flush, FLUSHES),
        ):
            if name not in known:
                raise unknown(kind, name, known)
        if self.rounds < 1 or self.rounds > self.max_rounds:
            raise UsageError(f"a timing takes 1 round at least, and {self.rounds} to {self.max_rounds} rounds are none")
        if not 0 < self.precision < 1:
            raise UsageError(f"a precision of {self.precision:g} is not one", "such as 0.5%")
        if not min(self.block_ms, self.max_time_s) > 0 or not min(self.warmup_ms, self.settle_s, self.cooldown_s) >= 0:
            raise UsageError("a timing policy needs positive block_ms and max_time_s, and no negative time")
        if self.calls < 1 or (self.calls > 1 and self.timer not in ("event", "graph")):
            raise UsageError(f"{self.calls} calls in one interval need the timer event or graph, not {self.timer}")
        if self.calls > 1 and self.cache == "cold":
            raise UsageError("the second of several calls back to back finds the cache warm", "--cache warm or --cache rotate")
        if self.gate and self.timer != "event":
            raise UsageError(f"a gate says something about the event timer only, not {self.timer}", "--timer event --gate")
