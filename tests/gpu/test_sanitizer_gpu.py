"""compute-sanitizer itself on kernels of tests/wrong_kernels and on a right one."""

import json
from pathlib import Path

import pytest

from tirx_bench.cli import main
from tirx_bench.tools import find_tool

WRONG = Path(__file__).parents[1] / "wrong_kernels"
pytestmark = [
    pytest.mark.skipif(not find_tool("compute-sanitizer"), reason="compute-sanitizer is not installed"),
    pytest.mark.timeout(900),
]


@pytest.fixture
def collect(tmp_path, capsys):
    def act(kernel, *argv):
        code = main(["collect", "sanitizer", str(kernel), *argv, "--json", "--out", str(tmp_path / "out")])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return act


@pytest.mark.parametrize(
    "name, tool, said",
    [
        ("boundary_mask_missing", "memcheck", "4-byte read of global memory out of bounds"),
        ("sync_block_barrier_missing", "racecheck", "race in shared memory: nothing orders this write"),
        ("sync_barrier_in_branch", "synccheck", "barrier error: divergent thread(s) in block"),
    ],
)
def test_a_wrong_kernel_is_found_with_its_line_and_the_right_one_is_clean(collect, name, tool, said):
    code, found, err = collect(WRONG / f"{name}.py", "--tool", tool, "--param", "faulty=true")
    assert code == 1, err
    first = found["findings"][0]
    assert first["rule"] == tool and first["message"].startswith(said)
    text = Path(first["place"]["file"]).read_text().splitlines()[first["place"]["line"] - 1].strip()
    assert first["place"]["file"].endswith("kernel.cu") and text and text in first["evidence"]
    assert collect(WRONG / f"{name}.py", "--tool", tool, "--param", "faulty=false")[:1] == (0,)


def test_a_kernel_that_hangs_ends_with_the_limit_and_is_a_finding(collect):
    code, found, err = collect(
        WRONG / "sync_empty_arrive_missing.py", "--tool", "memcheck", "--param", "faulty=true", "--timeout", "15"
    )
    assert code == 1, err
    assert found["findings"][-1]["rule"] == "sanitizer-timeout"


def test_a_right_kernel_is_clean_under_every_tool(collect):
    code, found, err = collect("gemm", "--workload", "m=300,n=264,k=136")
    assert (code, found["findings"]) == (0, []), err
    assert len(found["reports"]) == 4
