"""What several test files share: one real artifact, and an nvcc of our own that a test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tirx_bench.catalog import find
from tirx_bench.device import absent

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items):
    if reason := absent():
        for item in items:
            if item.path.is_relative_to(TESTS / "gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def roles():
    """kernels/warp_roles.py: 64 threads, 1 KiB of static shared memory, one barrier."""
    return find(str(TESTS.parent / "kernels" / "warp_roles.py")).kernel


@pytest.fixture(scope="session")
def artifact(roles, tmp_path_factory):
    """The first workload of `roles`, compiled by the real nvcc. Tests that change a folder change a copy."""
    from tirx_bench.compile import build_functions, compile_functions

    workload = roles.workloads[0]
    functions = build_functions(roles, roles.params(workload))
    out = tmp_path_factory.mktemp("artifact")
    return compile_functions(functions, roles, workload, arch="sm_90a", out=out, tunables={})


@pytest.fixture
def fake_nvcc(tmp_path, monkeypatch):
    """Install a shell script as nvcc. It says that it is 13.0.88, and appends each compile's arguments to the log returned."""
    home = tmp_path / "cuda"
    log = tmp_path / "nvcc.log"

    def install(script: str) -> Path:
        tool = home / "bin" / "nvcc"
        tool.parent.mkdir(parents=True, exist_ok=True)
        answer = 'case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit 0;; --dryrun) exit 0;; esac'
        tool.write_text(f'#!/bin/sh\n{answer}\necho "$@" >> {log}\n{script}\n')
        tool.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(home))
        return log

    return install


@pytest.fixture
def replay(artifact, tmp_path):
    """A script that gives what the real nvcc gave for `artifact`, at once; beside it, nvdisasm does the same."""
    folder = artifact.folder
    disassembler = tmp_path / "cuda" / "bin" / "nvdisasm"
    disassembler.parent.mkdir(parents=True)
    disassembler.write_text(f"#!/bin/sh\ncat {folder}/kernel.sass\n")
    disassembler.chmod(0o755)
    return f'case "$1" in -ptx) cp {folder}/kernel.ptx .;; -cubin) cp {folder}/kernel.cubin .; cat {folder}/ptxas.txt >&2;; esac'
