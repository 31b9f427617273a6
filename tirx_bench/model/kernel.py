"""A kernel as its file describes it, and the problems it solves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tirx_bench.model.errors import UsageError, unknown
from tirx_bench.model.tolerance import RoundingBound, Shape, Tile, Tolerance

Value = int | float | str | bool
Params = Mapping[str, Value]
Bound = Tolerance | RoundingBound


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
class Work:
    """What one operation must do at least: floating-point operations in `dtype`, and bytes of device memory."""

    flops: float
    bytes: float
    dtype: str


@dataclass(frozen=True)
class Baseline:
    """What a kernel is held against: `prepare` gets inputs and outputs by name and returns a call without arguments.

    `tuning` says what search chose its code: autotuning on or off, and its budget. `prepared` names the inputs whose values
    `prepare` may use up, such as weights that it packs; of all others the call must see new values.
    """

    prepare: Callable[..., Callable[[], Any]]
    tuning: str = "not declared"
    prepared: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel as its file describes it.

    Callables take the workload's parameters and the tunables that they name:
    `build(...)` returns one PrimFunc, or several by name when `launch` gives their order; its parameters are named
    after the inputs, outputs and workspace it takes. `inputs(..., rng)` returns arrays by name, `outputs(...)` and
    `workspace(...)` return `(shape, dtype)` by name, `reference(<inputs by name>, ...)` gets the inputs widened to FP32
    and returns FP32 by output name. A baseline may be given as its `prepare` alone.
    `inplace` names inputs that the kernel changes. Without `work` there is no floor and no throughput.
    `magnitude` is like `reference` and gives the sum of |a||b| by output, which a `RoundingBound` with steps needs.
    `tiles(...)` gives by output who writes what: tiles from the outermost, each dividing the one before.
    `small` are parameters and tunables for the simulator: few blocks that still visit every role, wrap every ring and have tails.
    """

    name: str
    archs: tuple[str, ...]
    workloads: tuple[Workload, ...]
    build: Callable[..., Any]
    inputs: Callable[..., Mapping[str, Any]]
    outputs: Callable[..., Mapping[str, tuple[Shape, str]]]
    reference: Callable[..., Mapping[str, Any]]
    tolerance: Bound | Callable[..., Bound]
    work: Callable[..., Work] | None
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    tunables: Params = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    launch: tuple[str, ...] = ()
    workspace: Callable[..., Mapping[str, tuple[Shape, str]]] | None = None
    inplace: tuple[str, ...] = ()
    magnitude: Callable[..., Mapping[str, Any]] | None = None
    tiles: Callable[..., Mapping[str, tuple[Tile, ...]]] | None = None
    small: Params = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or not self.archs or not self.workloads:
            raise UsageError(f"kernel {self.name!r} needs a name, at least one arch and at least one workload")
        declared = {n: b if isinstance(b, Baseline) else Baseline(b) for n, b in self.baselines.items()}
        object.__setattr__(self, "baselines", declared)
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
        if wrong := set(self.small) - known:
            raise UsageError(f"kernel {self.name}: small gives {sorted(wrong)}, which no workload or tunable has")
        for part, extra in (
            ("build", set()),
            ("outputs", set()),
            ("work", set()),
            ("workspace", set()),
            ("tiles", set()),
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

    def tiles_for(self, params: Params) -> Mapping[str, tuple[Tile, ...]]:
        """What `tiles` gives; nothing if the kernel declares none."""
        return call(self.tiles, params) if self.tiles else {}

    def tolerance_for(self, params: Params) -> Bound:
        bound = self.tolerance if isinstance(self.tolerance, Bound) else call(self.tolerance, params)
        if isinstance(bound, RoundingBound) and bound.steps and self.magnitude is None:
            raise UsageError(
                f"kernel {self.name}: a RoundingBound over {bound.steps} steps needs the kernel's magnitude",
                "magnitude=lambda a, b: {'c': abs(a) @ abs(b).T}, the reference's sums of absolute values",
            )
        return bound


def _named(function: Callable[..., Any], what: str) -> list[str]:
    """The parameter names of `function`, which must be plain: no ``*args`` or ``**kwargs`` that would hide a misspelling."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise UsageError(f"{what} must name its parameters; * and ** are not allowed")
    return [p.name for p in parameters if p.default is p.empty]


def call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call `function` with the values that it names."""
    return function(**{n: values[n] for n in inspect.signature(function).parameters if n in values})
