"""What a person asked for, with its names resolved and refused where it cannot be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tirx_bench.catalog import Entry, find
from tirx_bench.compile import check_request
from tirx_bench.device import absent, present_arch
from tirx_bench.hardware import capability, find_card
from tirx_bench.model import Kernel, MissingError, Params, TimingPolicy, UsageError, Value, VerifyPolicy, Workload, unknown

Progress = Callable[[str], None]
DEFAULT_OUT = Path("build/tirx")
LONGEST_TIMEOUT_S = 1e6  # select takes no infinite one


def quiet(text: str) -> None:
    del text


@dataclass(frozen=True)
class Job:
    """What a person asked for. `workload` is a label or ``m=..,n=..``; `tunables` are the texts of --param."""

    spec: str
    workload: str | None = None
    arch: str | None = None
    tunables: tuple[str, ...] = ()
    compiler: str = "nvcc"
    flags: tuple[str, ...] = ()
    out: Path = DEFAULT_OUT
    card: str | None = None
    policy: TimingPolicy = field(default_factory=TimingPolicy)
    timeout_s: float = 60.0
    vs: str | None = None  # the baseline that the verdict is about, and the only one that is timed
    device: int = 0
    checks: VerifyPolicy = VerifyPolicy()
    simulate: bool = True  # `run`, before anything is launched


@dataclass(frozen=True)
class Plan:
    """A job whose names are resolved and whose request is accepted."""

    job: Job
    entry: Entry
    kernel: Kernel
    workload: Workload
    tunables: dict[str, Value]
    arch: str

    @property
    def params(self) -> Params:
        return self.kernel.params(self.workload, self.tunables)


def plan(job: Job) -> Plan:
    """Resolve the names of a job. Raises `UsageError` for anything that can be refused before TVM is loaded."""
    entry = find(job.spec)
    kernel = entry.kernel
    assert kernel is not None  # find raises otherwise
    workload = parse_workload(kernel, job.workload)
    tunables = _parse_pairs(job.tunables, kernel.tunables, f"tunable of {kernel.name}")
    arch = job.arch or _default_arch(kernel, job.device)
    check_request(kernel, workload, tunables, arch, job.compiler)
    find_card(job.card, arch)
    if job.vs is not None and job.vs not in kernel.baselines:
        raise unknown(f"baseline of {kernel.name}", job.vs, kernel.baselines)
    if not 0 < job.timeout_s <= LONGEST_TIMEOUT_S:
        raise UsageError(f"a timeout of {job.timeout_s:g} s is not one", f"between 0 and {LONGEST_TIMEOUT_S:g} s")
    return Plan(job, entry, kernel, workload, tunables, arch)


def parse_workload(kernel: Kernel, text: str | None) -> Workload:
    """A label of the kernel, or ``m=64,k=128`` over the first workload's parameters; None is the first workload."""
    if text is None:
        return kernel.workloads[0]
    if "=" not in text:
        return kernel.find_workload(text)
    given = _parse_pairs(tuple(text.split(",")), kernel.workloads[0].params, f"parameter of {kernel.name}")
    params = {**kernel.workloads[0].params, **given}
    return Workload(",".join(f"{k}={v}" for k, v in params.items()), params)


def _parse_pairs(pairs: tuple[str, ...], known: Params, kind: str) -> dict[str, Value]:
    parsed: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.strip().partition("=")
        if not equals:
            raise UsageError(f"{pair!r} is not NAME=VALUE")
        if name not in known:
            raise unknown(kind, name, known)
        parsed[name] = _parse_value(name, text, type(known[name]))
    return parsed


def _parse_value(name: str, text: str, kind: type[Any]) -> Value:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"
    try:
        value: Value = kind(text)
    except ValueError as error:
        raise UsageError(f"{name} is a {kind.__name__}, not {text!r}") from error
    return value


def _default_arch(kernel: Kernel, device: int) -> str:
    """The kernel's architecture for the device here, else its first."""
    here = present_arch(device)
    return next((a for a in kernel.archs if here and capability(a) == here), kernel.archs[0])


def why_not_here(arch: str, device: int = 0) -> str:
    """Why code for `arch` cannot be launched on that device; empty if it can."""
    if reason := absent():
        return reason
    here = present_arch(device)
    if not here:
        return f"there is no device {device}"
    return "" if here == capability(arch) else f"this machine's device is sm_{here} and the kernel was compiled for {arch}"


def need_device(planned: Plan, action: str) -> None:
    """Raise `MissingError` when the plan's code cannot be launched here."""
    if reason := why_not_here(planned.arch, planned.job.device):
        raise MissingError(f"{action} needs a GPU and {reason}", "`tirx-bench run` does everything that needs none")
