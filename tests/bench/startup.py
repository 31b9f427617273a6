"""How long a person waits at a terminal without a GPU. Medians of several runs, as JSON.

    python tests/bench/startup.py docs/measurements/startup.json

`list`: the reference kernels. `cached compile`: the artifact is there. `run`: lint, compile from nothing, one page; TVM and
the compilers have run before, so their files are in the page cache.
"""

import datetime
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tirx_bench.tools.environment import software

RUNS = 5
COMMAND = [sys.executable, "-m", "tirx_bench"]


def seconds(*argv, out):
    start = time.perf_counter()
    subprocess.run([*COMMAND, *argv, *(["--out", out] if out else [])], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure():
    with tempfile.TemporaryDirectory() as folder:
        seconds("compile", "gemm_relu", out=f"{folder}/cached")
        times = {
            "list": [seconds("list", out=None) for _ in range(RUNS)],
            "cached compile": [seconds("compile", "gemm_relu", out=f"{folder}/cached") for _ in range(RUNS)],
            "run": [seconds("run", "gemm_relu", out=f"{folder}/{n}") for n in range(RUNS)],
        }
    return {
        name: {"median_s": round(statistics.median(s), 3), "samples_s": [round(x, 3) for x in s]} for name, s in times.items()
    }


def processor():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    result = {
        "command": "python tests/bench/startup.py",
        "date": datetime.date.today().isoformat(),
        "processor": processor(),
        "software": software(),
        "times": measure(),
    }
    text = json.dumps(result, indent=1) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    print(json.dumps(result["times"], indent=1))
