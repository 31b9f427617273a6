"""Thread-local arrays of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_bench.simulate.layouts import fragments
from tirx_bench.simulate.values import FULL, WARP, Mask, spread, varies

if TYPE_CHECKING:
    from tirx_bench.simulate.tensor_core import Wgmma
    from tirx_bench.simulate.warp import Warp


class Registers:
    """An array of which every thread has its own. A value is a scalar while all lanes share it.

    What was stored under a mask is kept with it and with what it covers, so that code which runs under one mask all along,
    as an elected producer does, works on scalars.
    """

    def __init__(self, warp: Warp, name: str, size: int, dtype: str):
        self.warp, self.name, self.dtype = warp, name, dtype
        self.values: list[Any] = [None] * size
        self.masks: list[Mask] = [FULL] * size
        self.covered: list[Any] = [None] * size

    def load(self, index: Any, mask: Mask) -> Any:
        if varies(index):
            return self._gather(index, mask)
        value, held = self.values[index], self.masks[index]
        if value is None:
            self.warp.finding("uninitialised-register", f"{self.name}[{index}] is read before it is written")
            return 0
        return value if held is FULL or held is mask else self._flat(index)

    def store(self, index: Any, value: Any, mask: Mask) -> None:
        if varies(index):
            for lane in mask.lanes:
                one = np.zeros(WARP, bool)
                one[lane] = True
                self.store(int(index[lane]), value[lane] if varies(value) else value, Mask(one))
        elif mask is FULL:
            self.values[index], self.masks[index] = value, FULL
        elif self.masks[index] is mask:
            self.values[index] = value
        else:
            self.covered[index] = self.values[index] if self.masks[index] is FULL else self._flat(index)
            self.values[index], self.masks[index] = value, mask

    def _flat(self, index: int) -> Any:
        below = 0 if self.covered[index] is None else self.covered[index]
        return np.where(self.masks[index].bits, self.values[index], below)

    def _gather(self, index: Any, mask: Mask) -> Any:
        columns = {int(i): spread(self.load(int(i), mask)) for i in set(index[mask.bits].tolist())}
        some = next(iter(columns.values()))
        return np.array([columns.get(int(i), some)[lane] for lane, i in enumerate(index)])


class Accumulators(Registers):
    """Registers that a wgmma adds to.

    While wgmma follows wgmma, one tile for the whole warpgroup holds the values; a warp's registers are filled from it when
    something looks at them.
    """

    def __init__(self, warp: Warp, name: str, size: int, dtype: str):
        super().__init__(warp, name, size, dtype)
        self.plain = np.full((size, WARP), np.nan, np.float32 if dtype == "float32" else np.uint32)
        self.owner: list[int | None] = [None] * size  # the first register of the tile that an element belongs to
        self.tiles: dict[int, list[Any]] = {}  # first register: [the tile, whether registers were written since]
        self.pending: dict[int, Wgmma] = {}  # first register: the last wgmma on it
        self.behind: set[int] = set()  # tiles that are newer than the registers
        self.touched = True  # since the last wgmma.fence
        warp.accumulators.append(self)

    def issued(self, first: int, count: int, wgmma: Wgmma) -> None:
        if self.owner[first] != first:
            self.owner[first : first + count] = [first] * count
        self.pending[first] = wgmma
        self.behind.add(first)

    def load(self, index: Any, mask: Mask) -> Any:
        if varies(index):
            return self._gather(index, mask)
        self._settle(index, "read")
        return self.plain[index].copy()

    def store(self, index: Any, value: Any, mask: Mask) -> None:
        self._settle(index, "written")
        self.plain[index] = np.where(mask.bits, value, self.plain[index])
        if (first := self.owner[index]) in self.tiles:
            self.tiles[first][1] = True

    def _settle(self, index: int, how: str) -> None:
        self.touched = True
        if not self.behind and not self.pending:
            return
        first = self.owner[index]
        if first is None:
            return
        wgmma = self.pending.get(first)
        if wgmma is not None and wgmma.group >= self.warp.wgmma.waited:
            message = f"{self.name} is {how} before a wgmma.wait_group covers the wgmma that writes it"
            self.warp.finding("accumulator-in-flight", message, other=wgmma.at)
        if first in self.behind and (wgmma is None or wgmma.done):
            found = fragments(self.tiles[first][0])[self.warp.in_warpgroup]
            self.plain[first : first + len(found)] = found
            self.behind.discard(first)
