"""Every wrong kernel under tests/wrong_kernels on this machine's GPU: which detector sees it, and that the right variant passes.

    python tests/bench/wrong_kernels.py OUT.json [--sanitizer] [NAME...]

Each runs in processes of its own, eight at a time, since many hang or fault. `numeric` and `repeat` come from
`verify --seeds 20`, `time-out` and `fault` from how it ended, `static` from what compiling found, `sanitizer` from
compute-sanitizer on `launch`. What begins with "error" is no detector: the kernel was not tried.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "wrong_kernels"
SEEDS, TIMEOUT_S, AT_ONCE = "20", "20", 8
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


def kernels(names: list[str]) -> list[Path]:
    return [p for p in sorted(CORPUS.glob("*.py")) if not p.stem.startswith("parts_") and (not names or p.stem in names)]


def tirx(*argv: str) -> list[str]:
    return [sys.executable, "-m", "tirx_bench", *argv, "--out", "wrong-kernels"]


def variant(faulty: bool) -> tuple[str, str]:
    return "--param", f"faulty={str(faulty).lower()}"


def verified(path: Path, faulty: bool) -> list[str]:
    argv = tirx("verify", str(path), *variant(faulty), "--seeds", SEEDS, "--timeout", TIMEOUT_S, "--json")
    done = subprocess.run(argv, capture_output=True, text=True)
    try:
        return seen_in(json.loads(done.stdout))
    except ValueError:
        return [f"error: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}"]


def seen_in(answer: dict) -> list[str]:
    """The detectors that an answer of `verify --json` names."""
    if "error" in answer:
        message = answer["error"]["message"]
        for text, detector in (("did not return", "time-out"), ("a kernel faulted", "fault"), ("cannot be launched", "static")):
            if text in message:
                return [detector]
        return [f"error: {message}"]
    checks, found = answer["verification"], []
    if any(f["severity"] == "error" for f in [*answer["lint"], *answer["artifact"]["findings"]]):
        found.append("static")
    if any(o["wrong_elements"] or o["problem"] for o in checks["outputs"]):
        found.append("numeric")
    if checks["repeats"] is False:
        found.append("repeat")
    return found


def sanitized(path: Path, faulty: bool) -> list[str]:
    """The tools of compute-sanitizer that report an error. A hang is ended after two minutes."""
    # Allocations of their own: torch's pools would hide an access that leaves one array for the next.
    found, environment = [], {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    for tool in TOOLS:
        launch = tirx("launch", str(path), *variant(faulty), "--timeout", "100")
        argv = ["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "77", *launch]
        try:
            if subprocess.run(argv, capture_output=True, timeout=120, env=environment).returncode == 77:
                found.append(f"sanitizer {tool}")
        except subprocess.TimeoutExpired:
            found.append(f"sanitizer {tool}: time-out")
    return found


def tried(path: Path, sanitizer: bool) -> dict:
    sides = {}
    for name, faulty in (("faulty", True), ("right", False)):
        sides[name] = verified(path, faulty) + (sanitized(path, faulty) if sanitizer else [])
    print(path.stem, sides, flush=True)
    return {"name": path.stem, **sides}


def main(argv: list[str]) -> int:
    from tirx_bench.device import absent
    from tirx_bench.tools.environment import software

    if reason := absent():
        print(reason, file=sys.stderr)
        return 3
    names = [a for a in argv[1:] if not a.startswith("--")]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda path: tried(path, "--sanitizer" in argv), kernels(names)))
    head = {
        "command": "python tests/bench/wrong_kernels.py",
        "date": datetime.date.today().isoformat(),
        "environment": software(),
    }
    Path(argv[0]).write_text(json.dumps({**head, "seeds": int(SEEDS), "kernels": found}, indent=1) + "\n")
    missed = [k["name"] for k in found if not k["faulty"]]
    rejected = [k["name"] for k in found if k["right"]]
    print(f"{len(found) - len(missed)} of {len(found)} caught; missed: {missed}; right ones rejected: {rejected}")
    return int(bool(missed or rejected))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
