"""The driver's view of one card; every answer is None where nvidia-ml-py is missing or the driver does not say."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from tirx_bench.model import POWER_CAP, CardState

# NVML's clocksEventReasons bits that mean the card was held back; nvml.h.
THROTTLE_BITS = {0x4: POWER_CAP, 0x8: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal",
                 0x80: "power brake"}  # fmt: skip
LOOK_EVERY_S = 0.05


class Nvml:
    """One card, found by its UUID."""

    def __init__(self, uuid: str):
        self.handle = None
        try:
            import pynvml
        except ImportError:
            return
        self.api = pynvml
        try:
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except pynvml.NVMLError:
            self.handle = None

    def ask(self, name: str, *arguments: Any) -> Any:
        if self.handle is None:
            return None
        try:
            return getattr(self.api, name)(self.handle, *arguments)
        except self.api.NVMLError:
            return None

    def describe(self) -> dict[str, Any]:
        limit = self.ask("nvmlDeviceGetEnforcedPowerLimit")
        driver = self.api.nvmlSystemGetDriverVersion() if self.handle is not None else None
        return {
            "driver": driver,
            "power_limit_w": None if limit is None else limit / 1000,
            "max_sm_clock_mhz": self.ask("nvmlDeviceGetMaxClockInfo", self.api.NVML_CLOCK_SM) if self.handle else None,
            "sm_clock_mhz": self._clock(),
            "temperature_c": self.ask("nvmlDeviceGetTemperature", 0),
            "ecc": (self.ask("nvmlDeviceGetEccMode") or [None])[0],
            "persistence": self.ask("nvmlDeviceGetPersistenceMode"),
            "mig": (self.ask("nvmlDeviceGetMigMode") or [None])[0],
        }

    def _clock(self) -> int | None:
        return None if self.handle is None else self.ask("nvmlDeviceGetClockInfo", self.api.NVML_CLOCK_SM)

    def state(self, round_number: int) -> CardState:
        power = self.ask("nvmlDeviceGetPowerUsage")
        bits = self.ask("nvmlDeviceGetCurrentClocksEventReasons") or 0
        return CardState(
            round=round_number,
            sm_clock_mhz=self._clock(),
            temperature_c=self.ask("nvmlDeviceGetTemperature", 0),
            power_w=None if power is None else power / 1000,
            throttle=tuple(name for bit, name in THROTTLE_BITS.items() if bits & bit),
        )

    def others(self) -> list[str]:
        """The processes on the card besides this one. In a container of its own a process may not know its own number,
        so one unknown process is taken for this one."""
        seen = {p.pid: p.usedGpuMemory for p in self.ask("nvmlDeviceGetComputeRunningProcesses") or []}
        if os.getpid() in seen or len(seen) == 1:
            seen.pop(os.getpid(), None) if os.getpid() in seen else seen.clear()
        return [f"process {pid} with {(memory or 0) / 1e6:.0f} MB" for pid, memory in sorted(seen.items())]

    @contextlib.contextmanager
    def watch(self) -> Iterator[Watching]:
        watching = Watching(self)
        thread = threading.Thread(target=watching.keep_looking, daemon=True)
        thread.start()
        try:
            yield watching
        finally:
            watching.ended.set()
            thread.join()


class Watching:
    """States of the card, taken every 50 ms by a thread and whenever asked."""

    def __init__(self, nvml: Nvml):
        self.nvml = nvml
        self.round = 0
        self.states: list[CardState] = []
        self.ended = threading.Event()

    def look(self) -> None:
        self.states.append(self.nvml.state(self.round))

    def keep_looking(self) -> None:
        while not self.ended.wait(LOOK_EVERY_S):
            self.look()
