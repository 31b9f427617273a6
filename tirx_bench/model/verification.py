"""What was compared with the reference."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_bench.model.kernel import Shape, Tolerance


@dataclass(frozen=True)
class OutputCheck:
    """One output against its FP32 reference. Errors are over all elements.

    `worst_index` is where |y - r| exceeds its bound most. None: not finite, or not computed because of `problem`.
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
    tolerance: Tolerance
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.wrong_elements == 0 and not self.problem


@dataclass(frozen=True)
class Verification:
    """What was compared, from inputs of which seed and distributions (`fill`). `passed` is derived and never set.

    `seeds` seeds from `seed` on were tried; of a failure, `seed` is the one that failed. `repeats`: a second launch on the
    same inputs gave the same bits each time; None: not tried.
    """

    outputs: tuple[OutputCheck, ...]
    seed: int
    fill: str
    reference: str
    seeds: int = 1
    repeats: bool | None = None

    @property
    def passed(self) -> bool:
        return bool(self.outputs) and all(o.passed for o in self.outputs)
