"""The warm-up: the timed loop itself, until its times and the card's clock stand still."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tirx_bench.device import Reading

WINDOW_MS = 100.0
WINDOWS = 3
STILL = 0.005  # the windows' medians, largest over smallest
STILL_CLOCK = 0.01
Window = dict[str, list[Reading]]


@dataclass(frozen=True)
class Settled:
    """The loop ran for `warmed_ms`. `moving` says what was not still at the end; empty if everything was."""

    warmed_ms: float
    moving: str


def settle(window: Callable[[], Window], warmup_ms: float, cap_s: float, seconds: Callable[[], float]) -> Settled:
    """Run windows for at least `warmup_ms` and until the last three are alike, at most `cap_s`.

    `window` runs the timed loop for about 100 ms and gives its readings by implementation. A `cap_s` of 0 asks for the
    time only, and then says that nobody looked.
    """
    start = seconds()
    kept: list[Window] = []
    while True:
        kept = [*kept, window()][-WINDOWS:]
        took = seconds() - start
        moving = still_moving(kept)
        if took * 1e3 >= warmup_ms and (not moving or took >= cap_s):
            return Settled(took * 1e3, moving if cap_s else "the warm-up was cut short and nobody looked")


def still_moving(windows: list[Window]) -> str:
    """What differs between the windows more than it may; empty if nothing does."""
    if len(windows) < WINDOWS:
        return f"{len(windows)} windows of {WINDOW_MS:g} ms are too few to tell"
    for name in windows[0]:
        medians = [statistics.median(r.us for r in window[name]) for window in windows]
        if min(medians) > 0 and (apart := max(medians) / min(medians) - 1) > STILL:  # a time of 0 is refused later
            return f"{name} moved by {apart:.1%} in the last {WINDOWS} windows"
    clocks = [_clock(window) for window in windows]
    known = [clock for clock in clocks if clock is not None]
    if known and (apart := max(known) / min(known) - 1) > STILL_CLOCK:
        return f"the SM clock moved by {apart:.1%} in the last {WINDOWS} windows"
    return ""


def _clock(window: Window) -> float | None:
    clocks = [r.clock_mhz for found in window.values() for r in found if r.clock_mhz is not None]
    return statistics.median(clocks) if clocks else None
