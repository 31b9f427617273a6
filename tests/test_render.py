"""The page holds what a kernel author looks for, says what is not known, and never raises or prints."""

from __future__ import annotations

import dataclasses
import itertools
import re

import pytest
from helpers_records import RESOURCES, artifact, offline_record, record, steady, timing, verification

from tirx_bench.compare import Comparison, against, together
from tirx_bench.hardware import occupancy
from tirx_bench.model import (
    CACHES,
    FLUSHES,
    STATUSES,
    TIMERS,
    Finding,
    Operation,
    Peak,
    Place,
    Status,
    TimingPolicy,
    Verification,
    Work,
    Workload,
)
from tirx_bench.pipeline.first_call import FirstCall
from tirx_bench.render import artifact_page, comparison, findings, first_call, listing, page, verdicts
from tirx_bench.render.rows import table


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
    assert "worst at [7, 9]: 1.5, expected 1.25\n" in verify and "|y - r| <= 0.001 + 0.01 |r|, flat, every element" in verify
    assert "FP32 by hand\n" in verify and "2 launches on normal(0, 1), seed 0: at most 0.25 of the bound" in verify
    timer, cache, samples = row(text, "time").splitlines()
    assert timer == "event: CUDA event interval: stream time between two events around one call"
    assert cache.strip() == "cold cache: L2 evicted before every call, outside the interval, by reading other memory"
    assert samples.strip().startswith("median of 30 samples in 10 rounds of alternating order, after 0 ms of warm-up")
    assert row(text, "samples").startswith("add: 30 samples, min 9.990, median 10.00")
    assert "left out" not in text and not any(name in text for name in STATUSES)


def cells(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
    return re.split(r"  +", line.strip())


def test_each_implementation_has_time_spread_rate_both_fractions_and_the_ratio():
    text = page(record(times={"add": steady(10, jitter=0), "torch.add": steady(20, jitter=0), "fast": steady(5, jitter=0)}))
    assert cells(text, "implementation") == [
        "implementation", "time", "spread", "SM clock", "TFLOP/s", "of measured peak", "of data sheet",
        "kernel is (95 % interval)",
    ]  # fmt: skip
    clock = "1980 MHz"
    assert cells(text, "add") == ["add", "10 us", "0.00%", clock, "400", "50.0%", "40.4%"]
    assert cells(text, "torch.add")[1:] == ["20 us", "0.00%", clock, "200", "25.0%", "20.2%", "2.000x as fast (2.000 to 2.000)"]
    assert cells(text, "fast") == ["fast", "5 us", "0.00%", clock, "800", "100.0%", "80.9%", "0.500x as fast (0.500 to 0.500)"]


def traced(host_us, tracing_us):
    """Kernel spans of 10 and 20 us; the untraced event intervals are longer by `host_us`, the traced ones by both."""
    base = timing({"add": steady(10, jitter=0), "torch.add": steady(20, jitter=0)}, TimingPolicy())
    samples = tuple(dataclasses.replace(s, event_us=s.us + host_us + tracing_us) for s in base.samples)
    untraced = tuple(dataclasses.replace(s, us=s.us + host_us) for s in base.samples)
    return dataclasses.replace(base, samples=samples, untraced=untraced)


def test_what_host_and_tracing_add_are_columns_where_they_are_known():
    text = page(record(timing=traced(3.5, 1.25)))
    columns = cells(text, "implementation")
    host, tracing = columns.index("host adds"), columns.index("tracing adds")
    assert (cells(text, "add")[host], cells(text, "add")[tracing]) == ("+3.50 us", "+1.25 us")
    assert (cells(text, "torch.add")[host], cells(text, "torch.add")[tracing]) == ("+3.50 us", "+1.25 us")
    assert "host adds" not in page(record()), "another timer does not know it"


def with_gaps(**busy):
    """Kernel spans of 10 us, of which each implementation was busy for so many."""
    base = timing({name.replace("_", "."): steady(10, jitter=0) for name in busy}, TimingPolicy())
    return dataclasses.replace(
        base, samples=tuple(dataclasses.replace(s, busy_us=busy[s.implementation.replace(".", "_")]) for s in base.samples)
    )


def test_where_a_span_has_gaps_there_is_a_column_of_the_share_in_which_anything_ran():
    text = page(record(timing=with_gaps(add=10.0, torch_add=6.0)))
    columns = cells(text, "implementation")
    busy = columns.index("busy")
    assert busy == columns.index("SM clock") + 1
    assert (cells(text, "add")[busy], cells(text, "torch.add")[busy]) == ("100%", "60%")
    assert len(cells(text, "torch.add")) == len(columns)


@pytest.mark.parametrize("torch_add", [10.0, 9.96, None], ids=["full", "hardly", "unknown"])
def test_where_no_span_has_gaps_there_is_no_such_column(torch_add):
    assert "busy" not in cells(page(record(timing=with_gaps(add=10.0, torch_add=torch_add))), "implementation")


def test_a_share_that_is_not_known_is_a_dash_beside_one_that_is():
    text = page(record(timing=with_gaps(add=5.0, torch_add=None)))
    busy = cells(text, "implementation").index("busy")
    assert (cells(text, "add")[busy], cells(text, "torch.add")[busy]) == ("50%", "-")


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_page_of_few_rounds_says_neither_nan_nor_inf(rounds):
    times = {"add": steady(10, rounds=rounds), "torch.add": steady(20, rounds=rounds)}
    text = page(record(times=times))
    assert not re.search(r"\b(nan|inf)\b", text)
    assert cells(text, "torch.add")[-1].startswith("2.0"), "as fast, without an interval"
    assert "(" not in cells(text, "torch.add")[-1]


def test_a_clock_that_is_not_known_is_a_dash():
    known = record(times={"add": steady(10, jitter=0)}).timing
    unknown = dataclasses.replace(known, samples=tuple(dataclasses.replace(s, clock_mhz=None) for s in known.samples))
    text = page(record(timing=unknown))
    assert cells(text, "add")[cells(text, "implementation").index("SM clock")] == "-"


def test_without_work_or_peaks_the_times_stand_alone():
    text = page(record(times={"add": steady(10, jitter=0), "torch.add": steady(20, jitter=0)}, work=None, measured=None))
    assert cells(text, "add") == ["add", "10 us", "0.00%", "1980 MHz", "-", "-", "-"]
    assert cells(text, "torch.add")[-1] == "2.000x as fast (2.000 to 2.000)"
    alone = page(record(times={"add": [[10.0]], "torch.add": [[20.0]]}))
    assert cells(alone, "torch.add")[-1] == "2.000x as fast", "one round has no interval"
    assert cells(page(record(times={"add": [[10.0]]})), "add")[2] == "-", "one round has no spread"


@pytest.mark.parametrize("timer", TIMERS)
@pytest.mark.parametrize("cache", CACHES)
def test_timer_and_cache_are_named_with_what_they_mean(timer, cache):
    text = row(page(record(timing=timing({"add": steady(10)}, TimingPolicy(timer=timer, cache=cache)))), "time")
    first, second = text.splitlines()[:2]
    assert first == f"{timer}: {TIMERS[timer]}" and second.strip().startswith(f"{cache} cache: {CACHES[cache]}")
    assert ("by reading other memory" in text) == (cache == "cold"), "only a cold cache is flushed"


@pytest.mark.parametrize(
    "policy, said",
    [
        (TimingPolicy(timer="event", flush="discard"), FLUSHES["discard"]),
        (TimingPolicy(timer="event", cache="warm", calls=100), "a sample is the mean of 100 calls back to back"),
        (TimingPolicy(timer="event", gate=True), "behind a gate: the device waited until the host had launched the call"),
    ],
)
def test_what_else_was_asked_for_is_said_with_the_time_and_only_then(policy, said):
    assert said in row(page(record(timing=timing({"add": steady(10)}, policy))), "time")
    assert said not in page(record())


def test_the_noise_floor_the_warm_up_and_the_share_of_the_timed_calls_are_said():
    found = dataclasses.replace(record().timing, warmed_ms=312.4)  # 30 calls of 10 us and 30 of 20, one each 100 us
    text = row(page(record(timing=found, noise_floor=0.0023)), "time")
    assert "after 312 ms of warm-up; the timed calls took 15% of the time" in text
    assert "noise floor 0.23%: what this card shows between equal code" in text
    assert "noise floor" not in page(record())


def test_every_status_of_what_was_timed_and_of_the_card_stands_beside_the_times():
    statuses = (Status("SHARED", "process 7"), Status("DRIFT", "+4.4%", "add"), Status("COARSE", "steps", "torch.add"))
    text = page(record(statuses=(*statuses, Status("HIDDEN_WORK", "busy for 9 us", "was left out"))))
    assert "\n  SHARED: process 7\n  DRIFT add: +4.4%\n  COARSE torch.add: steps\n" in text
    assert "busy for 9 us" not in text, "that one is left out, with the reason there"


def test_what_stood_in_the_way_of_a_timing_is_said_in_its_place():
    hides = record(timing=None, statuses=(Status("HIDDEN_WORK", "busy for 30 us", "add"),), left_out=("timing: HIDDEN_WORK",))
    text = page(hides)
    assert row(text, "time").splitlines() == ["not timed", " " * 13 + "  HIDDEN_WORK add: busy for 30 us"]
    assert row(text, "left out") == "timing: HIDDEN_WORK"


def test_what_is_inside_the_interval_of_one_call_is_said_for_each_implementation():
    operations = (
        Operation("add", ("add_kernel",), 1, "TIRx by nvcc 13.0.88, code 0123", None, "the tunables of the record"),
        Operation("torch.add", ("void at::native::add<float>(int, float*)", "copy", "copy"), 2, "torch 2.14", 33_554_432, "none"),
        Operation("host", (), 1, "numpy", 0, "not declared"),
    )
    assert row(page(record(operations=operations)), "boundary").splitlines() == [
        "add: add_kernel (TIRx by nvcc 13.0.88, code 0123; tuning: the tunables of the record)",
        " " * 13 + "torch.add: at::native::add, 2 x copy on 2 streams (torch 2.14, 33.6 MB workspace; tuning: none)",
        " " * 13 + "host: nothing on the device (numpy; tuning: not declared)",
    ]
    assert "boundary" not in page(record())
    long = page(record(operations=(Operation("add", ("k" * 200,), 1, "", None, ""),)))
    assert f"{'k' * 57}..." in long and "k" * 58 not in long


def test_a_time_below_the_measured_floor_is_said():
    assert "faster than the measured peak allows" in page(record(us=4.0))
    assert "faster than the measured peak allows" not in page(record(us=5.0))


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


def test_a_driver_that_says_nothing_makes_no_failure():
    silent = timing({"add": steady(10)}, sm_clock_mhz=None, temperature_c=None, power_w=None)
    assert page(record(timing=silent, environment={}))


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
    assert text.splitlines()[:2] == ["inconclusive: 5.00 us after 10.00 us", "ratio 0.5000, no interval"]
    assert text.splitlines()[-1] == "changed: code a and b"


def test_a_comparison_has_what_limits_it_and_the_other_ratios_beside_the_interval():
    found = Comparison(
        "inconclusive", "SHARED: process 7", 10, 9, 0.9, 0.8, 1.0, (), 0.95, 0.91, 0.01, ("SHARED: process 7",), False
    )
    assert comparison(found).splitlines() == [
        "inconclusive: 9.00 us after 10.00 us",
        "ratio 0.9000, 95 % interval 0.8000 to 1.0000; by ranks 0.9100; in cycles 0.9500",
        "SHARED: process 7",
        "limited by SHARED: process 7",
    ]


def ratios_of(**ratios):
    """Verdicts by workload; a negative ratio is one that a status forbids."""
    return {
        label: Comparison("faster", "why", 10, 10 * abs(r), abs(r), abs(r), abs(r), p=0.01, sound=r > 0)
        for label, r in ratios.items()
    }


def test_every_workload_is_a_line_and_the_geometric_mean_is_of_the_ratios():
    text = verdicts(ratios_of(small=0.5, big=2.0))
    assert [line.split() for line in text.splitlines()[1:3]] == [
        ["small", "10", "us", "5", "us", "0.5000", "0.5000", "to", "0.5000", "0.01", "faster"],
        ["big", "10", "us", "20", "us", "2.0000", "2.0000", "to", "2.0000", "0.01", "faster"],
    ]
    assert text.splitlines()[-1] == "  geometric mean of 2 ratios 1.0000"


def test_the_geometric_mean_leaves_out_what_a_status_forbids_and_says_how_many():
    text, why = verdicts(ratios_of(a=0.5, b=-0.001, c=0.5, d=-0.1)), "left out: no interval, or a status forbids a verdict"
    assert text.splitlines()[-1] == f"  geometric mean of 2 ratios 0.5000; 2 {why}"
    assert len(text.splitlines()) == 6, "they have their lines all the same"
    assert verdicts(ratios_of(a=-0.5)).splitlines()[-1] == f"  no ratio to average; 1 {why}"


def test_verdicts_of_records_leave_out_the_one_whose_card_was_shared():
    times = {"add": steady(8, rounds=16), "torch.add": steady(10, rounds=16)}
    shared = record(times=times, statuses=(Status("SHARED", "process 7"),))
    text = verdicts(together({"fine": against(record(times=times), "torch.add"), "shared": against(shared, "torch.add")}))
    assert re.search(r"^ +fine .* faster$", text, re.MULTILINE) and re.search(r"^ +shared .* inconclusive$", text, re.MULTILINE)
    assert text.endswith("geometric mean of 1 ratios 0.8000; 1 left out: no interval, or a status forbids a verdict")


def test_a_workload_without_a_p_value_has_a_dash_and_no_interval():
    one_round = against(record(times={"add": [[8.0]], "torch.add": [[10.0]]}), "torch.add")
    text = verdicts({"one round": one_round})
    assert re.search(r"^ +one round .* 0\.8000 +no interval +- +inconclusive$", text, re.MULTILINE)
    assert "nan" not in text and "inf" not in text
    assert text.endswith("no ratio to average; 1 left out: no interval, or a status forbids a verdict")


def test_the_first_call_is_a_row_for_each_stage_with_median_least_and_most():
    stages = {"build": (0.1, 0.3, 0.2), "add: first call": (0.001, 0.0005, 0.002)}
    text = first_call(FirstCall("add", "512", "sm_90a", "NVIDIA H200", stages))
    assert text.splitlines()[0] == "add 512, 3 fresh processes on NVIDIA H200"
    lines = [re.split(r"  +", line.strip()) for line in text.splitlines()[1:]]
    assert lines == [
        ["stage", "median", "least", "most"],
        ["build", "200.0 ms", "100.0 ms", "300.0 ms"],
        ["add: first call", "1.0 ms", "0.5 ms", "2.0 ms"],
    ]


def test_the_peak_of_the_page_is_the_records_own():
    assert "123.4 TFLOP/s" in page(offline_record(theoretical=Peak("my card", 123.4, 1.5)))
