"""A failed check that can be tried again."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_bench.model.kernel import Params, Workload
from tirx_bench.model.verification import VerifyPolicy


@dataclass(frozen=True)
class FailingCase:
    """What to compile and to launch so that `found` happens again: inputs come from their kind and seed."""

    spec: str
    workload: Workload
    tunables: Params
    arch: str
    compiler: str
    flags: tuple[str, ...]
    seed: int
    checks: VerifyPolicy
    found: str
