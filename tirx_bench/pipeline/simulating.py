"""A kernel in the simulator, on a small shape, under several schedules, against what `verify` compares with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tirx_bench.compile import build_functions, compile_module, load_tvm
from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import Kernel, MissingError, Scheduled, Simulation, Value, Verification, Workload, call
from tirx_bench.pipeline.plan import Job, Plan, Progress, plan, quiet
from tirx_bench.tools import scoped_variable
from tirx_bench.verify import Case, compare, prepare

if TYPE_CHECKING:
    from tirx_bench.simulate import Schedule, Simulator

SEEDS = 3
SHRINKING = 12  # more runs, at most, to find fewer choices that show the same


@dataclass(frozen=True)
class Asked:
    """How to simulate: so many seeded schedules, the strict fence rules, and the choices to replay instead of all of that."""

    seeds: int = SEEDS
    strict: bool = False
    choices: tuple[int, ...] | None = None


def simulate_job(job: Job, asked: Asked = Asked(), progress: Progress = quiet) -> tuple[str, Simulation]:
    """The kernel's name, and what every schedule showed. Raises `MissingError` naming what the simulator does not model."""
    return simulated(plan(job), asked, progress)


def simulated(planned: Plan, asked: Asked = Asked(), progress: Progress = quiet) -> tuple[str, Simulation]:
    workload, tunables = small_shape(planned)
    kernel = planned.kernel
    params = kernel.params(workload, tunables)
    progress("building")
    load_tvm()
    from tirx_bench.simulate import FIXED, Schedule, conformant, seeded

    simulator = _translated(kernel, params, planned.arch)
    device = FakeDevice()
    case = prepare(kernel, params, device, planned.job.policy.seed)
    schedules: Sequence[Schedule] = [*FIXED, *(seeded(number) for number in range(1, asked.seeds + 1))]
    if asked.choices is not None:
        schedules = [Schedule("the given choices", choices=asked.choices)]
    runs, verification, visited, phases = [], None, [set() for _ in simulator.launches], {}
    for number, schedule in enumerate(schedules, 1):
        progress(f"{schedule.name} ({number} of {len(schedules)})")
        run, found, outcome = _run(simulator, schedule, case, device, asked.strict)
        runs.append(_shrunk(run, simulator, case, device, asked.strict) if run.choices and not asked.choices else run)
        if verification is None or (verification.passed and not found.passed):
            verification = found
        for seen, more in zip(visited, outcome.visited, strict=True):
            seen |= more
        phases = {name: max(count, phases.get(name, 0)) for name, count in outcome.phases.items()} | {
            name: count for name, count in phases.items() if name not in outcome.phases
        }
    sites = [(program.sites, seen) for (_, program), seen in zip(simulator.launches, visited, strict=True)]
    return kernel.name, Simulation(
        workload, tunables, tuple(runs), verification, Counter(simulator.operations),
        tuple(sorted(conformant() & set(simulator.operations))), sum(len(s) for s, _ in sites),
        tuple(dict.fromkeys(str(site) for all_sites, seen in sites for n, site in enumerate(all_sites) if n not in seen)),
        tuple(name for name, count in phases.items() if count < 3),
    )  # fmt: skip


def small_shape(planned: Plan) -> tuple[Workload, dict[str, Value]]:
    """The shape to simulate: what was asked for by --workload and --param, else the kernel's own small one, else its smallest.

    A kernel's `small` names parameters and tunables; a tunable that was asked for stays.
    """
    kernel, job = planned.kernel, planned.job
    if job.workload is not None:
        return planned.workload, planned.tunables
    if not kernel.small:
        return min(kernel.workloads, key=lambda w: _elements(kernel, w, planned.tunables)), planned.tunables
    params = {name: kernel.small.get(name, value) for name, value in kernel.workloads[0].params.items()}
    tunables = {name: value for name, value in kernel.small.items() if name in kernel.tunables}
    asked = {name: value for name, value in planned.tunables.items() if value != kernel.tunables[name]}
    label = ",".join(f"{name}={value}" for name, value in params.items())
    workload, chosen = Workload(label, params), {**planned.tunables, **tunables, **asked}
    kernel.refuse(workload, chosen)
    return workload, chosen


def _elements(kernel: Kernel, workload: Workload, tunables: dict[str, Value]) -> int:
    shapes = call(kernel.outputs, kernel.params(workload, tunables)).values()
    return sum(_product(shape) for shape, _ in shapes)


def _product(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _translated(kernel: Kernel, params: Any, arch: str) -> Simulator:
    from tirx_bench.simulate import Simulator, UnsupportedError, snapshots

    if not arch.startswith("sm_90"):
        raise MissingError(f"the simulator runs code for sm_90a, not {arch}", "--arch sm_90a, if the kernel has it")
    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):  # no device compiler, also where there is a driver
        compile_module(build_functions(kernel, params), arch, (instrument,))
    try:
        return Simulator(modules)
    except UnsupportedError as error:
        raise MissingError(f"the simulator does not model {error}", "verify on a GPU") from error


def _run(
    simulator: Simulator, schedule: Schedule, case: Case, device: FakeDevice, strict: bool
) -> tuple[Scheduled, Verification, Any]:
    from tirx_bench.simulate import UnsupportedError

    case.poison(case.outputs, device)
    device.poison(case.workspace.values())
    case.reset()
    start = time.perf_counter()
    try:
        outcome = simulator.run(case.buffers, schedule, strict=strict)
    except UnsupportedError as error:
        raise MissingError(f"the simulator does not model {error}", "verify on a GPU") from error
    seconds = time.perf_counter() - start
    found = compare(case, case.outputs, device)
    return Scheduled(schedule.name, outcome.findings, found.passed, seconds, outcome.choices), found, outcome


def _shrunk(run: Scheduled, simulator: Simulator, case: Case, device: FakeDevice, strict: bool) -> Scheduled:
    """The shortest beginning of its choices, with the first choice everywhere behind it, that shows the same."""
    from tirx_bench.simulate import Schedule

    if run.passed and not run.findings:
        return replace(run, choices=())
    rules, low, high, best = {f.rule for f in run.findings}, 0, len(run.choices), run
    for _ in range(SHRINKING):
        if low >= high:
            break
        middle = (low + high) // 2
        tried, _, _ = _run(simulator, Schedule(run.schedule, choices=run.choices[:middle]), case, device, strict)
        if tried.passed == run.passed and rules <= {f.rule for f in tried.findings}:
            best, high = replace(tried, choices=run.choices[:middle]), middle
        else:
            low = middle + 1
    return best
