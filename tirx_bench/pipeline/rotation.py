"""Copies of a problem with other values, used in turn, so that no call finds its data in L2."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tirx_bench.device import Call
from tirx_bench.model import UsageError

EVICTED_L2S = 2  # so many times the L2's size are touched before a copy comes round again
MOST_COPIES = 1000


def copies_needed(bytes_of_one: int, l2_bytes: int) -> int:
    """How many copies, so that between two uses of one the others are at least twice the L2's size.

    Raises `UsageError` when that takes more than 1000.
    """
    if bytes_of_one <= 0:
        raise UsageError("there is nothing to rotate: the operation has no inputs, outputs or workspace", "--cache cold")
    count = max(2, math.ceil(EVICTED_L2S * l2_bytes / bytes_of_one) + 1)
    if count > MOST_COPIES:
        raise UsageError(
            f"{count} copies of {bytes_of_one} bytes would be needed to fill L2 {EVICTED_L2S} times, more than {MOST_COPIES}",
            "--cache cold evicts before every call instead",
        )
    return count


class Rotation:
    """One turn for all implementations, because they share the copies: what one has read the next would find in L2."""

    def __init__(self, count: int):
        self.count = count
        self.at = -1

    def over(self, calls: Sequence[Call], ran: set[int]) -> Call:
        """A call that moves on to the next copy, runs there, and notes in `ran` which one it was."""

        def call() -> None:
            self.at = (self.at + 1) % self.count
            ran.add(self.at)
            calls[self.at]()

        return call

    @property
    def next(self) -> int:
        return (self.at + 1) % self.count


def whole_turns(calls: int, copies: int) -> int:
    """`calls`, rounded up so that a graph which holds them comes back to the copy that it began with."""
    return math.ceil(calls / copies) * copies
