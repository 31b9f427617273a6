"""The reference kernels on many inputs and shapes on this machine's GPU: how often verification rejects a right kernel.

    python tests/bench/right_kernels.py OUT.json

A check is one launch held against the reference, with all that `verify` looks at. The largest error is kept by kind of inputs.
"""

from __future__ import annotations

import datetime
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

KERNELS = ("gemm", "gemm_relu", "warp_roles")
LABELS = {"4096", "512", "4096-fp16", "1000x1032x520", "256", "1M"}
SEEDS = 8


@dataclass
class Tally:
    checks: int = 0
    rejected: list[str] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, found) -> None:
        self.checks += sum(a.launches for a in found.tried)
        if not found.passed:
            self.rejected.append(f"{what}: {found.fill}, seed {found.seed}: {found.outputs} {found.accepted}")
        for a in found.tried:
            self.shares[a.fill] = max(self.shares.get(a.fill, 0.0), a.bound_share)


def check(planned, device, tally: Tally) -> None:
    """Every kind of inputs of a problem with every seed."""
    from tirx_bench.model import FILLS, NothingRanError, VerifyPolicy
    from tirx_bench.pipeline.loading import load_version
    from tirx_bench.pipeline.plan import quiet
    from tirx_bench.pipeline.steps import launchable, version_of
    from tirx_bench.verify import prepare, verify

    record = launchable(planned, quiet)
    loaded = load_version(version_of(record, planned), planned.workload, device)
    began = time.perf_counter()
    for kind in FILLS:
        for seed in range(SEEDS):
            try:
                case = prepare(loaded.kernel, loaded.params, device, seed, kind)
            except NothingRanError:
                break
            policy = VerifyPolicy(seeds=1, fills=(kind,))
            tally.add(f"{planned.kernel.name} {planned.workload.label}",
                      verify(case, lambda buffers: loaded.bind(buffers)(), device, policy))  # fmt: skip
    tally.seconds[f"{planned.kernel.name} {planned.workload.label}"] = round(time.perf_counter() - began, 2)


def main(argv: list[str]) -> int:
    from tirx_bench.device import absent
    from tirx_bench.device.cuda import CudaDevice
    from tirx_bench.pipeline.plan import Job, plan
    from tirx_bench.tools.environment import software
    from tirx_bench.verify.shapes import boundary_workloads

    if reason := absent():
        print(reason, file=sys.stderr)
        return 3
    device, tally = CudaDevice(), Tally()
    for name in KERNELS:
        kernel = plan(Job(name)).kernel
        at_boundaries = boundary_workloads(kernel, kernel.workloads[0], {})[-3:]
        labels = [w.label for w in [*(w for w in kernel.workloads if w.label in LABELS), *at_boundaries]]
        for label in labels:
            check(plan(Job(name, workload=label)), device, tally)
    head = {
        "command": "python tests/bench/right_kernels.py",
        "date": datetime.date.today().isoformat(),
        "environment": {**software(), **device.describe()},
    }
    found = {
        "checks": tally.checks,
        "rejected": tally.rejected,
        "largest_share_of_the_bound": tally.shares,
        "seconds": tally.seconds,
    }
    Path(argv[0]).write_text(json.dumps({**head, **found}, indent=1) + "\n")
    print(f"{tally.checks} checks, {len(tally.rejected)} rejected; {tally.shares}")
    return int(bool(tally.rejected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
