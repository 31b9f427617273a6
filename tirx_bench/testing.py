"""For a kernel's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tirx_bench.model import Kernel


def assert_clean(kernel: Kernel | str | Path, workload: str | None = None, schedules: int = 3, **tunables: Any) -> None:
    """Simulate a kernel, a kernel's file or name, and raise `AssertionError` with the report unless it is right and clean.

    `workload` is a label or ``m=64,k=128`` (default: a small shape), `schedules` the number of seeded ones behind the fixed.
    Needs no GPU.
    """
    from tirx_bench.entry import file_spec
    from tirx_bench.pipeline import Job
    from tirx_bench.pipeline.simulating import Asked, simulate_job
    from tirx_bench.render import simulation_page

    spec = file_spec(kernel) if isinstance(kernel, Kernel) else str(kernel)
    job = Job(spec, workload, tunables=tuple(f"{name}={value}" for name, value in tunables.items()))
    name, found = simulate_job(job, Asked(seeds=schedules))
    if not found.passed:
        raise AssertionError("\n" + simulation_page(name, found))
