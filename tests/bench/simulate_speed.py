"""How long the simulator takes on this machine. Medians of several runs, as JSON.

python tests/bench/simulate_speed.py OUT.json
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RUNS = 3
SHAPES = {"256x512x256": (256, 512, 256, 4), "1024^3": (1024, 1024, 1024, 132)}


def simulator(m: int, n: int, k: int, sms: int) -> tuple[Any, dict[str, Any]]:
    """The reference GEMM, translated, and its arrays."""
    from tirx_bench.catalog import find
    from tirx_bench.compile import build_functions, compile_module, load_tvm
    from tirx_bench.device.fake import FakeDevice
    from tirx_bench.simulate import Simulator, snapshots
    from tirx_bench.tools import scoped_variable
    from tirx_bench.verify import prepare

    kernel = find("gemm").kernel
    params = {**kernel.params(kernel.workloads[0]), "m": m, "n": n, "k": k, "sms": sms}
    load_tvm()
    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):
        compile_module(build_functions(kernel, params), "sm_90a", (instrument,))
    return Simulator(modules), prepare(kernel, params, FakeDevice(), 0).buffers


def seconds(act: Any) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def told(samples: list[float]) -> dict[str, Any]:
    return {"median_s": round(statistics.median(samples), 3), "samples_s": [round(s, 3) for s in samples]}


def main(argv: list[str]) -> int:
    from tirx_bench.tools.environment import software

    times = {}
    for label, shape in SHAPES.items():
        made, arrays = simulator(*shape)
        for races in (True, False):
            name = f"{label}, {'with' if races else 'without'} races"
            times[name] = [seconds(lambda m=made, a=arrays, r=races: m.run(a, races=r)) for _ in range(RUNS)]
    command = [sys.executable, "-m", "tirx_bench", "simulate", "gemm"]
    times["simulate gemm"] = [seconds(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(RUNS)]
    data = {
        "command": "python tests/bench/simulate_speed.py", "date": datetime.date.today().isoformat(),
        "processor": platform.processor() or platform.machine(), "environment": software(),
        "times": {name: told(samples) for name, samples in times.items()},
    }  # fmt: skip
    Path(argv[0]).write_text(json.dumps(data, indent=1) + "\n")
    for name, found in data["times"].items():
        print(f"{name}: {found['median_s']} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
