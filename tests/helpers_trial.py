"""What a GPU process works on: a card made of numpy, a short policy and a request."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import FailedError, TimingPolicy, Workload
from tirx_bench.pipeline.request import Request, Version


class Card(FakeDevice):
    """The rest of what a CUDA device has. `hides` and `waits` are set by the calls that do."""

    name, uuid, capability = "no card of the table", "GPU-1", "90"
    l2_bytes = 600

    def __init__(self):
        super().__init__()
        self.hides, self.waits, self.replaying = 0.0, False, False

    def describe(self):
        return {"gpu": self.name, "gpu_uuid": self.uuid}

    def bytes_of(self, arrays):
        return sum(array.nbytes for array in arrays)

    @contextlib.contextmanager
    def workspace(self):
        yield SimpleNamespace(bytes=4096)

    def libraries(self):
        return "numpy"

    def launched(self, call, before):
        before()
        self.hides = 0.0
        call()
        if self.hides:
            raise FailedError("call 0 has hidden work that had not ended")
        return ("a trace's kernel",), 1

    def hidden_us(self, call, before, held):
        self.hides = 0.0
        before()
        call()
        return self.hides

    def synchronizes(self, call, before):
        self.waits = False
        before()
        call()
        return self.waits

    def capture(self, call, calls):
        call()  # as on a card, where a first call may allocate
        replay = super().capture(call, calls)

        def replayed():
            self.replaying = True
            replay()
            self.replaying = False

        return replayed

    def copy_us(self, size):
        return [100.0] * 3

    def matmul_us(self, size, dtype):
        return [100.0] * 3


def policy(**changes):
    short = {"timer": "event", "warmup_ms": 0, "settle_s": 0, "block_ms": 0.05, "rounds": 2, "max_rounds": 2}
    return TimingPolicy(**{**short, **changes})


def request(how=None, action="bench", peaks="/dev/null", **changes):
    return Request(action, Version("add", {}, "/build"), Workload("small", {}), how or policy(), peaks, **changes)
