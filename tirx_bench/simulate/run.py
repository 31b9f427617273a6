"""A kernel's launches under a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from tirx_bench.model import Finding
from tirx_bench.simulate.capture import KernelCall, kernel_calls
from tirx_bench.simulate.clocks import TooManyAgentsError
from tirx_bench.simulate.machine import Machine, Program
from tirx_bench.simulate.schedule import LATE, Schedule
from tirx_bench.simulate.translate import translate

LARGEST_CAPACITY = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """`visited` are the places reached in each launch, `phases` what the mbarriers completed."""

    findings: tuple[Finding, ...]
    choices: tuple[int, ...]
    visited: tuple[frozenset[int], ...]
    phases: Mapping[str, int]
    stored: Mapping[str, Any]  # how often each element of a tensor was stored, of the tensors that were


class Simulator:
    """A kernel translated once; `modules` are what `snapshots` of its compilation holds. `drop` leaves out one intrinsic.

    Raises `UnsupportedError` naming what nothing here models.
    """

    def __init__(self, modules: dict[str, Any], drop: int | None = None):
        self.launches: tuple[tuple[KernelCall, Program], ...] = tuple((c, translate(c, drop)) for c in kernel_calls(modules))

    @property
    def operations(self) -> list[str]:
        return [variant for _, program in self.launches for _, variant in program.operations]

    def run(self, arrays: Mapping[str, Any], schedule: Schedule = LATE, *, races: bool = True, strict: bool = False) -> Outcome:
        """Launch everything once on the arrays, by the names of the kernel's parameters; outputs are written in place."""
        found: list[Finding] = []
        choices: list[int] = []
        visited: list[frozenset[int]] = []
        phases: dict[str, int] = {}
        stored: dict[str, Any] = {}
        for call, program in self.launches:
            with threadpool_limits(1):  # matrices of one wgmma are too small for threads, which then wait for each other
                machine = self._launched(call, program, arrays, schedule, races, strict)
            found += machine.found.findings()
            choices += machine.chance.made
            visited.append(frozenset(machine.visited))
            phases |= machine.phases
            for name, tensor in machine.tensors.items():
                if tensor.stored.any():
                    stored[name] = tensor.stored + stored.get(name, 0)
        return Outcome(tuple(found), tuple(choices), tuple(visited), phases, stored)

    @staticmethod
    def _launched(
        call: KernelCall, program: Program, arrays: Mapping[str, Any], schedule: Schedule, races: bool, strict: bool
    ) -> Machine:
        before = {name: array.copy() for name, array in arrays.items() if name in program.written}
        capacity = None
        while True:
            machine = Machine(program, call, arrays, schedule, races=races, strict=strict, capacity=capacity)
            try:
                machine.run()
                return machine
            except TooManyAgentsError:
                capacity = 4 * machine.capacity
                if capacity > LARGEST_CAPACITY:
                    raise
                for name, array in before.items():
                    arrays[name][...] = array
