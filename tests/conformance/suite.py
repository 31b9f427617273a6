"""Tiny kernels, one for each variant of an instruction: what the simulator must give bit for bit as a GPU does.

Each case has a kernel, inputs that are the same everywhere, and outputs of poison. The GPU's outputs are data:
docs/measurements/h200-conformance.json, made by tests/bench/conform.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

POISON = 0xA5


@dataclass(frozen=True)
class Case:
    """`build` gives the PrimFunc; `inputs` are arrays by name, `outputs` shapes and dtypes by name."""

    name: str
    build: Callable[[], Any]
    inputs: dict[str, Any]
    outputs: dict[str, tuple[tuple[int, ...], str]]

    def arrays(self) -> dict[str, Any]:
        """Fresh ones: the inputs, and outputs full of poison."""
        made = {name: array.copy() for name, array in self.inputs.items()}
        for name, (shape, dtype) in self.outputs.items():
            kind = kind_of(dtype)
            count = int(np.prod(shape)) * kind.itemsize
            made[name] = np.full(count, POISON, np.uint8).view(kind).reshape(shape)
        return made


# nvcc gets --use_fast_math, as from TVM: it divides by an approximation and flushes denormals, which is not modelled.
FAST_MATH = {"float32 division", "select"}
CASES: dict[str, Case] = {}


def case(name: str, inputs: dict[str, Any], outputs: dict[str, tuple[tuple[int, ...], str]]) -> Callable[..., Any]:
    """Register the builder of a case."""

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CASES, name
        CASES[name] = Case(name, build, inputs, outputs)
        return build

    return register


def kind_of(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def numbers(count: int, low: int, high: int, dtype: str, seed: int = 0) -> Any:
    """Small integers, exact in every format that is used here."""
    return np.random.default_rng(seed).integers(low, high, count).astype(kind_of(dtype))


def words(count: int, seed: int = 0) -> Any:
    """Any bits."""
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32)


def all_cases() -> dict[str, Case]:
    for module in ("arithmetic", "exchange", "matrices", "copies", "element_copies", "tensor_core", "synchronisation"):
        importlib.import_module(f"conformance.{module}")
    return CASES


def simulated(case: Case) -> tuple[dict[str, Any], Any, list[str]]:
    """The arrays after a run in the simulator, its outcome, and the instructions of the kernel."""
    from tirx_bench.compile import compile_module, load_tvm
    from tirx_bench.simulate import Simulator, snapshots
    from tirx_bench.tools import scoped_variable

    load_tvm()
    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):
        compile_module({"main": case.build()}, "sm_90a", (instrument,))
    simulator, arrays = Simulator(modules), case.arrays()
    return arrays, simulator.run(arrays), simulator.operations
