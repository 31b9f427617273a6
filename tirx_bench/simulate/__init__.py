"""Hopper kernels on the CPU: their numbers, deadlocks and races, from the device code that TVM generates."""

from tirx_bench.simulate.capture import UnsupportedError, snapshots
from tirx_bench.simulate.conformance import conformant
from tirx_bench.simulate.run import Outcome, Simulator
from tirx_bench.simulate.schedule import FIXED, LATE, Schedule, seeded

__all__ = ["FIXED", "LATE", "Outcome", "Schedule", "Simulator", "UnsupportedError", "conformant", "seeded", "snapshots"]
