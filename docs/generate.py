"""Write measured pages into the documents, from the data under docs/measurements.

    python docs/generate.py            # write
    python docs/generate.py --check    # exit 1 if a document is not what its data gives

A block is fenced text after a comment `<!-- show FILE -->` (a record's page) or
`<!-- simulation FILE -->`, or a table after `<!-- startup FILE -->`,
`<!-- crosscheck FILE -->`, `<!-- right FILE -->`, `<!-- wrong FILE -->` or `<!-- statuses -->`.
"""

import json
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from tirx_bench.model import STATUSES, Simulation
from tirx_bench.render import page, simulation_page
from tirx_bench.serial import from_plain
from tirx_bench.store import read_record

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "README.md",
    "docs/guide.md",
    "docs/measurement.md",
    "docs/verification.md",
    "docs/wrong_kernels.md",
    "docs/simulation.md",
)
SIMULATED = ROOT / "docs" / "measurements" / "simulated-wrong-kernels.json"
BLOCK = re.compile(
    r"(<!-- (show|simulation|startup|crosscheck|statuses|right|wrong)(?: (\S+))? -->\n)(?:```text\n.*?```|\|.*?(?=\n\n|\Z))",
    re.DOTALL,
)


def render(kind: str, name: str) -> str:
    if kind == "statuses":
        return table(["status", "what it means", "what it forbids"], ((n, m.text, m.forbids or "-") for n, m in STATUSES.items()))
    path = ROOT / name
    if kind == "show":
        return f"```text\n{page(read_record(path))}\n```"
    if kind == "simulation":
        return simulation(json.loads(path.read_text()))
    return {"startup": startup, "crosscheck": crosscheck, "right": right, "wrong": wrong}[kind](json.loads(path.read_text()))


def simulation(data: dict) -> str:
    """What `simulate` printed."""
    values = {name: value for name, value in data["simulation"].items() if name not in ("kernel", "passed", "findings")}
    found = from_plain(Simulation, values)
    command = data["command"].removesuffix(" --json")
    return f"```text\n$ {command}\n{simulation_page(data['simulation']['kernel'], found)}\n```"


def table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])


def startup(data: dict) -> str:
    where = f"median of {len(data['times']['list']['samples_s'])} on {data['processor']}, {data['date']}"
    return table(["command", where], ((f"`{name}`", f"{t['median_s']:.2f} s") for name, t in data["times"].items()))


def right(data: dict) -> str:
    """How near right kernels came to their bounds, and how many were rejected."""
    head = [f"{data['environment']['gpu']}, {data['date']}: {data['checks']} launches checked, {len(data['rejected'])} rejected",
            "largest error, of its bound"]  # fmt: skip
    return table(head, ((fill, f"{share:.3f}") for fill, share in data["largest_share_of_the_bound"].items()))


def wrong(data: dict) -> str:
    """Which detector saw which fault, the one that was named before the run first."""
    head = [f"{data['environment']['gpu']}, {data['date']}: fault", "named before", "seen by", "in the simulator"]
    rows, simulated = [], {k["name"]: k["faulty"] for k in json.loads(SIMULATED.read_text())["kernels"]}
    for k in sorted(data["kernels"], key=lambda k: (k["class"], k["name"])):
        tried = [name for name in k["faulty"] if not name.startswith("error")]
        nobody = "not tried" if k["faulty"] else "nobody" if k["observable"] else "unobservable"
        seen = ", ".join(sorted(tried, key=lambda name: name not in k["named"])) or nobody
        rows.append([f"`{k['name']}`: {k['fault']}", ", ".join(k["named"]), seen, in_simulator(simulated.get(k["name"]))])
    return table(head, rows)


def in_simulator(found: dict | None) -> str:
    """Its errors by rule, those of every schedule in bold; else whether the numbers were wrong."""
    if found is None:
        return "no kernel"
    if "error" in found:
        return found["error"]
    rules = [f"**{rule}**" if f["every_schedule"] else rule for rule, f in found["rules"].items() if f["severity"] == "error"]
    wrong = int(found["wrong_numbers"].split("/")[0])
    return ", ".join(rules) or ("numbers" if wrong else "nothing")


OTHERS = {  # ours: theirs
    "ours, event": ("tvm.tirx.bench, event", "nvbench, cold"),
    "ours, event, gate": ("nvbench, cold",),
    "ours, proton": ("tvm.tirx.bench, proton",),
    "ours, event, after a fill": ("tvm.tirx.bench, event",),
    "ours, proton, after a fill": ("tvm.tirx.bench, proton",),
    "ours, event, 200 calls warm": ("nvbench, batch",),
}


def crosscheck(data: dict) -> str:
    """Times over the turns with the mean SM clock where it is known, and ours over theirs, in cycles too where both are."""
    times = data["times_us"]
    cases = list(next(iter(times.values()))[0])
    rows = [[tool, *(cell(tool, turns, case) for case in cases)] for tool, turns in times.items()]
    for ours, others in OTHERS.items():
        for theirs in others:
            if ours in times and theirs in times:
                rows.append([f"{ours} / {theirs}", *(ratio(times, ours, theirs, case) for case in cases)])
    return table([f"{data['environment']['gpu']}, {data['date']}", *cases], rows)


def middle(turns: list, case: str, of: str) -> float | None:
    known = [turn[case][of] for turn in turns if turn[case][of]]
    return statistics.median(known) if known else None


def cell(tool: str, turns: list, case: str) -> str:
    """With the clock where it comes from the card's counters; the driver's is too coarse for sessions of 0.1 s."""
    clock = None if tool.startswith("tvm") else middle(turns, case, "mhz")
    return f"{middle(turns, case, 'us'):.2f} us" + (f" at {clock:.0f} MHz" if clock else "")


def ratio(times: dict, ours: str, theirs: str, case: str) -> str:
    """In cycles too against nvbench, which reads the card's counters as we do."""
    in_time = middle(times[ours], case, "us") / middle(times[theirs], case, "us")
    clocks = [middle(times[tool], case, "mhz") for tool in (ours, theirs)]
    in_cycles = f", in cycles {in_time * clocks[0] / clocks[1]:.3f}" if all(clocks) and theirs.startswith("nvbench") else ""
    return f"{in_time:.3f}{in_cycles}"


def generated(text: str) -> str:
    return BLOCK.sub(lambda match: match[1] + render(match[2], match[3]), text)


def main() -> int:
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        before = path.read_text()
        after = generated(before)
        if before != after:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(after)
    if stale and "--check" in sys.argv:
        print(f"not what the data gives: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
