"""What a launch goes on under, so that a race that quiet hides comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tirx_bench.device import Call
from tirx_bench.model import UsageError
from tirx_bench.tools import launches_block

DISTURBANCES = 20  # pieces of other work, some milliseconds in all: they outlast a launch
COPY_BYTES = 1 << 26
MATMUL_SIZE = 2048


@contextlib.contextmanager
def under(torch: Any, condition: str) -> Iterator[Call]:
    """The current stream is a new one of the priority that the condition asks for. See `Device.under`."""
    if (condition == "serial") != launches_block():
        raise UsageError(f"launches of this process {'wait' if launches_block() else 'do not wait'} for the device",
                         "CUDA_LAUNCH_BLOCKING=1 is for the condition 'serial' only")  # fmt: skip
    disturb = _disturbance(torch, condition)
    torch.cuda.synchronize()
    # The priorities of CUDA: -1 is above the default 0. Disturbed launches are to wait for room, so theirs is the lower.
    with torch.cuda.stream(torch.cuda.Stream(priority=-1 if condition == "high-priority stream" else 0)):
        yield disturb
        torch.cuda.synchronize()


def _disturbance(torch: Any, condition: str) -> Call:
    if not condition.startswith("beside"):
        return lambda: None
    work = _copy(torch) if condition == "beside a copy" else _matmul(torch)
    stream = torch.cuda.Stream(priority=-1)

    def start() -> None:
        with torch.cuda.stream(stream):
            for _ in range(DISTURBANCES):
                work()

    return start


def _copy(torch: Any) -> Callable[[], Any]:
    source, target = (torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    return lambda: target.copy_(source)


def _matmul(torch: Any) -> Callable[[], Any]:
    a, out = (torch.zeros((MATMUL_SIZE, MATMUL_SIZE), dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return lambda: torch.mm(a, a, out=out)
