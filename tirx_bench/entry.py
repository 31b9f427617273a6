"""What a kernel file calls: `bench` from its `run_bench`, `script` when the file is run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tirx_bench.model import Kernel, Record, TimingPolicy


def bench(kernel: Kernel, workload: str | None = None, policy: TimingPolicy | None = None, **options: Any) -> Record:
    """Do what ``tirx-bench run`` does for a kernel of a file and return the record, which is also written.

    `options` are `pipeline.Job`'s. Raises `WorkbenchError`.
    """
    import tvm  # noqa: F401  with its support of torch, which a command of ours does without

    from tirx_bench.pipeline import Job, run_job

    record, _ = run_job(Job(file_spec(kernel), workload=workload, policy=policy or TimingPolicy(), **options))
    return record


def file_spec(kernel: Kernel) -> str:
    """How the command line names a kernel of a file."""
    return f"{inspect.getfile(inspect.unwrap(kernel.build))}:{kernel.name}"


def script(run_bench: Callable[[], Record]) -> None:
    """Run a kernel file's `run_bench`, print its page, and exit as ``tirx-bench run`` does."""
    import sys

    from tirx_bench.cli import guarded
    from tirx_bench.render import page

    def show() -> int:
        record = run_bench()
        print(page(record))
        return int(record.failed())

    sys.exit(guarded(show, as_json=False))
