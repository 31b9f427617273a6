"""What one run found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tirx_bench.model.artifact import Artifact
from tirx_bench.model.errors import UsageError
from tirx_bench.model.finding import Finding, failing
from tirx_bench.model.kernel import Work, Workload
from tirx_bench.model.operation import Operation
from tirx_bench.model.simulation import Simulation
from tirx_bench.model.status import STATUSES, Status
from tirx_bench.model.timing import Timing
from tirx_bench.model.verification import Verification


@dataclass(frozen=True)
class Peak:
    """The rates that a floor is computed from, and where they come from: a data sheet, or a run on this card."""

    source: str
    tflops: float
    tb_per_s: float

    def floor_us(self, work: Work) -> float:
        return max(work.flops / self.tflops / 1e6, work.bytes / self.tb_per_s / 1e6)


@dataclass(frozen=True)
class Deep:
    """What `verify --deep` adds: verifications of other shapes by label, and with every launch waited for.

    `problems` are shapes that could not be compiled or launched, by label.
    """

    shapes: Mapping[str, Verification] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    serial: Verification | None = None

    @property
    def passed(self) -> bool:
        found = [*self.shapes.values(), *([self.serial] if self.serial else [])]
        return not self.problems and all(v.passed for v in found)


@dataclass(frozen=True)
class Record:
    """What one run found out. The only thing that `store` writes.

    `noise_floor` is what an A/A run on this card with the same timer and cache policy showed, as a fraction of the time.
    """

    kernel: str
    workload: Workload
    command: str
    created: str
    work: Work | None
    theoretical: Peak | None
    artifact: Artifact
    instructions: Mapping[str, int]
    environment: Mapping[str, Any]
    lint: tuple[Finding, ...] = ()
    measured: Peak | None = None
    verification: Verification | None = None
    timing: Timing | None = None
    left_out: tuple[str, ...] = ()
    noise_floor: float | None = None
    statuses: tuple[Status, ...] = ()
    operations: tuple[Operation, ...] = ()
    deep: Deep | None = None
    sanitizer: tuple[Finding, ...] = ()
    simulation: Simulation | None = None

    def __post_init__(self) -> None:
        if self.timing and self.kernel not in self.timing.implementations:
            raise UsageError(f"the timing of {self.kernel} holds no sample of {self.kernel}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.lint + self.artifact.findings + self.sanitizer + (self.simulation.findings if self.simulation else ())

    def failed(self, strict: bool = False) -> bool:
        """An error-level finding (or a warning, when strict), a failed verification, or a kernel that must not be timed."""
        wrong = any(part is not None and not part.passed for part in (self.verification, self.deep, self.simulation))
        return failing(self.findings, strict) or wrong or "nothing is timed" in self.forbidden(self.kernel)

    def forbidden(self, *implementations: str) -> dict[str, Status]:
        """What the statuses take away from these implementations, and the first status that does."""
        taken: dict[str, Status] = {}
        for status in self.statuses:
            if status.implementation is None or status.implementation in implementations:
                taken.setdefault(STATUSES[status.name].forbids, status)
        return taken
