"""What the process that steps onto the GPU is asked, and what it answers. Both cross as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tirx_bench.model import Params, Peak, Timing, TimingPolicy, Verification, Workload

Action = Literal["verify", "bench", "launch", "self-test"]
SAME_CODE = "the same code again"  # the second name in an A/A run


@dataclass(frozen=True)
class Request:
    """`spec` finds the kernel in another process; `artifact` is the folder whose cubin is launched; `peaks` keeps peaks."""

    action: Action
    spec: str
    workload: Workload
    tunables: Params
    artifact: str
    policy: TimingPolicy
    peaks: str


@dataclass(frozen=True)
class Answer:
    """What was found out, as far as the action goes."""

    environment: Mapping[str, Any]
    verification: Verification | None = None
    timing: Timing | None = None
    measured: Peak | None = None
    left_out: tuple[str, ...] = field(default=())
