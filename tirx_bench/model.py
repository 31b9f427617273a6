"""The frozen values that cross modules, and the errors. Standard library only.

Units are in the field names. A value that cannot be right does not construct: every `__post_init__`
below raises `UsageError` with what is wrong, so a kernel file fails when it is imported, not when it is used.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

Value = int | float | str | bool
Params = Mapping[str, Value]
Shape = tuple[int, ...]

DTYPE_BYTES = {
    "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "uint32": 4, "bool": 1,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- errors


class WorkbenchError(Exception):
    """Something a person can act on: what happened, and the next step. `exit_code` is the process's."""

    exit_code = 1

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint


class FailedError(WorkbenchError):
    """The work itself failed: a build raised, a compiler refused, a kernel faulted or never returned. Exit 1."""


class UsageError(WorkbenchError):
    """A name, an option, a shape or a file that cannot be used. Exit 2."""

    exit_code = 2


class MissingError(WorkbenchError):
    """A tool, a package or a device that is not here. Exit 3."""

    exit_code = 3


class NothingRanError(WorkbenchError):
    """Nothing was measured, so there is nothing to conclude. Exit 4."""

    exit_code = 4


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """A `UsageError` that answers an unknown name with the nearest known ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return UsageError(f"unknown {kind} {name!r}", hint)


# -------------------------------------------------------------------------------------------- findings

Severity = Literal["error", "warning", "note", "lead"]


@dataclass(frozen=True)
class Place:
    """A place in a file; `line` and `column` count from 1, 0 is unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])


@dataclass(frozen=True)
class Finding:
    """One thing that lint, the compiler's notes or a report says about a kernel."""

    rule: str
    severity: Severity
    message: str
    place: Place | None = None
    evidence: str = ""
    witness: tuple[str, ...] = ()


# --------------------------------------------------------------------------- the kernel and its problem


@dataclass(frozen=True)
class Workload:
    """One problem: a label and plain numbers and strings (shape, dtype, epilogue)."""

    label: str
    params: Params

    def __post_init__(self) -> None:
        if not self.label:
            raise UsageError("a workload needs a label")
        for name, value in self.params.items():
            if not isinstance(value, int | float | str | bool):
                raise UsageError(f"workload {self.label!r}: {name} is a {type(value).__name__}, not a number or string")


@dataclass(frozen=True)
class Constraint:
    """A rule on the parameters as a Python expression, such as ``k % 8 == 0``, and the reason for it.

    The text that is shown is the text that is checked.
    """

    rule: str
    reason: str

    def holds(self, params: Params) -> bool:
        try:
            return bool(eval(self.rule, {"__builtins__": {"min": min, "max": max}}, dict(params)))
        except (NameError, TypeError, ZeroDivisionError) as error:
            raise UsageError(f"the constraint {self.rule!r} cannot be decided: {error}") from error


@dataclass(frozen=True)
class Tolerance:
    """Every element must satisfy ``|y - r| <= atol + rtol * |r|``."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        return f"|y - r| <= {self.atol:g} + {self.rtol:g} |r|, every element"


@dataclass(frozen=True)
class Work:
    """What one operation must do at least: floating-point operations in `dtype`, and bytes of device memory."""

    flops: float
    bytes: float
    dtype: str


@dataclass(frozen=True)
class Kernel:
    """A kernel as its file describes it.

    Callables take the workload's parameters and the tunables that they name:
    `build(...)` returns one PrimFunc, or several by name when `launch` gives their order; its parameters are named
    after the inputs, outputs and workspace it takes. `inputs(..., rng)` returns arrays by name, `outputs(...)` and
    `workspace(...)` return `(shape, dtype)` by name, `reference(<inputs by name>, ...)` gets the inputs widened to FP32
    and returns FP32 by output name. A baseline gets inputs and outputs by name and returns a call without arguments.
    `inplace` names inputs that the kernel changes. Without `work` there is no floor and no throughput.
    """

    name: str
    archs: tuple[str, ...]
    workloads: tuple[Workload, ...]
    build: Callable[..., Any]
    inputs: Callable[..., Mapping[str, Any]]
    outputs: Callable[..., Mapping[str, tuple[Shape, str]]]
    reference: Callable[..., Mapping[str, Any]]
    tolerance: Tolerance | Callable[..., Tolerance]
    work: Callable[..., Work] | None
    baselines: Mapping[str, Callable[..., Callable[[], Any]]] = field(default_factory=dict)
    tunables: Params = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    launch: tuple[str, ...] = ()
    workspace: Callable[..., Mapping[str, tuple[Shape, str]]] | None = None
    inplace: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or not self.archs or not self.workloads:
            raise UsageError(f"kernel {self.name!r} needs a name, at least one arch and at least one workload")
        labels = [w.label for w in self.workloads]
        if len(set(labels)) != len(labels):
            raise UsageError(f"kernel {self.name}: workload labels repeat: {', '.join(labels)}")
        names = set(self.workloads[0].params)
        for workload in self.workloads:
            if set(workload.params) != names:
                raise UsageError(f"kernel {self.name}: workload {workload.label!r} does not have the parameters {sorted(names)}")
        if clash := names & set(self.tunables):
            raise UsageError(f"kernel {self.name}: {sorted(clash)} are both workload parameters and tunables")
        known = names | set(self.tunables)
        for part, extra in (
            ("build", set()),
            ("outputs", set()),
            ("work", set()),
            ("workspace", set()),
            ("inputs", {"rng"}),
        ):
            function = getattr(self, part)
            if function is not None and (wrong := set(_named(function, f"{self.name}.{part}")) - known - extra):
                raise UsageError(f"kernel {self.name}: {part} asks for {sorted(wrong)}, which no workload or tunable gives")

    def params(self, workload: Workload, tunables: Params | None = None) -> dict[str, Value]:
        """The workload's parameters with the tunables, defaults filled in. Raises `UsageError` on an unknown tunable."""
        for name in tunables or {}:
            if name not in self.tunables:
                raise unknown(f"tunable of {self.name}", name, self.tunables)
        return {**workload.params, **self.tunables, **(tunables or {})}

    def refuse(self, workload: Workload, tunables: Params | None = None) -> None:
        """Raise `UsageError` naming every constraint that the shape or the tunables break."""
        params = self.params(workload, tunables)
        broken = [c for c in self.constraints if not c.holds(params)]
        if broken:
            shape = " ".join(f"{k}={v}" for k, v in params.items())
            reasons = "; ".join(f"{c.rule} ({c.reason})" for c in broken)
            raise UsageError(f"{self.name} does not accept {shape}: it needs {reasons}", "choose another shape or --param")

    def find_workload(self, label: str) -> Workload:
        for workload in self.workloads:
            if workload.label == label:
                return workload
        raise unknown(f"workload of {self.name}", label, (w.label for w in self.workloads))

    def tolerance_for(self, params: Params) -> Tolerance:
        return self.tolerance if isinstance(self.tolerance, Tolerance) else call(self.tolerance, params)


def _named(function: Callable[..., Any], what: str) -> list[str]:
    """The parameter names of `function`, which must be plain: no ``*args`` or ``**kwargs`` that would hide a misspelling."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise UsageError(f"{what} must name its parameters; * and ** are not allowed")
    return [p.name for p in parameters if p.default is p.empty]


def call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call `function` with the values that it names."""
    return function(**{n: values[n] for n in inspect.signature(function).parameters if n in values})


# ------------------------------------------------------------------------------------------- artifacts


@dataclass(frozen=True)
class Resources:
    """What one device function takes, from ptxas and the lowered launch. Sizes in bytes, counts per thread or block."""

    function: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    static_smem_bytes: int
    dynamic_smem_bytes: int
    threads: int
    grid: Shape
    cluster: Shape
    barriers: int

    @property
    def smem_bytes(self) -> int:
        return self.static_smem_bytes + self.dynamic_smem_bytes


@dataclass(frozen=True)
class Artifact:
    """One compile: the folder holds source, PTX, cubin, SASS, the compiler's output and the manifest.

    `command` rebuilds the cubin from kernel.cu in the folder. `code_hash` is the identity of the code: a SHA-256 over the
    cubin's code sections, since the file's own hash changes with the folder and the time of the build.
    """

    folder: str
    kernel: str
    workload: Workload
    tunables: Params
    arch: str
    compiler: str
    command: tuple[str, ...]
    source_sha256: str
    code_hash: str
    resources: tuple[Resources, ...]
    findings: tuple[Finding, ...]
    environment: Mapping[str, str]
    instrumented: bool = False


# ------------------------------------------------------------------------------------------ the result


@dataclass(frozen=True)
class OutputCheck:
    """One output against its FP32 reference. Errors are over all elements.

    `worst_index` is where |y - r| exceeds its bound most. None: not finite, or not computed because of `problem`.
    """

    name: str
    shape: Shape
    dtype: str
    max_abs_error: float | None
    max_rel_error: float | None
    rms_rel_error: float | None
    worst_index: Shape
    worst_actual: float | None
    worst_expected: float | None
    wrong_elements: int
    tolerance: Tolerance
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.wrong_elements == 0 and not self.problem


@dataclass(frozen=True)
class Verification:
    """What was compared, from inputs of which seed and distributions (`fill`). `passed` is derived and never set."""

    outputs: tuple[OutputCheck, ...]
    seed: int
    fill: str
    reference: str

    @property
    def passed(self) -> bool:
        return bool(self.outputs) and all(o.passed for o in self.outputs)


TIMERS = {
    "event": "CUDA event interval: stream time between two events around one call",
    "proton": "kernel time: the sum of the device times of the kernels that one call launched",
    "wall": "single-call latency: from the host call to the end of its device work, synchronised",
}
CACHES = {"cold": "L2 evicted before every call, outside the interval", "warm": "nothing evicted between calls"}


@dataclass(frozen=True)
class TimingPolicy:
    """How to time. Budgets in milliseconds of device time; `rounds` rounds alternate the order of the implementations."""

    timer: str = "event"
    cache: str = "cold"
    warmup_ms: float = 100.0
    repeat_ms: float = 200.0
    rounds: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.timer not in TIMERS:
            raise unknown("timer", self.timer, TIMERS)
        if self.cache not in CACHES:
            raise unknown("cache policy", self.cache, CACHES)
        if self.rounds < 1 or not self.repeat_ms > 0 or not self.warmup_ms >= 0:
            raise UsageError("a timing policy needs rounds >= 1, repeat_ms > 0 and warmup_ms >= 0")


@dataclass(frozen=True)
class Sample:
    """One timed call, in the order it was taken."""

    implementation: str
    round: int
    us: float


@dataclass(frozen=True)
class RoundState:
    """The card before a round. None: the driver does not say."""

    round: int
    sm_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle: tuple[str, ...]


@dataclass(frozen=True)
class Timing:
    """Every sample in order; medians and intervals are derived from it."""

    policy: TimingPolicy
    samples: tuple[Sample, ...]
    rounds: tuple[RoundState, ...]
    verified: bool

    def __post_init__(self) -> None:
        if not self.verified:
            raise UsageError("a timing needs a passed verification")
        if not self.samples:
            raise NothingRanError("nothing was timed")

    @property
    def implementations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.implementation for s in self.samples))

    def median_us(self, implementation: str) -> float:
        return statistics.median(s.us for s in self.samples if s.implementation == implementation)

    def round_medians_us(self, implementation: str) -> tuple[float, ...]:
        rounds: dict[int, list[float]] = {}
        for sample in self.samples:
            if sample.implementation == implementation:
                rounds.setdefault(sample.round, []).append(sample.us)
        return tuple(statistics.median(us) for _, us in sorted(rounds.items()))

    def spread(self, implementation: str) -> float:
        """Standard deviation of the rounds' medians over their mean; NaN with one round."""
        medians = self.round_medians_us(implementation)
        return statistics.stdev(medians) / statistics.mean(medians) if len(medians) > 1 else math.nan


@dataclass(frozen=True)
class Peak:
    """The rates that a floor is computed from, and where they come from: a data sheet, or a run on this card."""

    source: str
    tflops: float
    tb_per_s: float

    def floor_us(self, work: Work) -> float:
        return max(work.flops / self.tflops / 1e6, work.bytes / self.tb_per_s / 1e6)


@dataclass(frozen=True)
class Record:
    """What one run found out. The only thing that `store` writes."""

    kernel: str
    workload: Workload
    command: str
    created: str
    work: Work | None
    theoretical: Peak | None
    artifact: Artifact
    instructions: Mapping[str, int]
    environment: Mapping[str, Any]
    lint: tuple[Finding, ...] = ()
    measured: Peak | None = None
    verification: Verification | None = None
    timing: Timing | None = None
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.timing and self.kernel not in self.timing.implementations:
            raise UsageError(f"the timing of {self.kernel} holds no sample of {self.kernel}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.lint + self.artifact.findings

    def failed(self, strict: bool = False) -> bool:
        """An error-level finding (or a warning, when strict) or a failed verification."""
        bad = ("error", "warning") if strict else ("error",)
        return any(f.severity in bad for f in self.findings) or bool(self.verification and not self.verification.passed)
