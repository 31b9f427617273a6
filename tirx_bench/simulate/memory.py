"""The memories of the machine: a block's shared memory and the tensors in global memory, each with its shadow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_bench.simulate.clocks import Domain
from tirx_bench.simulate.layouts import CHUNK
from tirx_bench.simulate.shadow import Shadow

RESERVED = 1024  # the driver keeps the first KiB of a block's shared memory on sm_90
RANK_SHIFT = 24  # of an address in a cluster's shared memory: one more than the rank of its block, above the offset
OFFSET = (1 << RANK_SHIFT) - 1


class SharedMemory:
    """A block's shared memory as bytes, not written to begin with (all ones: NaN in every float).

    `unit` is the granularity in bytes of what the kernel accesses with ordinary instructions, at most 16.
    """

    def __init__(self, domain: Domain, static_bytes: int, dynamic_bytes: int, unit: int, races: bool):
        self.static = RESERVED
        self.dynamic = RESERVED + static_bytes
        size = -(-(self.dynamic + dynamic_bytes) // CHUNK) * CHUNK
        self.bytes = np.full(size, 0xFF, np.uint8)
        self.chunks = self.bytes.view(np.complex128)  # 16 bytes each, for whole-chunk copies
        self.unit, self.per_chunk = unit, CHUNK // unit
        self.shadow = Shadow(domain, (size // CHUNK, self.per_chunk)) if races else None

    @property
    def size(self) -> int:
        return len(self.bytes)

    def elements(self, addresses: Any, size: int) -> Any:
        """The shadow's elements of accesses of `size` bytes, one row for each element of an access."""
        first = addresses // self.unit
        if size > self.unit:
            first = first + np.arange(size // self.unit)[:, None]
        return first // self.per_chunk, first % self.per_chunk


class Tensor:
    """An array in global memory, and how often the kernel stored each element."""

    def __init__(self, name: str, array: Any):
        self.name, self.array = name, array
        self.raw = array.reshape(-1).view(np.uint8)
        self.size = array.itemsize
        self.stored = np.zeros(array.size, np.uint8)
        self.shadow: Shadow | None = None  # of what the kernel writes


class Pointer:
    """An address in global memory: a byte offset, or one for each lane, into a tensor."""

    __slots__ = ("offset", "tensor")

    def __init__(self, tensor: Tensor, offset: Any):
        self.tensor, self.offset = tensor, offset


def moved(base: Any, offset: Any) -> Any:
    """`base` plus a byte offset; the base is a pointer or an address in shared memory."""
    return Pointer(base.tensor, base.offset + offset) if type(base) is Pointer else base + offset
