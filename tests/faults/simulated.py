"""Doubles for the faults: a card that the product's own timers and helpers run on, and a fake device that a trial can use.

The card is one stream that works in order, one side stream, a host clock and an L2, all in microseconds. Only launches and
waits move its clocks.
"""

from __future__ import annotations

import contextlib
import ctypes
import statistics
from collections import deque
from types import SimpleNamespace

import numpy as np

from tirx_bench.device import Loop
from tirx_bench.device.fake import FakeDevice
from tirx_bench.device.helpers import Helpers
from tirx_bench.device.timers import Timers

FLUSH_US, MISS_US, WRITE_BACK_US, STAMP_US, GATE_LIMIT_US = 100.0, 20.0, 6.0, 1.0, 200_000.0


class Card:
    """`kernel` makes calls; what is in `cached` answers faster, what is in `persisting` outlives an eviction."""

    def __init__(self):
        self.host_us = self.device_us = self.side_us = 0.0
        self.mhz = 1980.0
        self.tick_ns = 1  # the step of the clock that stamps read
        self.cached, self.persisting = set(), set()
        self.dirty = False  # L2 holds lines whose write-back the next kernel pays for
        self.flush_us = lambda: FLUSH_US
        self.queue = deque()
        self.gate = None

    def submit(self, work):
        self.queue.append(work)
        self.drain()

    def drain(self):
        while self.queue and self.open():
            self.device_us = max(self.device_us, self.host_us)
            self.queue.popleft()()

    def open(self):
        if self.gate and word(self.gate[0]).value >= self.gate[1]:
            self.gate = None
        return self.gate is None

    def synchronize(self):
        self.drain()
        if self.gate:  # the host waits for the device, which waits for the host
            self.host_us += GATE_LIMIT_US
            word(self.gate[2]).value = self.gate[1]
            self.gate = None
            self.drain()
        self.host_us = max(self.host_us, self.device_us, self.side_us)

    def takes(self, us):
        self.device_us += us

    def write(self, name):
        """A kernel of 0 us that leaves its output in L2."""
        return lambda: self.submit(lambda: self.cached.add(name))

    def evicts(self, dirty=False):
        def work():
            self.cached &= self.persisting
            self.dirty = dirty
            self.takes(self.flush_us())

        return work

    def kernel(self, us, *, host_us=0.0, reads="", side_us=0.0):
        """A call of `us` that the host takes `host_us` to launch; `side_us` more run on a stream that is not joined."""

        def work():
            missed = reads and reads not in self.cached
            self.takes(us + (MISS_US if missed else 0) + (WRITE_BACK_US if self.dirty else 0))
            self.dirty = False
            self.cached |= {reads} - {""}

        def call():
            self.host_us += host_us
            self.submit(work)
            if side_us:
                self.side_us = max(self.side_us, self.host_us) + side_us

        return call


def word(address):
    return ctypes.c_int32.from_address(address)


class Memory(np.ndarray):
    """What the timers and helpers ask of a torch tensor."""

    def data_ptr(self):
        return self.ctypes.data

    def numel(self):
        return self.size

    def cpu(self):
        return self

    pin_memory = cpu

    def zero_(self):
        self[...] = 0

    def fill_(self, value):
        self.card.submit(self.card.evicts(dirty=True))


class Torch:
    """The part of torch that the timers and helpers use, on a card that is simulated."""

    int32, int64, uint8 = "int32", "int64", "uint8"

    def __init__(self, card):
        class Event:
            def __init__(self, enable_timing=False):
                del enable_timing

            def record(self):
                card.submit(lambda: setattr(self, "at", card.device_us))

            def synchronize(self):
                card.drain()  # a gate that the host has opened lets go
                card.host_us = max(card.host_us, self.at)

            def elapsed_time(self, stop):
                return (stop.at - self.at) / 1e3

        properties = SimpleNamespace(multi_processor_count=132, L2_cache_size=4096, major=9, minor=0)
        self.card = card
        self.cuda = SimpleNamespace(
            Event=Event, current_device=lambda: 0, get_device_properties=lambda index: properties, synchronize=card.synchronize,
            current_stream=lambda: SimpleNamespace(cuda_stream=0),
        )  # fmt: skip

    def zeros(self, shape, dtype, device="cuda"):
        memory = np.zeros(shape, dtype).view(Memory)
        memory.card = self.card
        return memory


class SimulatedHelpers(Helpers):
    """The product's helpers; only the launches and the driver are simulated."""

    def _launch(self, name, blocks, threads, *values):
        card = self.torch.card

        def stamp():
            stamped = (ctypes.c_uint64 * 2).from_address(values[0])
            stamped[:] = [round(card.device_us * 1e3) // card.tick_ns * card.tick_ns, round(card.device_us * card.mhz)]
            card.takes(STAMP_US)

        def discard():
            card.dirty = False

        def gate():
            opened, turn, _, timed_out = values
            card.gate = (opened, turn, timed_out)

        card.submit({"stamp": stamp, "read_lines": card.evicts(), "discard_lines": discard, "gate": gate}[name])

    def forget_persisting(self):
        self.torch.card.persisting.clear()


def simulated_timers(monkeypatch, card):
    """The product's timers on the card, whose host clock is the only one."""
    torch = Torch(card)
    monkeypatch.setattr("tirx_bench.device.timers.time", SimpleNamespace(perf_counter=lambda: card.host_us / 1e6))
    return Timers(torch, SimulatedHelpers(torch), card.synchronize)


def median_us(timers, timer, call, count=5, before=lambda: None, **loop):
    return statistics.median(r.us for r in timers.time(timer, [call] * count, Loop(before, **loop)))


class TrialDevice(FakeDevice):
    """A fake device with what a trial of several implementations asks for besides."""

    l2_bytes = 180  # two arrays of 6 by 5 floats fill it 1.3 times

    def bytes_of(self, arrays):
        return sum(array.nbytes for array in arrays)

    def poison(self, arrays):
        for array in arrays:
            array[...] = self.poisoned(array.shape, str(array.dtype))

    @contextlib.contextmanager
    def workspace(self):
        yield SimpleNamespace(bytes=0)

    def libraries(self):
        return "numpy"
