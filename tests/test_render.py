"""The page holds what a kernel author looks for, says what is not known, and never raises or prints."""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest
from helpers_records import RESOURCES, artifact, offline_record, record, steady, timing, verification

from tirx_bench.compare import Comparison
from tirx_bench.hardware import occupancy
from tirx_bench.model import Finding, Peak, Place, TimingPolicy, Verification, Work, Workload
from tirx_bench.render import artifact_page, comparison, findings, listing, page, table


def row(text: str, label: str) -> str:
    """The page's row with this label, and the lines that belong to it."""
    match = re.search(rf"^{re.escape(label)} +(.*(?:\n {{13}}.*)*)", text, re.MULTILINE)
    assert match, f"no row {label!r} in:\n{text}"
    return match.group(1)


# --------------------------------------------------------------------------------------------- offline


def test_the_page_of_an_offline_record_has_everything_that_needs_no_gpu():
    text = page(offline_record())
    assert text.splitlines()[0] == "add big: m=512 k=256 dtype=bfloat16 (sm_90a, nvcc 13.0.88)"
    assert row(text, "tunables") == "bn=128"
    assert row(text, "lint") == "no findings"
    assert row(text, "resources") == (
        "add_kernel: 168 registers, 20 B spilled, 197632 B shared memory, 132x1x1 blocks of 384 threads in clusters of 2"
    )
    assert row(text, "occupancy") == "18.8%: 12 of 64 warps, 1 block(s) per SM, limited by registers and shared memory"
    assert row(text, "instructions") == "64 HGMMA, 4 UTMALDG, 0 STSM, 0 LDL, 0 STL; 98 in all"
    assert row(text, "ptxas") == "no notes"
    assert row(text, "floor").startswith(
        "4.043 us, compute bound: 4.043 us for 4 GFLOP at 989.4 TFLOP/s, 0.8333 us for 4 MB at 4.8 TB/s"
    )
    assert "H200 SXM data sheet" in row(text, "floor")
    assert row(text, "artifact") == "/build/tirx/add/0123456789abcdef"
    assert row(text, "left out") == "numerics and timing: there is no CUDA device: the driver lists none"
    assert "verify" not in text and "TFLOP/s  " not in text


def test_everything_that_was_left_out_is_on_the_page():
    text = page(offline_record(left_out=("timing: one", "baseline torch.mm: two")))
    assert re.findall(r"^left out +(.*)", text, re.MULTILINE) == ["timing: one", "baseline torch.mm: two"]


def test_a_kernel_of_two_functions_has_the_resources_and_the_occupancy_of_both():
    second = dataclasses.replace(RESOURCES, function="reduce_kernel", registers=32)
    text = page(offline_record(artifact=artifact(resources=(RESOURCES, second))))
    assert [line.split()[1] for line in text.splitlines() if line.startswith("resources")] == ["add_kernel:", "reduce_kernel:"]
    assert len([line for line in text.splitlines() if line.startswith("occupancy")]) == 2


def test_spills_and_local_memory_instructions_are_counted_as_zero_when_there_are_none():
    clean = dataclasses.replace(RESOURCES, spill_store_bytes=0, spill_load_bytes=0)
    text = page(offline_record(artifact=artifact(resources=(clean,)), instructions={"HGMMA": 1, "LDL": 3}))
    assert "0 B spilled" in row(text, "resources")
    assert "3 LDL, 0 STL" in row(text, "instructions")
    assert "0 LDL, 0 STL; 0 in all" in row(page(offline_record(instructions={})), "instructions")


@pytest.mark.parametrize(
    "changes, limiter",
    [
        ({"registers": 255, "dynamic_smem_bytes": 0, "threads": 128}, "registers"),
        ({"registers": 16, "dynamic_smem_bytes": 100_000, "threads": 128}, "shared memory"),
        ({"registers": 16, "dynamic_smem_bytes": 0, "threads": 1024}, "warps"),
        ({"registers": 16, "dynamic_smem_bytes": 0, "threads": 32}, "blocks"),
    ],
)
def test_the_limiter_of_the_occupancy_is_named(changes, limiter):
    resources = dataclasses.replace(RESOURCES, static_smem_bytes=0, **changes)
    text = row(page(offline_record(artifact=artifact(resources=(resources,)))), "occupancy")
    assert text.endswith(f"limited by {limiter}")
    assert text.startswith(f"{occupancy(resources, 'sm_90a').fraction:.1%}: ")


def test_a_block_that_fits_on_no_sm_and_an_unknown_architecture_are_said():
    greedy = dataclasses.replace(RESOURCES, dynamic_smem_bytes=300_000)
    assert "no block fits on an SM: shared memory allow none" in page(offline_record(artifact=artifact(resources=(greedy,))))
    assert "no limits for sm_70 in the table" in page(offline_record(artifact=artifact(arch="sm_70")))
    varying = dataclasses.replace(RESOURCES, threads=0, grid=(0, 1, 1))
    assert "the launch size is not constant" in page(offline_record(artifact=artifact(resources=(varying,))))


def test_the_floor_says_which_side_binds():
    memory = Work(flops=1e6, bytes=48e6, dtype="float32")
    assert row(page(offline_record(work=memory)), "floor").startswith("10 us, memory bound")


@pytest.mark.parametrize("missing", ["work", "theoretical"])
def test_a_floor_that_is_not_known_says_why_and_names_the_option(missing):
    text = row(page(offline_record(**{missing: None})), "floor")
    assert text.startswith("unknown") and "--card" in text


# --------------------------------------------------------------------------------------------- the GPU


def test_the_page_of_a_whole_record_has_the_numerics_the_times_and_both_floors():
    text = page(record(us=10))
    assert "NVIDIA H200" in text.splitlines()[0]
    floors = row(text, "floor").splitlines()
    assert "data sheet" in floors[0] and "800 TFLOP/s" in floors[1] and "measured on this card" in floors[1]
    verify = row(text, "verify")
    assert verify.startswith(
        "passed: c 512x256 bfloat16, 0 of 131072 elements wrong, max error 0.25 absolute, 0.004 relative, rms 0.0017"
    )
    assert "worst at [7, 9]: 1.5, expected 1.25; tolerance |y - r| <= 0.001 + 0.01 |r|, every element" in verify
    assert "FP32 by hand; inputs normal(0, 1), seed 0" in verify
    assert row(text, "time") == (
        "event (CUDA event interval: stream time between two events around one call), cold cache, median of 30 calls in 10 rounds"
    )
    assert "left out" not in text and "doubt" not in text


def cells(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
    return re.split(r"  +", line.strip())


def test_each_implementation_has_time_spread_rate_both_fractions_and_the_ratio():
    text = page(record(times={"add": steady(10, jitter=0), "torch.add": steady(20, jitter=0), "fast": steady(5, jitter=0)}))
    assert cells(text, "implementation") == [
        "implementation", "time", "spread", "TFLOP/s", "of measured peak", "of data sheet", "kernel is (95 % interval)",
    ]  # fmt: skip
    assert cells(text, "add") == ["add", "10 us", "0.00%", "400", "50.0%", "40.4%"]
    assert cells(text, "torch.add") == ["torch.add", "20 us", "0.00%", "200", "25.0%", "20.2%", "2.000x as fast (2.000 to 2.000)"]
    assert cells(text, "fast") == ["fast", "5 us", "0.00%", "800", "100.0%", "80.9%", "0.500x as fast (0.500 to 0.500)"]


def test_without_work_or_peaks_the_times_stand_alone():
    text = page(record(times={"add": steady(10, jitter=0), "torch.add": steady(20, jitter=0)}, work=None, measured=None))
    assert cells(text, "add") == ["add", "10 us", "0.00%", "-", "-", "-"]
    assert cells(text, "torch.add")[-1] == "2.000x as fast (2.000 to 2.000)"
    alone = page(record(times={"add": [[10.0]], "torch.add": [[20.0]]}))
    assert cells(alone, "torch.add")[-1] == "2.000x as fast", "one round has no interval"
    assert cells(page(record(times={"add": [[10.0]]})), "add")[2] == "-", "one round has no spread"


@pytest.mark.parametrize(
    "timer, said", [("wall", "single-call latency"), ("proton", "kernel time"), ("event", "CUDA event interval")]
)
def test_the_timer_is_named_with_what_it_measures(timer, said):
    text = page(record(timing=timing({"add": steady(10)}, TimingPolicy(timer=timer, cache="warm"))))
    assert row(text, "time").startswith(f"{timer} ({said}")
    assert "warm cache" in text


def test_a_card_that_was_held_back_is_a_doubt_beside_the_numbers():
    text = page(record(timing=timing({"add": steady(10)}, throttle=("power cap", "hardware thermal"))))
    assert "doubt: the card was held back (hardware thermal, power cap) before 1 of 10 rounds" in text


def test_a_time_that_drifts_over_the_rounds_is_a_doubt():
    text = page(record(times={"add": [[10.0 * (1 + 0.005 * n)] * 3 for n in range(10)], "torch.add": steady(20)}))
    assert "doubt: add drifted by +4.4% from the first round to the last" in text and "torch.add drifted" not in text


def test_a_time_below_the_measured_floor_is_a_doubt():
    assert "doubt: faster than the measured peak allows" in page(record(us=4.0))
    assert "doubt" not in page(record(us=5.0))


def test_a_failed_output_is_in_capitals_with_where_it_is_wrong():
    failed = verification(wrong_elements=3, max_abs_error=None, max_rel_error=None, rms_rel_error=None, worst_actual=None)
    text = row(page(record(verification=failed, timing=None, left_out=("timing: not verified",))), "verify")
    assert text.startswith("FAILED: c 512x256 bfloat16, 3 of 131072 elements wrong, max error not finite absolute")
    assert "worst at [7, 9]: not finite, expected 1.25" in text


def test_an_output_of_the_wrong_form_says_so():
    wrong = verification(
        problem="is float16 (512, 256) instead of bfloat16 (512, 256)", max_abs_error=None, max_rel_error=None,
        rms_rel_error=None, worst_index=(), worst_actual=None, worst_expected=None,
    )  # fmt: skip
    assert row(page(record(verification=wrong)), "verify").startswith(
        "FAILED: c 512x256 bfloat16 is float16 (512, 256) instead of bfloat16 (512, 256)\n"
    )


def test_an_error_relative_to_a_reference_of_zeros_is_undefined_and_not_called_infinite():
    text = row(page(record(verification=verification(max_abs_error=0.0, max_rel_error=0.0, rms_rel_error=None))), "verify")
    assert "rms undefined" in text and "not finite" not in text


# ------------------------------------------------------------------------------------------ any record


@pytest.mark.parametrize(
    "changes",
    [dict.fromkeys(pair) for pair in itertools.combinations(("work", "theoretical", "measured", "verification", "timing"), 2)],
    ids=lambda changes: "-".join(changes),
)
def test_no_field_that_may_be_none_makes_the_page_fail(changes):
    assert page(record(**changes))
    assert page(offline_record(**{name: None for name in changes if name not in ("verification", "timing")}))


def test_a_driver_that_says_nothing_makes_no_doubt_and_no_failure():
    silent = timing({"add": steady(10)}, sm_clock_mhz=None, temperature_c=None, power_w=None)
    assert "doubt" not in page(record(timing=silent, environment={}))


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(verification().outputs[0]) if "None" in str(f.type)])
def test_no_error_that_may_be_none_makes_the_page_fail(field):
    assert page(record(verification=verification(**{field: None})))
    assert page(record(verification=verification(**{field: None}, wrong_elements=1)))


def test_empty_parts_make_no_failure():
    bare = artifact(resources=(), tunables={}, command=(), workload=Workload("none", {}))
    assert page(offline_record(artifact=bare, workload=Workload("none", {}), instructions={}, left_out=(), environment={}))
    assert page(record(verification=Verification((), 0, "", "")))
    assert artifact_page(bare)
    assert findings(()) == ""


def test_render_prints_nothing(capsys):
    page(record())
    artifact_page(artifact())
    comparison(Comparison("same", "why", 1, 1, 1, 1, 1, ()))
    assert capsys.readouterr() == ("", "")


def test_no_line_ends_in_a_space_so_that_a_page_can_be_kept_in_a_file():
    for text in (page(record()), page(offline_record()), artifact_page(artifact())):
        assert not [line for line in text.splitlines() if line != line.rstrip()]


# ------------------------------------------------------------------------------------------- the parts


def test_a_finding_has_place_severity_rule_evidence_and_its_witness():
    found = (
        Finding("IK001", "error", "pop without push", Place("add.py", 3, 5), "warp 1", ("enter", "pop")),
        Finding("spills", "note", "20 bytes"),
    )
    assert findings(found) == "add.py:3:5: error[IK001] pop without push (warp 1)\n    enter\n    pop\nnote[spills] 20 bytes"
    assert "error[IK001] pop without push" in row(page(offline_record(lint=found)), "lint")
    assert "note[spills]" in row(page(offline_record(artifact=artifact(findings=found))), "ptxas")


def test_the_page_of_an_artifact_has_resources_notes_code_and_how_to_rebuild_it():
    text = artifact_page(artifact(command=("nvcc", "-I", "a folder", "kernel.cu"), findings=(Finding("x", "note", "seen"),)))
    assert text.splitlines()[0] == "add big: m=512 k=256 dtype=bfloat16 bn=128 (sm_90a, nvcc 13.0.88)"
    assert row(text, "rebuild") == "nvcc -I 'a folder' kernel.cu"
    assert (row(text, "code"), row(text, "ptxas")) == ("c" * 64, "note[x] seen")
    assert "168 registers" in row(text, "resources") and "limited by" in row(text, "occupancy")


def test_tables_align_numbers_right_and_listings_align_words_left():
    assert table([["a", "1"], ["long", "10"]]) == "a      1\nlong  10"
    assert listing([["a", "x"], ["long", "yy"]]) == "a     x\nlong  yy"


def test_a_comparison_without_an_interval_is_still_readable():
    text = comparison(Comparison("inconclusive", "more rounds", 10, 5, 0.5, 0, float("inf"), ("code a and b",)))
    assert text.splitlines()[0] == "inconclusive: 5.00 us after 10.00 us"
    assert text.splitlines()[-1] == "changed: code a and b"


def test_the_peak_of_the_page_is_the_records_own():
    assert "123.4 TFLOP/s" in page(offline_record(theoretical=Peak("my card", 123.4, 1.5)))
