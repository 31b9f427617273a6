"""What must hold before a call can be timed at all, tried on the device."""

from __future__ import annotations

import statistics

from tirx_bench.device import Call, Device, Loop
from tirx_bench.model import Status, TimingPolicy

HIDDEN_US, HIDDEN_SHARE = 5.0, 0.05
COLD_FACTOR = 1.5  # DRAM takes about 2.3 times as long as L2 on an H200: 650 cycles against 280
PROBES = 5


def card_statuses(policy: TimingPolicy, device: Device) -> list[Status]:
    """Whether a cold cache is cold here, and whether somebody else uses the card."""
    found = []
    if policy.cache != "warm" and (warm_reason := unproven(policy.flush if policy.cache == "cold" else "read", device)):
        found.append(Status("COLD_UNPROVEN", warm_reason))
    if others := device.others():
        found.append(Status("SHARED", "; ".join(others)))
    return found


def unproven(flush: str, device: Device) -> str:
    """Why an eviction does not evict: dependent loads after it take hardly longer than before. Empty if they do."""
    device.load_cycles(flush)  # compiles, allocates
    before = statistics.median(device.load_cycles(None) for _ in range(PROBES))
    after = statistics.median(device.load_cycles(flush) for _ in range(PROBES))
    if after >= COLD_FACTOR * before:
        return ""
    return f"a dependent load takes {before:.0f} cycles from L2 and {after:.0f} after the flush ({flush})"


def call_statuses(name: str, call: Call, before: Call, device: Device) -> list[Status]:
    """Work that no event sees, and a host that waits. `before` restores what the call changes."""
    before()
    call()  # compiles, loads, tunes
    interval = statistics.median(r.us for r in device.time_calls("event", [call] * PROBES, Loop(before)))
    syncs = device.synchronizes(call, before)
    hidden = device.hidden_us(call, before, held=not syncs)
    if hidden > max(HIDDEN_US, HIDDEN_SHARE * interval):
        evidence = f"the device was busy for {hidden:.1f} us after the stop event of a call of {interval:.1f} us"
        return [Status("HIDDEN_WORK", evidence, name)]
    if syncs:
        return [Status("SYNCS", "the call did not return while a waiting kernel held its stream", name)]
    return []
