"""Every wrong kernel under tests/wrong_kernels on this machine's GPU: which detector sees it, and that the right variant passes.

    python tests/bench/wrong_kernels.py OUT.json [NAME...]

Each runs in processes of its own, several at a time, since many hang or fault. `numeric` and `repeat` come from `verify
--seeds 20`, `time-out` and `fault` from how it ended, `baseline` and the names of statuses from `bench --vs cheat`. What none
of these sees is compiled for `static` (a finding that the right variant does not have) and given to `collect sanitizer`. What
begins with "error" is no detector: the kernel was not tried.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "wrong_kernels"
SEEDS, TIMEOUT_S, AT_ONCE = "20", "20", 10


def kernels(names: list[str]) -> list[Path]:
    return [p for p in sorted(CORPUS.glob("*.py")) if not p.stem.startswith("parts_") and (not names or p.stem in names)]


def constants(path: Path) -> dict:
    """The upper-case names of a file of the corpus."""
    sys.path[:0] = [str(CORPUS)] if str(CORPUS) not in sys.path else []
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if name.isupper()}


def answer(command: str, path: Path, faulty: bool, *options: str) -> dict:
    """The JSON of a command on one variant."""
    argv = [sys.executable, "-m", "tirx_bench", *command.split(), str(path), "--param", f"faulty={str(faulty).lower()}",
            *options, "--out", "wrong-kernels", "--json"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": {"message": (done.stderr.strip().splitlines() or ["nothing"])[-1]}}


def seen(command: str, path: Path, faulty: bool) -> list[str]:
    if command == "bench":
        found = answer("bench", path, faulty, "--vs", "cheat", "--quick", "--timeout", TIMEOUT_S)
        return seen_in_bench(found) if "vs" in found or "left_out" in found else seen_in(found)
    return seen_in(answer("verify", path, faulty, "--seeds", SEEDS, "--timeout", TIMEOUT_S))


def seen_in(found: dict) -> list[str]:
    """The detectors that an answer of `verify --json` names."""
    if "error" in found:
        message = found["error"]["message"]
        for text, detector in (("did not return", "time-out"), ("a kernel faulted", "fault"), ("cannot be launched", "static")):
            if text in message:
                return [detector]
        return [f"error: {message}"]
    checks, names = found["verification"], []
    if any(o["wrong_elements"] or o["problem"] for o in checks["outputs"]):
        names.append("numeric")
    if any(c["outcome"] == "accepted" for c in checks["controls"]):
        names.append("error: the tolerance accepts a control")
    if checks["repeats"] is False:
        names.append("repeat")
    return names


def seen_in_bench(found: dict) -> list[str]:
    """Why `bench --vs cheat --json` gives no ratio: the kernel failed, the baseline was left out, or a status forbids it."""
    if found["verification"] and (names := seen_in(found)):
        return names
    about = [text for text in found["left_out"] if "cheat" in text]
    statuses = [s["name"] for s in found["statuses"] if s["implementation"] == "cheat"]
    named = [name for name in statuses if any(name in text for text in about)]
    return named or (["baseline"] if about else [])


def static(path: Path) -> list[str]:
    """Whether compiling says something about the faulty variant that it does not say about the right one."""
    rules = [
        {f["rule"] for f in [*found.get("lint", []), *found.get("artifact", {}).get("findings", [])]}
        for found in (answer("compile", path, faulty) for faulty in (True, False))
    ]
    return ["static"] if rules[0] - rules[1] else []


def sanitized(path: Path, faulty: bool) -> list[str]:
    """Whether compute-sanitizer reports an error or a warning: racecheck warns of lanes that race within their warp."""
    found = answer("collect sanitizer", path, faulty, "--timeout", "60")
    if "error" in found:
        return [f"error: {found['error']['message']}"]
    return ["sanitizer"] if any(f["severity"] != "note" for f in found["findings"]) else []


def tried(path: Path) -> dict:
    says = constants(path)
    command = "bench" if "def cheat(" in path.read_text() else "verify"  # a launch closure is a baseline
    faulty, right = seen(command, path, True), seen(command, path, False)
    if not faulty:
        faulty = static(path) + sanitized(path, True)
        right = right + (sanitized(path, False) if "sanitizer" in faulty else [])
    print(path.stem, faulty, right, flush=True)
    return {"name": path.stem, "class": says["CLASS"], "fault": says["FAULT"], "named": list(says["DETECTORS"]),
            "observable": says.get("OBSERVABLE", True), "faulty": faulty, "right": right}  # fmt: skip


def verdict(kernel: dict) -> str:
    if set(kernel["faulty"]) & set(kernel["named"]):
        return "caught"
    if [name for name in kernel["faulty"] if not name.startswith("error")]:
        return "caught by another detector"
    return "missed" if kernel["observable"] else "unobservable"


def main(argv: list[str]) -> int:
    from tirx_bench.device import absent
    from tirx_bench.device.cuda import CudaDevice
    from tirx_bench.tools.environment import software

    if reason := absent():
        print(reason, file=sys.stderr)
        return 3
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(tried, kernels(argv[1:])))
    head = {
        "command": "python tests/bench/wrong_kernels.py",
        "date": datetime.date.today().isoformat(),
        "environment": {**software(), **CudaDevice().describe()},
    }
    Path(argv[0]).write_text(json.dumps({**head, "seeds": int(SEEDS), "kernels": found}, indent=1) + "\n")
    for kind in ("caught", "caught by another detector", "missed", "unobservable"):
        names = [k["name"] for k in found if verdict(k) == kind]
        print(f"{len(names)} {kind}{'' if kind == 'caught' else f': {names}'}")
    rejected = [k["name"] for k in found if k["right"]]
    print(f"right ones rejected: {rejected}")
    return int(bool(rejected) or any(verdict(k) == "missed" for k in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
