"""A development workbench for TVM/TIRx GPU kernels.

A kernel file imports the values below; `bench` and `script` are what its `run_bench` and `__main__` call.
"""

from __future__ import annotations

from typing import Any

from tirx_bench.model import Baseline, Constraint, Kernel, RoundingBound, Tile, TimingPolicy, Tolerance, Work, Workload

__version__ = "0.1.0"
__all__ = [
    "Baseline", "Constraint", "Kernel", "RoundingBound", "Tile", "TimingPolicy", "Tolerance", "Work", "Workload",
    "bench", "script",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Late, so that a kernel file costs `list` nothing but the model.
    if name in ("bench", "script"):
        from tirx_bench import entry

        return getattr(entry, name)
    raise AttributeError(f"module 'tirx_bench' has no attribute {name!r}")
