"""Made-up records, timings and kernels for the tests; every number is chosen, none was measured."""

from __future__ import annotations

from typing import Any

from tirx_bench.model import (
    Artifact,
    Attempt,
    CardState,
    Finding,
    Kernel,
    OutputCheck,
    Peak,
    Place,
    Record,
    Resources,
    RoundingBound,
    Sample,
    Timing,
    TimingPolicy,
    Tolerance,
    Verification,
    Work,
    Workload,
)

TOLERANCE = Tolerance(rtol=1e-2, atol=1e-3)
RESOURCES = Resources(
    function="add_kernel",
    registers=168,
    spill_store_bytes=12,
    spill_load_bytes=8,
    stack_bytes=0,
    static_smem_bytes=1024,
    dynamic_smem_bytes=196608,
    threads=384,
    grid=(132, 1, 1),
    cluster=(2, 1, 1),
    barriers=1,
)


def workload(**params: Any) -> Workload:
    return Workload("big", {"m": 512, "k": 256, "dtype": "bfloat16", **params})


def artifact(**changes: Any) -> Artifact:
    values: dict[str, Any] = {
        "folder": "/build/tirx/add/0123456789abcdef",
        "kernel": "add",
        "workload": workload(),
        "tunables": {"bn": 128},
        "arch": "sm_90a",
        "compiler": "nvcc 13.0.88",
        "command": ("nvcc", "-arch=sm_90a", "kernel.cu"),
        "source_sha256": "5" * 64,
        "code_hash": "c" * 64,
        "resources": (RESOURCES,),
        "findings": (),
        "environment": {},
    }
    return Artifact(**{**values, **changes})


def verification(**changes: Any) -> Verification:
    check: dict[str, Any] = {
        "name": "c",
        "shape": (512, 256),
        "dtype": "bfloat16",
        "max_abs_error": 0.25,
        "max_rel_error": 0.004,
        "rms_rel_error": 0.0017,
        "worst_index": (7, 9),
        "worst_actual": 1.5,
        "worst_expected": 1.25,
        "wrong_elements": 0,
        "tolerance": TOLERANCE,
    }
    found = OutputCheck(**{**check, **changes})
    tried = (Attempt("normal(0, 1)", 0, "alone", 2, 0.25),) if found.passed else ()
    return Verification((found,), seed=0, fill="normal(0, 1)", reference="FP32 by hand", tried=tried)


def timing(
    times: dict[str, list[list[float]]], policy: TimingPolicy | None = None, throttle: tuple[str, ...] = (), **state: Any
) -> Timing:
    """`times` holds the microseconds of every call, by implementation and round."""
    rounds = len(next(iter(times.values())))
    calls = [(name, n, us) for n in range(rounds) for name, by_round in times.items() for us in by_round[n]]
    samples = [Sample(name, n, us, at_us=100.0 * i, clock_mhz=1980.0) for i, (name, n, us) in enumerate(calls)]
    known = {"sm_clock_mhz": 1980, "temperature_c": 40, "power_w": 300.0, **state}
    states = tuple(CardState(round=n, throttle=throttle if n == 0 else (), **known) for n in range(rounds))
    return Timing(policy or TimingPolicy(timer="event", rounds=rounds), tuple(samples), states, verified=True, session_s=9.0)


def steady(us: float, rounds: int = 10, jitter: float = 0.001, calls: int = 3) -> list[list[float]]:
    """Rounds around `us` that alternate by `jitter`."""
    return [[us * (1 + jitter * (-1) ** n)] * calls for n in range(rounds)]


def offline_record(**changes: Any) -> Record:
    """What `run` gives on a machine without a GPU."""
    values: dict[str, Any] = {
        "kernel": "add",
        "workload": workload(),
        "command": "tirx-bench run add",
        "created": "2026-01-02T03:04:05.678+00:00",
        "work": Work(flops=4e9, bytes=4e6, dtype="bfloat16"),
        "theoretical": Peak("H200 SXM data sheet", 989.4, 4.8),
        "artifact": artifact(),
        "instructions": {"HGMMA": 64, "MOV": 30, "UTMALDG": 4},
        "environment": {"apache-tvm": "0.27"},
        "left_out": ("numerics and timing: there is no CUDA device: the driver lists none",),
    }
    return Record(**{**values, **changes})


def record(us: float = 10.0, times: dict[str, list[list[float]]] | None = None, **changes: Any) -> Record:
    """What `run` gives on a GPU."""
    values: dict[str, Any] = {
        "left_out": (),
        "measured": Peak("measured on this card", 800.0, 4.0),
        "verification": verification(),
        "environment": {"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1", "driver": "580.1", "torch": "2.14", "git_commit": "abc"},
        "timing": timing(times or {"add": steady(us), "torch.add": steady(20.0)}),
        "lint": (Finding("IK032", "warning", "a long name", Place("add.py", 3, 5), "70 characters", ("step one",)),),
    }
    return offline_record(**{**values, **changes})


def kernel(**changes: Any) -> Kernel:
    """y = x + 1 over (m, k), for a fake device: its `build` is never called."""
    values: dict[str, Any] = {
        "name": "add",
        "archs": ("sm_90a",),
        "workloads": (Workload("small", {"m": 6, "k": 5, "dtype": "float32"}),),
        "build": lambda m, k, dtype: None,
        "inputs": lambda m, k, dtype, rng: {"x": rng.normal((m, k), dtype)},
        "outputs": lambda m, k, dtype: {"y": ((m, k), dtype)},
        "reference": lambda x: {"y": x + 1},
        "tolerance": RoundingBound(),
        "work": None,
    }
    return Kernel(**{**values, **changes})
