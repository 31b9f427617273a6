"""How to verify, and what was compared with the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tirx_bench.model.errors import UsageError, unknown
from tirx_bench.model.tolerance import RoundingBound, Shape, Tolerance

FILLS = ("normal", "uniform", "one-hot", "constant", "large", "tiny", "denormal", "non-finite")
# What a launch goes on under: alone, or with something that moves its timing. "serial": CUDA_LAUNCH_BLOCKING=1.
CONDITIONS = ("alone", "high-priority stream", "beside a copy", "beside a matmul", "serial")


@dataclass(frozen=True)
class VerifyPolicy:
    """`seeds` inputs of the first of `fills` and one of each other; `repeats` more launches of the first under each condition."""

    seeds: int = 2
    fills: tuple[str, ...] = FILLS[:1]
    conditions: tuple[str, ...] = CONDITIONS[:1]
    repeats: int = 1

    def __post_init__(self) -> None:
        for what, given, known in (("fill", self.fills, FILLS), ("condition", self.conditions, CONDITIONS)):
            if wrong := next((name for name in given if name not in known), None):
                raise unknown(what, wrong, known)
        if self.seeds < 1 or self.repeats < 1 or not self.fills or not self.conditions:
            raise UsageError(f"{self.seeds} seeds and {self.repeats} repeats verify nothing", "--seeds 1 or more")


DEEP = VerifyPolicy(seeds=5, fills=FILLS, conditions=CONDITIONS[:-1], repeats=20)


@dataclass(frozen=True)
class OutputCheck:
    """One output against its FP32 reference. Errors are over all elements.

    `worst_index` is where |y - r| exceeds its bound most, or comes nearest to it, `bound_share` what part of the bound the
    error there is, and `owner` who wrote that element. None: not finite, or not computed because of `problem`.
    """

    name: str
    shape: Shape
    dtype: str
    max_abs_error: float | None
    max_rel_error: float | None
    rms_rel_error: float | None
    worst_index: Shape
    worst_actual: float | None
    worst_expected: float | None
    wrong_elements: int
    tolerance: Tolerance | RoundingBound
    problem: str = ""
    bound_share: float | None = None
    owner: str = ""

    @property
    def passed(self) -> bool:
        return self.wrong_elements == 0 and not self.problem


@dataclass(frozen=True)
class Control:
    """A known wrong output and what the tolerance makes of it. `skipped`: this case cannot tell it from a right one."""

    name: str
    outcome: Literal["rejected", "accepted", "skipped"]
    reason: str = ""


@dataclass(frozen=True)
class Attempt:
    """Launches on one set of inputs that were all right. `bound_share`: the largest error as a part of its bound."""

    fill: str
    seed: int
    condition: str
    launches: int
    bound_share: float


@dataclass(frozen=True)
class Verification:
    """What was compared, from inputs of which seed and distributions (`fill`). `passed` is derived and never set.

    `tried` is everything that passed, and `skipped` what could not be tried and why; of a failure, `seed`, `kind` (one of
    `FILLS`) and `condition` are those that failed. `repeats`: every further launch on the same inputs gave the same bits;
    None: not tried.
    """

    outputs: tuple[OutputCheck, ...]
    seed: int
    fill: str
    reference: str
    repeats: bool | None = None
    kind: str = FILLS[0]
    condition: str = CONDITIONS[0]
    controls: tuple[Control, ...] = ()
    tried: tuple[Attempt, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.outputs) and all(o.passed for o in self.outputs) and not self.accepted

    @property
    def accepted(self) -> tuple[str, ...]:
        """The wrong outputs that the tolerance accepts, which makes a pass of the kernel's worthless."""
        return tuple(c.name for c in self.controls if c.outcome == "accepted")
