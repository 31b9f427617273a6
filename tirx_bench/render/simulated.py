"""A simulation in text."""

from __future__ import annotations

from collections.abc import Mapping

from tirx_bench.model import Simulation
from tirx_bench.render.findings import findings
from tirx_bench.render.rows import row
from tirx_bench.render.verified import check


def simulated(found: Simulation | None) -> list[str]:
    """One row of a record's page: passed or not, on what, and everything that was found."""
    if found is None:
        return []
    said = findings(found.findings)
    wrong = [check(o) for o in found.verification.outputs if not o.passed] if found.verification else []
    return [row("simulation", "\n".join([_head(found), *wrong, *([said] if said else [])]))]


def simulation_page(kernel: str, found: Simulation, explain: bool = False) -> str:
    """What `simulate` prints."""
    params = " ".join(f"{name}={value}" for name, value in {**found.workload.params, **found.tunables}.items())
    checks = "\n".join(check(o) for o in found.verification.outputs) if found.verification else "not reached"
    rows = [f"{kernel}: {params} (simulated)", "", row("simulation", _head(found)), row("numbers", checks)]
    rows.append(row("findings", findings(found.findings) or "none"))
    rows.append(row("visited", _visited(found, explain)))
    if explain:
        rows.append(
            row(
                "schedules",
                "\n".join(f"{run.schedule}: {_outcome(run.passed, run.findings)}, {run.seconds:.2f} s" for run in found.runs),
            )
        )
        rows.append(row("operations", "\n".join(f"{count} {name}" for name, count in sorted(found.operations.items()))))
    if replays := [run for run in found.runs if run.choices]:
        choices = ",".join(map(str, replays[0].choices))
        rows.append(row("replay", f"{replays[0].schedule}: --replay {choices or '0'}"))
    return "\n".join(rows)


def _head(found: Simulation) -> str:
    verdict = "passed" if found.passed else "FAILED"
    seconds = sum(run.seconds for run in found.runs)
    shape, schedules = found.workload.label, f"{len(found.runs)} schedules in {seconds:.1f} s"
    return f"{verdict}: {shape}, {schedules}; {_conformance(found.operations, found.conformant)}"


def _conformance(operations: Mapping[str, int], conformant: tuple[str, ...]) -> str:
    known = sum(name in conformant for name in operations)
    return f"ops used: {known} conformant on H200, {len(operations) - known} unverified"


def _outcome(passed: bool, found: object) -> str:
    return f"{'right' if passed else 'wrong'} numbers, {len(found) if isinstance(found, tuple) else 0} findings"


def _visited(found: Simulation, explain: bool) -> str:
    lines = [f"{found.statements - len(found.unvisited)} of {found.statements} places in the code"]
    if explain:
        lines += [f"  not: {place}" for place in found.unvisited]
    if found.unwrapped:
        lines.append(f"fewer than three phases of {', '.join(found.unwrapped)}: a wrong parity may not have shown")
    return "\n".join(lines)
