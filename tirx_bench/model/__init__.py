"""The frozen values that cross modules, and the errors. Standard library only.

Units are in the field names. A value that cannot be right does not construct: every `__post_init__`
below raises `UsageError` with what is wrong, so a kernel file fails when it is imported, not when it is used.
"""

from tirx_bench.model.artifact import Artifact, Resources
from tirx_bench.model.errors import FailedError, MissingError, NothingRanError, UsageError, WorkbenchError, unknown
from tirx_bench.model.finding import Finding, Place, Severity, failing
from tirx_bench.model.kernel import Baseline, Constraint, Kernel, Params, Shape, Tolerance, Value, Work, Workload, call
from tirx_bench.model.operation import Operation
from tirx_bench.model.policy import CACHES, FLUSHES, TIMERS, TimingPolicy
from tirx_bench.model.record import Peak, Record
from tirx_bench.model.status import STATUSES, Status
from tirx_bench.model.timing import POWER_CAP, CardState, Sample, Timing
from tirx_bench.model.verification import OutputCheck, Verification

__all__ = [
    "Artifact",
    "Baseline",
    "CACHES",
    "CardState",
    "Constraint",
    "FLUSHES",
    "FailedError",
    "Finding",
    "Kernel",
    "MissingError",
    "NothingRanError",
    "Operation",
    "OutputCheck",
    "POWER_CAP",
    "Params",
    "Peak",
    "Place",
    "Record",
    "Resources",
    "STATUSES",
    "Sample",
    "Severity",
    "Shape",
    "Status",
    "TIMERS",
    "Timing",
    "TimingPolicy",
    "Tolerance",
    "UsageError",
    "Value",
    "Verification",
    "Work",
    "WorkbenchError",
    "Workload",
    "call",
    "failing",
    "unknown",
]
