"""The frozen values that cross modules, and the errors. Standard library only.

Units are in the field names. A value that cannot be right does not construct: every `__post_init__`
below raises `UsageError` with what is wrong, so a kernel file fails when it is imported, not when it is used.
"""

from tirx_bench.model.artifact import Artifact, Resources
from tirx_bench.model.case import FailingCase
from tirx_bench.model.errors import FailedError, MissingError, NothingRanError, UsageError, WorkbenchError, unknown
from tirx_bench.model.finding import Finding, Place, Severity, failing
from tirx_bench.model.kernel import Baseline, Bound, Constraint, Kernel, Params, Value, Work, Workload, call
from tirx_bench.model.operation import Operation
from tirx_bench.model.policy import CACHES, FLUSHES, TIMERS, TimingPolicy
from tirx_bench.model.record import Deep, Peak, Record
from tirx_bench.model.simulation import Scheduled, Simulation
from tirx_bench.model.status import STATUSES, Status
from tirx_bench.model.timing import POWER_CAP, CardState, Sample, Timing
from tirx_bench.model.tolerance import BITS, ROUNDOFF, SMALLEST, RoundingBound, Shape, Tile, Tolerance, owner_of
from tirx_bench.model.verification import CONDITIONS, DEEP, FILLS, Attempt, Control, OutputCheck, Verification, VerifyPolicy

__all__ = [
    "Artifact",
    "Attempt",
    "BITS",
    "Baseline",
    "Bound",
    "CACHES",
    "CONDITIONS",
    "CardState",
    "Constraint",
    "Control",
    "DEEP",
    "Deep",
    "FILLS",
    "FLUSHES",
    "FailedError",
    "FailingCase",
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
    "ROUNDOFF",
    "Record",
    "Resources",
    "RoundingBound",
    "SMALLEST",
    "STATUSES",
    "Sample",
    "Scheduled",
    "Severity",
    "Shape",
    "Simulation",
    "Status",
    "TIMERS",
    "Tile",
    "Timing",
    "TimingPolicy",
    "Tolerance",
    "UsageError",
    "Value",
    "Verification",
    "VerifyPolicy",
    "Work",
    "WorkbenchError",
    "Workload",
    "call",
    "failing",
    "owner_of",
    "unknown",
]
