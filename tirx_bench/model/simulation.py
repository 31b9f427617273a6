"""What the simulator found out about a kernel on a small shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tirx_bench.model.finding import Finding, failing
from tirx_bench.model.kernel import Value, Workload
from tirx_bench.model.verification import Verification


@dataclass(frozen=True)
class Scheduled:
    """One run under one schedule. `choices` replay what chance decided; empty where nothing was left to it."""

    schedule: str
    findings: tuple[Finding, ...]
    passed: bool  # the numbers
    seconds: float
    choices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Simulation:
    """Every schedule's run on one shape, against the reference and tolerance that `verify` uses.

    `verification` is of the first run with wrong numbers, else of the first. `operations` counts the intrinsics of the code by
    variant, and `conformant` are those that gave the bits of the GPU. `unvisited` are statements that no run reached, and
    `unwrapped` mbarriers that completed fewer than three phases, so that a wrong parity may not have shown.
    """

    workload: Workload
    tunables: Mapping[str, Value]
    runs: tuple[Scheduled, ...]
    verification: Verification | None
    operations: Mapping[str, int] = field(default_factory=dict)
    conformant: tuple[str, ...] = ()
    statements: int = 0
    unvisited: tuple[str, ...] = ()
    unwrapped: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each once, with the schedules that showed it."""
        shown: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
        for run in self.runs:
            for f in run.findings:
                sides = tuple(line for line in f.witness if line.startswith("the other side"))
                told_by = f.message if f.rule == "deadlock" else sides
                shown.setdefault((f.rule, f.place, told_by), (f, []))[1].append(run.schedule)
        return tuple(_with_schedules(f, names, len(self.runs)) for f, names in shown.values())

    @property
    def passed(self) -> bool:
        return all(run.passed for run in self.runs) and not failing(self.findings)


def _with_schedules(finding: Finding, names: list[str], count: int) -> Finding:
    distinct = list(dict.fromkeys(names))
    where = "every schedule" if len(distinct) == count else ", ".join(distinct)
    return replace(finding, witness=(*finding.witness, f"under {where}"))
