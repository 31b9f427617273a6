"""The frozen values that cross modules, and the errors. Standard library only.

Units are in the field names. A value that cannot be right does not construct: every `__post_init__`
below raises `UsageError` with what is wrong, so a kernel file fails when it is imported, not when it is used.
"""

from tirx_bench.model.artifact import Artifact, Resources
from tirx_bench.model.errors import FailedError, MissingError, NothingRanError, UsageError, WorkbenchError, unknown
from tirx_bench.model.finding import Finding, Place, Severity, failing
from tirx_bench.model.kernel import Constraint, Kernel, Params, Shape, Tolerance, Value, Work, Workload, call
from tirx_bench.model.record import Peak, Record
from tirx_bench.model.timing import CACHES, TIMERS, RoundState, Sample, Timing, TimingPolicy
from tirx_bench.model.verification import OutputCheck, Verification

__all__ = [
    "Artifact",
    "CACHES",
    "Constraint",
    "FailedError",
    "Finding",
    "Kernel",
    "MissingError",
    "NothingRanError",
    "OutputCheck",
    "Params",
    "Peak",
    "Place",
    "Record",
    "Resources",
    "RoundState",
    "Sample",
    "Severity",
    "Shape",
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
