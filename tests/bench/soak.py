"""Right kernels in many configurations and schedules: every finding is a false alarm, or a bug in a kernel.

    python tests/bench/soak.py OUT.json [RUNS]

Shapes, tunables, dtypes and seeds are drawn; each kernel is translated once, and runs under the fixed schedules and four seeded.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

SCHEDULES = 8  # of each configuration: the four fixed ones and as many seeded


def drawn(number: int) -> tuple[Any, dict[str, Any]]:
    """A kernel, and parameters and tunables that it accepts."""
    from tirx_bench.catalog import find

    chance = random.Random(number)
    while True:
        bn = chance.choice([64, 128, 192, 256])
        params = {
            "m": chance.choice([1, 64, 100, 128, 129, 200, 256, 300]),
            "n": 8 * chance.randint(1, 2 * bn // 8),
            "k": 64 * chance.randint(1, 7) - 8 * chance.randint(0, 7),
            "dtype": chance.choice(["bfloat16", "float16"]),
            "bn": bn,
            "stages": chance.randint(2, 8),
            "group": chance.choice([1, 2, 8]),
            "sms": chance.choice([1, 1, 2, 4]),
        }
        kernel = find(chance.choice(["gemm", "gemm_relu"])).kernel
        if all(constraint.holds(params) for constraint in kernel.constraints):
            return kernel, params


def soaked(number: int) -> dict[str, Any]:
    """What one configuration showed under all schedules."""
    from tirx_bench.compile import build_functions, compile_module, load_tvm
    from tirx_bench.device.fake import FakeDevice
    from tirx_bench.simulate import FIXED, Simulator, seeded, snapshots
    from tirx_bench.tools import scoped_variable
    from tirx_bench.verify import compare, prepare

    kernel, params = drawn(number)
    device = FakeDevice()
    load_tvm()
    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):
        compile_module(build_functions(kernel, params), "sm_90a", (instrument,))
    simulator, case = Simulator(modules), prepare(kernel, params, device, number)
    alarms, wrong = [], 0
    for schedule in (*FIXED, *(seeded(number * 10 + n) for n in range(SCHEDULES - len(FIXED)))):
        case.poison(case.outputs, device)
        outcome = simulator.run(case.buffers, schedule)
        alarms += [f"{schedule.name}: {f.rule}: {f.message}" for f in outcome.findings]
        wrong += not all(o.passed for o in compare(case, case.outputs, device).outputs)
    return {"kernel": kernel.name, "params": params, "alarms": alarms, "wrong": wrong}


def main(argv: list[str]) -> int:
    from tirx_bench.tools.environment import software

    runs = int(argv[1]) if len(argv) > 1 else 1000
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(soaked, range(-(-runs // SCHEDULES))))
    alarmed = [f for f in found if f["alarms"] or f["wrong"]]
    data = {
        "command": "python tests/bench/soak.py", "date": datetime.date.today().isoformat(), "environment": software(),
        "configurations": len(found), "runs": len(found) * SCHEDULES, "alarmed": alarmed,
    }  # fmt: skip
    Path(argv[0]).write_text(json.dumps(data, indent=1) + "\n")
    print(f"{data['runs']} runs of {len(found)} configurations, {len(alarmed)} configurations with findings or wrong numbers")
    for f in alarmed:
        print(f"    {f['kernel']} {f['params']}: {f['alarms'][:2]} {f['wrong']} wrong")
    return int(bool(alarmed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
