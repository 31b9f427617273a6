"""A kernel in the simulator, on a small shape, under several schedules, against what `verify` compares with."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tirx_bench.compile import build_functions, compile_module, load_tvm
from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import (
    Finding,
    Kernel,
    MissingError,
    Scheduled,
    Severity,
    Shape,
    Simulation,
    Value,
    Verification,
    Workload,
    call,
)
from tirx_bench.pipeline.plan import Job, Plan, Progress, plan, quiet
from tirx_bench.tools import scoped_variable
from tirx_bench.verify import Case, compare, prepare

if TYPE_CHECKING:
    from tirx_bench.simulate import Outcome, Schedule, Simulator

DEVICE = FakeDevice()  # arrays of numpy
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
    """As `simulate_job`, of a plan."""
    workload, tunables = small_shape(planned)
    kernel = planned.kernel
    params = kernel.params(workload, tunables)
    progress("building")
    load_tvm()
    from tirx_bench.simulate import conformant

    trial = _Trial(
        _translated(kernel, params, planned.arch), prepare(kernel, params, DEVICE, planned.job.policy.seed), asked.strict
    )
    schedules = _schedules(asked)
    runs = []
    for number, schedule in enumerate(schedules, 1):
        progress(f"{schedule.name} ({number} of {len(schedules)})")
        run = trial.run(schedule)
        runs.append(trial.shrunk(run) if run.choices and not asked.choices else run)
    operations = trial.simulator.operations
    return kernel.name, Simulation(
        workload, tunables, tuple(runs), trial.verification, Counter(operations),
        tuple(sorted(conformant() & set(operations))), *trial.coverage(),
    )  # fmt: skip


def _schedules(asked: Asked) -> Sequence[Schedule]:
    from tirx_bench.simulate import FIXED, Schedule, seeded

    if asked.choices is not None:
        return [Schedule("the given choices", choices=asked.choices)]
    return [*FIXED, *(seeded(number) for number in range(1, asked.seeds + 1))]


class _Trial:
    """Runs of one kernel on one case, and what they add up to."""

    def __init__(self, simulator: Simulator, case: Case, strict: bool):
        self.simulator, self.case, self.strict = simulator, case, strict
        self.verification: Verification | None = None  # of the first run with wrong numbers, else of the first
        self.visited: list[set[int]] = [set() for _ in simulator.launches]
        self.phases: dict[str, int] = {}

    def run(self, schedule: Schedule) -> Scheduled:
        from tirx_bench.simulate import UnsupportedError

        self.case.poison(self.case.outputs, DEVICE)
        DEVICE.poison(self.case.workspace.values())
        self.case.reset()
        start = time.perf_counter()
        try:
            outcome = self.simulator.run(self.case.buffers, schedule, strict=self.strict)
        except UnsupportedError as error:
            raise _not_modelled(error) from error
        seconds = time.perf_counter() - start
        found = compare(self.case, self.case.outputs, DEVICE)
        if self.verification is None or (self.verification.passed and not found.passed):
            self.verification = found
        for seen, more in zip(self.visited, outcome.visited, strict=True):
            seen |= more
        for name, count in outcome.phases.items():
            self.phases[name] = max(count, self.phases.get(name, 0))
        findings = (*outcome.findings, *self._uncovered(outcome))
        return Scheduled(schedule.name, findings, found.passed, seconds, outcome.choices)

    def _uncovered(self, outcome: Outcome) -> list[Finding]:
        """Elements of outputs that were never stored, or more than once; nothing of a run that did not end."""
        found: list[Finding] = []
        if any(f.rule == "deadlock" for f in outcome.findings):
            return found
        for name, counts in outcome.stored.items():
            if name in self.case.outputs and name not in self.case.working:
                shape = self.case.outputs[name].shape
                found += _where("never-stored", "error", f"of {name} are never stored", counts == 0, shape)
                found += _where("stored-twice", "note", f"of {name} are stored more than once", counts > 1, shape)
        return found

    def shrunk(self, run: Scheduled) -> Scheduled:
        """The shortest beginning of its choices, with the first one everywhere behind it, that shows the same."""
        from tirx_bench.simulate import Schedule

        if run.passed and not run.findings:
            return replace(run, choices=())
        rules, low, high, best = {f.rule for f in run.findings}, 0, len(run.choices), run
        for _ in range(SHRINKING):
            if low >= high:
                break
            middle = (low + high) // 2
            tried = self.run(Schedule(run.schedule, choices=run.choices[:middle]))
            if tried.passed == run.passed and rules <= {f.rule for f in tried.findings}:
                best, high = replace(tried, choices=run.choices[:middle]), middle
            else:
                low = middle + 1
        return best

    def coverage(self) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
        """How many places the code has, those that no run reached, and the mbarriers with fewer than three phases."""
        sites = [(program.sites, seen) for (_, program), seen in zip(self.simulator.launches, self.visited, strict=True)]
        missed = [str(site) for places, seen in sites for number, site in enumerate(places) if number not in seen]
        return (
            sum(len(places) for places, _ in sites),
            tuple(dict.fromkeys(missed)),
            tuple(name for name, count in self.phases.items() if count < 3),
        )


def _where(rule: str, severity: Severity, said: str, wrong: Any, shape: Shape) -> list[Finding]:
    import numpy

    if not wrong.any():
        return []
    first = [int(i) for i in numpy.unravel_index(int(wrong.argmax()), shape)]
    return [Finding(rule, severity, f"{int(wrong.sum())} of {wrong.size} elements {said}, the first at {first}")]


def _not_modelled(error: Exception) -> MissingError:
    return MissingError(f"the simulator does not model {error}", "verify on a GPU")


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
        raise _not_modelled(error) from error
