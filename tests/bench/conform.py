"""The conformance suite on this machine's GPU: the outputs that the simulator must give, as data.

python tests/bench/conform.py OUT.json [NAME...]     on a GPU: each case in a process of its own, with a time limit
python tests/bench/conform.py --check                no GPU: the simulator against the stored outputs, case by case
python tests/bench/conform.py --write                the same, and keeps which instructions conform
"""

from __future__ import annotations

import base64
import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
LIMIT_S, AT_ONCE = 60, 12
STORED = ROOT / "docs" / "measurements" / "h200-conformance.json"
CONFORMANT = ROOT / "tirx_bench" / "simulate" / "conformance.json"


def packed(array: Any) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def on_gpu(name: str) -> dict[str, str]:
    """The outputs of one case. Runs in a process of its own."""
    import numpy as np
    import torch
    import tvm
    from conformance.suite import all_cases

    from tirx_bench.compile import compile_module

    case = all_cases()[name]
    module = compile_module({"main": case.build()}, "sm_90a")
    arrays = case.arrays()
    held = {n: torch.from_numpy(a.view(np.uint8).reshape(-1).copy()).cuda() for n, a in arrays.items()}
    tensors = []
    for parameter in case.build().params:
        array = arrays[parameter.name]
        raw = held[parameter.name].view(getattr(torch, str(array.dtype)))
        tensors.append(tvm.runtime.from_dlpack(raw.reshape(array.shape)))
    module["main"](*tensors)
    torch.cuda.synchronize()
    return {n: packed(held[n].cpu().numpy()) for n in case.outputs}


def attempt(name: str) -> dict[str, Any]:
    argv = [sys.executable, __file__, "--one", name]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {LIMIT_S} s"}
    try:
        return {"outputs": json.loads(done.stdout.splitlines()[-1])}
    except (ValueError, IndexError):
        lines = done.stderr.strip().splitlines() or ["nothing"]
        return {"error": next((line for line in lines if "CUDA error" in line), lines[-1])[:300]}


def check(write: bool) -> int:
    """Every case in the simulator; the instructions of those that conform, less those of the ones that do not."""
    from conformance.suite import FAST_MATH, all_cases, simulated

    stored = json.loads(STORED.read_text())
    conforms: set[str] = set()
    differs: set[str] = set()
    wrong, counts = [], {"conform": 0, "trap": 0, "differ by fast math": 0, "not run on the GPU yet": 0}
    for name, case in all_cases().items():
        arrays, outcome, operations = simulated(case)
        if name in stored["failed"]:
            counts["trap"] += 1
            wrong += (
                [] if any(f.severity == "error" for f in outcome.findings) else [f"{name} traps on the GPU, and nothing is found"]
            )
        elif name not in stored["cases"]:
            counts["not run on the GPU yet"] += 1
        elif all(packed(arrays[output]) == bits for output, bits in stored["cases"][name].items()):
            counts["conform"] += 1
            conforms |= set(operations)
            wrong += [f"{name}: {f.rule}: {f.message}" for f in outcome.findings]
        elif name in FAST_MATH:
            counts["differ by fast math"] += 1
        else:
            wrong.append(f"{name}: other bits than the GPU's")
            differs |= set(operations)
    kept = (
        json.dumps({"measured": "docs/measurements/h200-conformance.json", "conformant": sorted(conforms - differs)}, indent=1)
        + "\n"
    )
    if write:
        CONFORMANT.write_text(kept)
    elif CONFORMANT.read_text() != kept:
        wrong.append(f"{CONFORMANT} is not what these cases give: --write")
    print(*wrong, ", ".join(f"{count} {what}" for what, count in counts.items()), sep="\n")
    return int(bool(wrong))


def main(argv: list[str]) -> int:
    from conformance.suite import all_cases

    if argv[0] in ("--check", "--write"):
        return check(argv[0] == "--write")
    if argv[0] == "--one":
        print(json.dumps(on_gpu(argv[1])))
        return 0
    from tirx_bench.device.cuda import CudaDevice
    from tirx_bench.tools.environment import software

    names = argv[1:] or list(all_cases())
    with concurrent.futures.ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        found = dict(zip(names, pool.map(attempt, names), strict=True))
    failed = {name: answer["error"] for name, answer in found.items() if "error" in answer}
    data = {
        "command": "python tests/bench/conform.py",
        "date": datetime.date.today().isoformat(),
        "environment": {**software(), **CudaDevice().describe()},
        "cases": {name: answer["outputs"] for name, answer in found.items() if "outputs" in answer},
        "failed": failed,
    }
    Path(argv[0]).write_text(json.dumps(data, indent=1) + "\n")
    for name, error in failed.items():
        print(f"{name}: {error}")
    print(f"{len(names) - len(failed)} of {len(names)} cases gave outputs")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
