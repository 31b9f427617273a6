"""What the process that steps onto the GPU is asked, and what it answers. Both cross as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tirx_bench.model import Operation, Params, Peak, Status, Timing, TimingPolicy, Verification, VerifyPolicy, Workload

Action = Literal["verify", "bench", "launch", "self-test", "versus", "first-call"]
SAME_CODE = "the same code again"  # the second name in an A/A run


@dataclass(frozen=True)
class Version:
    """Code to launch: `spec` finds the kernel in another process; `artifact` is the folder whose cubin is launched."""

    spec: str
    tunables: Params
    artifact: str


@dataclass(frozen=True)
class Request:
    """`old` is what a versus holds the version against, under the name `old_name`; `peaks` is where peaks are kept.

    `baselines`: a verify looks at them too.
    """

    action: Action
    version: Version
    workload: Workload
    policy: TimingPolicy
    peaks: str
    vs: str | None = None  # the only baseline to time
    old: Version | None = None
    old_name: str = ""
    checks: VerifyPolicy = VerifyPolicy()
    baselines: bool = False


@dataclass(frozen=True)
class Answer:
    """What was found out, as far as the action goes. `stages` are seconds."""

    environment: Mapping[str, Any]
    verification: Verification | None = None
    timing: Timing | None = None
    measured: Peak | None = None
    left_out: tuple[str, ...] = field(default=())
    statuses: tuple[Status, ...] = ()
    operations: tuple[Operation, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
