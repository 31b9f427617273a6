"""Every wrong kernel under tests/wrong_kernels in the simulator: what it finds in the faulty variant, and in the right one.

    python tests/bench/simulate_corpus.py OUT.json [NAME...]

Needs no GPU. Each variant runs in a process of its own, with a time limit, under the fixed schedules and a seeded one. Baselines
that cheat are not kernels and are left out.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from wrong_kernels import constants, kernels

LIMIT_S = 240


def simulated(path: Path, faulty: bool) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tirx_bench", "simulate", str(path), "--param", f"faulty={str(faulty).lower()}",
            "--schedules", "1", "--json"]  # fmt: skip
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": {"message": f"no answer within {LIMIT_S} s"}}
    except ValueError:
        return {"error": {"message": (done.stderr.strip().splitlines() or ["nothing"])[-1]}}


def seen(found: dict[str, Any]) -> dict[str, Any]:
    """Rules, with the lines of the author's file and whether every schedule showed it, and the schedules with wrong numbers."""
    if "error" in found:
        return {"error": found["error"]["message"]}
    rules: dict[str, Any] = {}
    for f in found["findings"]:
        place = f["place"] and f"{Path(f['place']['file']).name}:{f['place']['line']}"
        known = rules.setdefault(f["rule"], {"severity": f["severity"], "places": [], "every_schedule": False})
        known["places"] += [place] if place not in known["places"] else []
        known["every_schedule"] |= f["witness"][-1] == "under every schedule"
    wrong = [run["schedule"] for run in found["runs"] if not run["passed"]]
    return {"rules": rules, "wrong_numbers": f"{len(wrong)}/{len(found['runs'])}", "passed": found["passed"]}


def tried(path: Path) -> dict[str, Any]:
    says = constants(path)
    faulty, right = (seen(simulated(path, variant)) for variant in (True, False))
    print(path.stem, faulty, "" if right.get("passed") else right, flush=True)
    return {
        "name": path.stem,
        "class": says["CLASS"],
        "named": "simulator" in says["DETECTORS"],
        "faulty": faulty,
        "right": right,
    }


def main(argv: list[str]) -> int:
    from tirx_bench.tools.environment import software

    files = [p for p in kernels(argv[1:]) if "def cheat(" not in p.read_text()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(tried, files))
    head = {
        "command": "python tests/bench/simulate_corpus.py",
        "date": datetime.date.today().isoformat(),
        "environment": software(),
    }
    Path(argv[0]).write_text(json.dumps({**head, "kernels": found}, indent=1) + "\n")
    caught = [k["name"] for k in found if k["faulty"].get("passed") is False]
    missed = [k["name"] for k in found if k["named"] and k["name"] not in caught]
    rejected = [k["name"] for k in found if not k["right"].get("passed")]
    print(f"{len(caught)} of {len(found)} caught; named and missed: {missed}; right ones rejected: {rejected}")
    return int(bool(missed or rejected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
