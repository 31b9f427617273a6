"""The reference kernels as values: their shapes, references, tolerances and builds. Nothing here needs a GPU."""

from __future__ import annotations

import importlib.util
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers_verify import multiplies, verified

from tirx_bench import hopper
from tirx_bench.hardware import MULTIPROCESSORS
from tirx_bench.model import Kernel, RoundingBound, Tolerance, UsageError, Workload, call
from tirx_bench.ops import relu

FOLDER = Path(__file__).parents[1] / "kernels"
FILES = sorted(FOLDER.glob("*.py"))
GEMMS = ("gemm", "gemm_relu")


def load(name: str) -> Kernel:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.KERNEL


def built(name: str, tunables=None, **params):
    kernel = load(name)
    return call(kernel.build, kernel.params(Workload("test", params), tunables))


def cuda(function, arch: str = "sm_90a") -> str:
    import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    return tvm.compile(function, target=target, tir_pipeline="tirx").mod.imports[0].inspect_source("cuda")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_kernel_file_loads_neither_tvm_nor_torch(file):
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]);"
        "print(*{'tvm', 'tvm_ffi', 'torch', 'triton', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_workload_meets_the_constraints_and_has_a_tolerance(file):
    kernel = load(file.stem)
    assert kernel.name == file.stem
    for workload in kernel.workloads:
        kernel.refuse(workload)
        bound = kernel.tolerance_for(kernel.params(workload))
        products = int(workload.params.get("k", 0))
        assert bound == (RoundingBound(steps=math.ceil(products / 16)) if products else Tolerance(rtol=0, atol=0))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", GEMMS)
def test_the_tolerance_of_a_gemm_rejects_every_known_wrong_output(name, dtype):
    kernel = load(name)
    of = replace(kernel, workloads=(Workload("small", {"m": 128, "n": 2 * kernel.tunables["bn"], "k": 256, "dtype": dtype}),))
    found = verified(of, multiplies(relu if name == "gemm_relu" else lambda c: c))
    assert found.passed and {c.outcome for c in found.controls} == {"rejected"}
    assert found.outputs[0].owner.startswith("tile [")


def test_the_tolerance_of_warp_roles_rejects_what_can_be_told_of_it():
    found = verified(load("warp_roles"), lambda b: b["out"].__setitem__(..., b["inp"] * 2 + 1))
    assert found.passed and {c.name for c in found.controls if c.outcome == "skipped"} == {
        "the last 16 terms of every sum dropped", "sums kept in the input's dtype",
    }  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_baseline_says_what_search_chose_its_code(file):
    baselines = load(file.stem).baselines
    assert baselines and all(b.tuning not in ("", "not declared") for b in baselines.values())


def test_references_on_small_arrays():
    a, b = np.float32([[1, 2], [3, -4]]), np.float32([[1, 0], [0, 1], [-1, -1]])
    assert load("gemm").reference(a, b)["c"].tolist() == [[1, 2, -3], [3, -4, 1]]
    assert load("gemm_relu").reference(a, b)["c"].tolist() == [[1, 2, 0], [3, 0, 1]]
    assert load("warp_roles").reference(np.float32([-1, 0.5]))["out"].tolist() == [-1, 2]


def test_relu_keeps_nan():
    assert np.isnan(load("gemm_relu").reference(np.float32([[np.nan]]), np.float32([[1]]))["c"]).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"k": 4001}, "the row pitch of A and B"),
        ({"n": 4001}, "the row pitch of C"),
        ({"m": 0}, "an empty matrix"),
        ({"dtype": "float32"}, "16-bit inputs"),
    ],
)
@pytest.mark.parametrize("name", GEMMS)
def test_a_wrong_shape_is_refused_with_the_reason(name, change, reason):
    kernel = load(name)
    with pytest.raises(UsageError, match=reason):
        kernel.refuse(Workload("wrong", {**kernel.workloads[0].params, **change}))


@pytest.mark.parametrize(
    ("tunables", "reason"),
    [
        ({"bn": 176}, "a TMA store takes 64 columns"),
        ({"bn": 320}, "wgmma takes N up to 256"),
        ({"stages": 5}, "227 KiB"),
        ({"bn": 192, "stages": 5}, "227 KiB"),
        ({"stages": 1}, "hold one stage"),
        ({"sms": 0}, "number of blocks"),
    ],
)
def test_a_wrong_tunable_is_refused_with_the_reason(tunables, reason):
    kernel = load("gemm")
    with pytest.raises(UsageError, match=reason):
        kernel.refuse(kernel.workloads[0], tunables)


def test_a_block_of_warp_roles_has_no_tail():
    kernel = load("warp_roles")
    for n in (0, 255, 300):
        with pytest.raises(UsageError, match="256 elements"):
            kernel.refuse(Workload("wrong", {"n": n}))


@pytest.mark.parametrize("bn", [64, 128, 192, 256])
def test_a_store_waits_for_the_last_store_of_its_slot(bn):
    """Across tiles too, a slot comes back after `slots` stores: what `wait_group.read(slots - 1)` relies on."""
    slots = hopper.staging_slots(bn)
    sequence = [j % slots for _ in range(3) for j in range(bn // hopper.CHUNK)]
    assert all(sequence[i] == sequence[i - slots] for i in range(slots, len(sequence)))
    assert all(len(set(sequence[i : i + slots])) == slots for i in range(len(sequence) - slots + 1))


def test_the_registers_are_those_of_the_launch():
    threads = 128 * (1 + hopper.CONSUMERS)
    per_thread = MULTIPROCESSORS["90"].registers // threads // 8 * 8
    assert 128 * (hopper.REGISTERS[0] + hopper.CONSUMERS * hopper.REGISTERS[1]) == threads * per_thread


@pytest.mark.parametrize(("name", "bn"), [("gemm", 192), ("gemm_relu", 256)])
def test_a_ragged_gemm_becomes_cuda_and_takes_the_shared_memory_of_the_rule(name, bn):
    function = built(name, {"bn": bn}, m=1, n=264, k=72, dtype="bfloat16")
    text = cuda(function)
    assert f"__launch_bounds__(384, 1) {name}_kernel(" in text
    assert f"wgmma.mma_async.sync.aligned.m64n{bn}k16.f32.bf16.bf16" in text
    assert ("cvt.rn.relu.bf16x2.f32" in text) == (name == "gemm_relu")
    assert "setmaxnreg.inc" in text
    (rule,) = (c.rule for c in hopper.CONSTRAINTS if c.rule.endswith(f"<= {MULTIPROCESSORS['90'].block_smem_bytes}"))
    bound = eval(rule.partition("<=")[0], {}, {"bn": bn, "stages": hopper.TUNABLES["stages"]})
    staging = re.search(r"c_smem = T.decl_buffer\(\((.*?)\).*?elem_offset=(\d+)", function.script())
    assert 2 * (int(staging[2]) + np.prod([int(n) for n in staging[1].split(",")])) == bound  # it ends the pool


@pytest.mark.parametrize("arch", load("warp_roles").archs)
def test_warp_roles_becomes_cuda_without_a_trace_of_iket(arch):
    text = cuda(built("warp_roles", n=512), arch)
    assert "warp_roles_kernel(" in text
    assert "iket" not in text
