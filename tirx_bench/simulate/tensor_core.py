"""wgmma: what a warpgroup issues runs in order, later, and reads its operands from shared memory while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_bench.simulate.barriers import Waitable
from tirx_bench.simulate.layouts import assembled, operand_a
from tirx_bench.simulate.registers import Accumulators

if TYPE_CHECKING:
    from tirx_bench.simulate.machine import Block, Strand

FUSED = 8  # neighbouring wgmma on one accumulator that become one matrix product


@dataclass
class Wgmma:
    """One instruction of a warpgroup, as its four warps issue it."""

    key: tuple[Any, ...]  # what the four warps must agree on
    at: int
    number: int
    group: int
    n: int
    kind: Any  # numpy type of the operands
    negated: bool
    accumulate: bool
    first: int  # accumulator register
    accumulators: dict[int, Accumulators] = field(default_factory=dict)  # by warp of the group
    a_registers: dict[int, Any] = field(default_factory=dict)
    a_chunks: Any = None
    b_chunks: Any = None
    a_by_k: bool = False  # chunks run along M
    b_by_k: bool = False
    clock: Any = None
    done: bool = False

    @property
    def complete(self) -> bool:
        return len(self.accumulators) == 4


class Warpgroup(Waitable):
    """The wgmma of four warps of a block."""

    def __init__(self, block: Block, agent: int):
        self.block, self.agent = block, agent
        self.issued: dict[int, Wgmma] = {}
        self.done = 0

    def ready(self, upto: int) -> bool:
        """Whether all four warps have issued everything before `upto`."""
        return all(number in self.issued and self.issued[number].complete for number in range(self.done, upto))

    def run(self, upto: int) -> None:
        """Execute what was issued before `upto`, in order."""
        while self.done < upto:
            self._run(self._fusible(upto))
        self.changes += 1

    def _fusible(self, upto: int) -> list[Wgmma]:
        first = self.issued[self.done]
        run = [first]
        while self.done + len(run) < upto and len(run) < FUSED:
            following = self.issued[self.done + len(run)]
            same = following.first == first.first and following.accumulators.get(0) is first.accumulators[0]
            alike = (following.a_by_k, following.b_by_k, following.negated, following.n) == (
                first.a_by_k, first.b_by_k, first.negated, first.n
            )  # fmt: skip
            if not (following.complete and same and alike and following.accumulate and not following.a_registers):
                break
            run.append(following)
        return run if not first.a_registers else run[:1]

    def _run(self, run: list[Wgmma]) -> None:
        first = run[0]
        if first.a_registers:
            a = operand_a([first.a_registers[warp] for warp in range(4)], first.kind).astype(np.float32)
        else:
            a = self._operand([wgmma.a_chunks for wgmma in run], first.a_by_k, first.kind)
        if first.negated:
            a = -a  # before the sum: a zero that comes out of it is positive
        product = a @ self._operand([wgmma.b_chunks for wgmma in run], first.b_by_k, first.kind).T
        holders = [first.accumulators[warp] for warp in range(4)]
        half = holders[0].dtype != "float32"
        if first.accumulate:
            product = product + self._before(first, holders, half)
        tile = [product.astype(np.float16) if half else product, False]
        for holder in holders:
            holder.tiles[first.first] = tile
        for wgmma in run:
            wgmma.done = True
            del self.issued[wgmma.number]
        self.done += len(run)

    def _operand(self, chunks: list[Any], by_k: bool, kind: Any) -> Any:
        """(rows, K) in FP32. Chunks run along K, or, `by_k`, along the rows for each K."""
        memory = self.block.memory.chunks
        if by_k:
            columns = np.concatenate(chunks, 0)  # (K, rows / 8)
            return memory[columns].view(kind).reshape(len(columns), -1).T.astype(np.float32)
        rows = np.concatenate(chunks, 1)
        return memory[rows].view(kind).astype(np.float32)

    def _before(self, wgmma: Wgmma, holders: list[Accumulators], half: bool) -> Any:
        """The accumulator tile: the one that the last wgmma left, unless a register was written since."""
        tile = holders[0].tiles.get(wgmma.first)
        if tile is not None and not tile[1] and all(holder.tiles.get(wgmma.first) is tile for holder in holders):
            return tile[0]
        count = wgmma.n // 4 if half else wgmma.n // 2
        return assembled([holder.plain[wgmma.first : wgmma.first + count] for holder in holders], half)

    def waiting(self, strand: Strand) -> str:
        missing = [wgmma for wgmma in self.issued.values() if not wgmma.complete]
        if not missing:
            return "wgmma that the warpgroup has issued"
        return f"wgmma that {4 - len(missing[0].accumulators)} warps of the warpgroup have not issued"


@dataclass
class WarpWgmma:
    """How far one warp is: wgmma issued, the number of them at each commit, and the groups that it has waited for."""

    issued: int = 0
    commits: list[int] = field(default_factory=list)
    waited: int = 0
    wanted: int = 0  # wgmma that it waits for
