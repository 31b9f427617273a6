"""ptxas's notes to numbers and findings, on output captured from real compiles: see data/ptxas/README.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tirx_bench.compile.lower import Launch
from tirx_bench.compile.ptxas import Usage, findings, parse, resources
from tirx_bench.model import Resources

DATA = Path(__file__).parent / "data" / "ptxas"
PLAIN = Resources("kernel", 168, 0, 0, 0, 0, 0, 384, (132, 1, 1), (1, 1, 1), 1)


def output(name):
    return (DATA / f"{name}.txt").read_text()


def found(function=PLAIN, text="", ptx="", arch="sm_90a"):
    return {(f.rule, f.severity): f for f in findings(text, ptx, arch, (function,))}


def pool(low, high, name="kernel"):
    return (
        f".visible .entry {name}(\n.param .u64 p\n)\n{{\nsetmaxnreg.inc.sync.aligned.u32 {high};\n"
        f"@%p1 bra $L;\nsetmaxnreg.dec.sync.aligned.u32 {low};\nret;\n}}\n"
    )


def test_every_function_of_a_module_has_its_own_numbers():
    assert parse(output("several")) == {
        "third": Usage(registers=40, barriers=0, stack=256, spill_stores=0, spill_loads=0, static_smem=0),
        "second": Usage(registers=10, barriers=1, stack=0, spill_stores=0, spill_loads=0, static_smem=1024),
        "first": Usage(registers=10, barriers=0, stack=0, spill_stores=0, spill_loads=0, static_smem=0),
    }


def test_spills_and_the_stack_frame_are_read():
    assert parse(output("spill")) == {"spills": Usage(24, 1, stack=136, spill_stores=144, spill_loads=144, static_smem=0)}


def test_an_older_output_without_barriers_and_with_constant_memory_is_read():
    text = (
        "ptxas info    : Compiling entry function 'old' for 'sm_80'\nptxas info    : Function properties for old\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 32 registers, 49152 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]\n"
    )
    assert parse(text) == {"old": Usage(32, 0, 8, 4, 12, 49152)}


@pytest.mark.parametrize("text", ["", "nvcc warning : nothing of ptxas\n", "ptxas info    : Used 10 registers\n"])
def test_output_without_a_function_has_no_usage(text):
    assert parse(text) == {}


def test_resources_follow_the_launches_and_add_what_only_the_launch_knows():
    launches = [Launch("first", (2, 3, 4), (2, 1, 1), 128, 4096), Launch("absent", (1,), (1,), 1, 0),
                Launch("second", (1, 1, 1), (1, 1, 1), 64, 0)]  # fmt: skip
    taken = resources(output("several"), launches)
    assert taken == (
        Resources("first", 10, 0, 0, 0, 0, 4096, 128, (2, 3, 4), (2, 1, 1), 0),
        Resources("second", 10, 0, 0, 0, 1024, 0, 64, (1, 1, 1), (1, 1, 1), 1),
    )
    assert taken[1].smem_bytes == 1024


def test_a_spill_is_a_warning_with_its_bytes_and_is_not_also_local_memory():
    (taken,) = resources(output("spill"), [Launch("spills", (1, 1, 1), (1, 1, 1), 32, 0)])
    (finding,) = findings(output("spill"), "", "sm_90a", (taken,))
    assert (finding.rule, finding.severity) == ("SPILL", "warning")
    assert "spills spills registers: 288 bytes" in finding.message


def test_an_array_in_local_memory_is_a_warning():
    (taken,) = resources(output("local"), [Launch("local_array", (1, 1, 1), (1, 1, 1), 32, 0)])
    (finding,) = findings(output("local"), "", "sm_90a", (taken,))
    assert (finding.rule, finding.severity) == ("LOCAL", "warning")
    assert "local_array keeps 256 bytes per thread" in finding.message


def test_each_note_on_wgmma_is_a_warning_with_the_words_of_ptxas_as_evidence():
    notes = findings(output("wgmma"), "", "sm_90a", ())
    assert {f.rule for f in notes} == {"C7508", "C7511", "C7517", "C7519"} and {f.severity for f in notes} == {"warning"}
    by_rule = {f.rule: f for f in notes}
    assert "setmaxnreg was ignored" in by_rule["C7508"].message
    assert "insufficient register resources" in by_rule["C7511"].evidence
    assert "wait" in by_rule["C7517"].message and "in function 'no_wait'" in by_rule["C7517"].evidence
    assert "fence" in by_rule["C7519"].message and "in function 'no_fence'" in by_rule["C7519"].evidence


def test_a_note_that_is_repeated_is_reported_once_and_an_unknown_one_is_not_lost():
    text = "ptxas info : (C7599) Potential Performance Loss: something new\n"
    (finding,) = findings(text * 3, "", "sm_90a", ())
    assert finding.rule == "C7599" and finding.evidence == "Potential Performance Loss: something new"


def test_a_kernel_that_ptxas_has_no_notes_on_has_no_findings(artifact):
    assert artifact.findings == () and found() == {}


@pytest.mark.parametrize(("arch", "block"), [("sm_90a", 232448), ("sm_100a", 232448), ("sm_80", 166912)])
def test_more_shared_memory_than_a_block_can_have_is_an_error(arch, block):
    fits = replace(PLAIN, static_smem_bytes=1024, dynamic_smem_bytes=block - 1024)
    assert found(fits, arch=arch) == {}
    finding = found(replace(fits, static_smem_bytes=1025), arch=arch)["SMEM", "error"]
    assert f"asks for {block + 1} bytes" in finding.message and f"has {block}" in finding.message


@pytest.mark.parametrize(
    ("arch", "named"), [("sm_90", "sm_90a has them"), ("sm_100", "sm_100a has them"), ("sm_100f", "sm_100a has them")]
)
def test_a_target_without_the_own_instructions_of_its_architecture_is_a_warning(arch, named):
    assert named in found(arch=arch)["TARGET", "warning"].message


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_120a"])
def test_other_targets_are_not_warned_of(arch):
    assert found(arch=arch) == {}


def test_registers_that_the_pool_can_serve_are_fine():
    assert found(ptx=pool(40, 232)) == {}  # 128 * (40 + 2 * 232) of 168 * 384 registers: all of them


def test_a_pool_that_serves_only_some_splits_is_a_warning():
    finding = found(ptx=pool(48, 240))["SETMAXNREG", "warning"]
    assert "48/240" in finding.message and "67584 of 64512" in finding.message


def test_a_pool_that_can_never_serve_is_an_error():
    finding = found(ptx=pool(240, 240))["SETMAXNREG", "error"]
    assert "92160 of 64512" in finding.message and "wait for ever" in finding.evidence


def test_setmaxnreg_of_one_function_is_not_held_against_another():
    small = replace(PLAIN, function="small", registers=10, threads=128)
    ptx = pool(40, 232) + ".visible .entry small(\n)\n{\nret;\n}\n"
    assert findings("", ptx, "sm_90a", (PLAIN, small)) == ()
    assert found(replace(small, function="kernel"), ptx=ptx).keys() == {("SETMAXNREG", "error")}


def test_setmaxnreg_that_ptxas_ignored_takes_nothing_from_the_pool():
    assert found(text=output("wgmma"), ptx=pool(240, 240)).keys() == {
        ("C7508", "warning"), ("C7511", "warning"), ("C7517", "warning"), ("C7519", "warning"),
    }  # fmt: skip


def test_less_than_a_warpgroup_has_no_pool():
    assert found(replace(PLAIN, threads=64), ptx=pool(240, 240)) == {}
