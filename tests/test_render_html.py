"""The page of a record is one well-formed file that needs no network, says everything and escapes what it was given."""

from __future__ import annotations

import dataclasses
import math
import random
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from helpers_records import offline_record, record, steady, timing, verification
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_bench.compare import Comparison
from tirx_bench.model import STATUSES, TIMERS, Operation, Sample, Status, Timing, TimingPolicy
from tirx_bench.render.html import record_html
from tirx_bench.render.svg import COLOURS, MARKS, MOST_POINTS, nice_ticks, ratio_intervals, samples_over_time

SVG = "{http://www.w3.org/2000/svg}"
EVIL = """</script><script>alert('x')</script> & "quoted" <b> \x1b[31m \x00"""


class Page(HTMLParser):
    """The text of a page, its tags, and those that were not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.open, self.wrong = "", [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


def read(text: str) -> Page:
    page = Page(text)
    assert not page.open and not page.wrong
    assert text.lstrip().startswith("<!doctype html>")
    return page


def jittery(rounds: int = 16, calls: int = 20, names=("add", "torch.add", "triton", "old")) -> Timing:
    rng = random.Random(1)
    return timing(
        {name: [[rng.gauss(100 + n, 0.3) for _ in range(calls)] for _ in range(rounds)] for n, name in enumerate(names)}
    )


# ------------------------------------------------------------------------------------------------- page


def test_the_verdict_comes_first_and_every_section_follows():
    page = read(record_html(record(operations=(Operation("add", ("k", "k"), 1, "c0ffee", 4096, "by hand"),))))
    heads = re.findall(r"<h2>(.*?)</h2>", record_html(record()))
    order = "Verdict Limits Ratios Times Samples_over_time Protocol Verification Resources Findings Environment Artifact"
    assert [head.replace(" ", "_") for head in heads] == order.split()
    assert "Operation boundaries" in page.text and "2 x k" in page.text and "4096" in page.text
    assert ("html", {"lang": "en"}) in page.tags and [tag for tag, _ in page.tags].count("h1") == 1
    tables = [tag for tag, _ in page.tags].count("table")
    assert tables == [tag for tag, _ in page.tags].count("caption") >= 7
    assert all(attrs.get("scope") in ("col", "row") for tag, attrs in page.tags if tag == "th")


def test_the_verdict_has_its_ratio_its_interval_and_its_reason():
    text = read(record_html(record(times={"add": steady(10.0, 16), "torch.add": steady(20.0, 16)}))).text
    assert "faster than torch.add: 2.0000x (2.0000 to 2.0000) as fast" in text
    assert "8 units of two rounds; 0.50% either way is no difference; no noise floor was measured here" in text
    short = read(record_html(record(times={"add": steady(10.0, 1), "torch.add": steady(20.0, 1)}))).text
    assert "inconclusive against torch.add: 2.0000x (no interval) as fast" in short and "a unit takes two rounds" in short


def test_throughput_stands_beside_the_time_the_work_and_what_the_timer_means():
    text = read(record_html(record())).text
    assert "TFLOP/s is the work counted, 4 GFLOP in bfloat16 and 4 MB at least" in text
    assert TIMERS["event"] in text and "400" in text and "50.0%" in text
    without = read(record_html(record(work=None))).text
    assert "The kernel states no work, so there is no throughput." in without and "TFLOP/s" not in without


def test_the_kernel_timer_adds_busy_time_and_the_host():
    made = jittery(4, names=("add", "torch.add"))
    samples = tuple(dataclasses.replace(s, busy_us=s.us - 1, event_us=s.us + 6) for s in made.samples)
    untraced = tuple(Sample(s.implementation, s.round, s.us + 4) for s in made.samples)
    kernel = Timing(TimingPolicy(), samples, made.states, verified=True, untraced=untraced)
    text = read(record_html(record(timing=kernel))).text
    assert "host adds [us]" in text and "4.00" in text and "2.00" in text and TIMERS["kernel"] in text


def test_every_field_of_the_policy_and_every_value_of_the_environment_is_there():
    text = read(record_html(record())).text
    assert not [f.name for f in dataclasses.fields(TimingPolicy) if f.name not in text]
    assert "rounds done" in text and "empty event" in text and "GPU-1" in text and "/build/tirx/add/0123456789abcdef" in text


def test_a_status_has_its_meaning_its_evidence_and_what_it_takes_away():
    text = read(record_html(record(statuses=(Status("SHARED", "two other processes"), Status("COARSE", "500 ns", "add"))))).text
    for words in ("SHARED", STATUSES["SHARED"].text, "no verdict", "two other processes", "COARSE", "500 ns"):
        assert words in text
    assert "inconclusive against torch.add" in text and "SHARED: two other processes" in text


def test_a_record_without_a_gpu_says_what_was_left_out_and_why():
    text = read(record_html(offline_record())).text
    assert "left out: numerics and timing: there is no CUDA device" in text and "not verified" in text
    assert "no verdict" in text and "Protocol" not in text and "<svg" not in record_html(offline_record())


def test_a_failed_verification_is_said_at_the_top():
    wrong = verification(wrong_elements=3, worst_actual=None, max_abs_error=None, problem="is not finite")
    text = read(record_html(record(timing=None, verification=wrong))).text
    assert text.index("WRONG") < text.index("Resources") and "FAILED is not finite" in text and "3 of 131072" in text


@pytest.mark.parametrize("rounds", (1, 2, 3))
def test_one_implementation_and_few_rounds_have_a_page(rounds):
    text = read(record_html(record(timing=jittery(rounds, 3, ("add",))))).text
    assert "No baseline was timed with the kernel." in text and f"{3 * rounds} samples" in text


@pytest.mark.parametrize("rounds", (1, 2, 3))
def test_a_page_of_few_rounds_says_neither_nan_nor_inf(rounds):
    times = {"add": steady(10.0, rounds), "torch.add": steady(20.0, rounds)}
    html = record_html(record(times=times))
    assert not re.search(r"\b(nan|inf)\b", html)
    assert "2.0" in read(html).text and "(no interval) as fast" in read(html).text


def test_hostile_names_and_evidence_are_escaped():
    times = {EVIL: steady(10.0), f"torch {EVIL}": steady(20.0)}
    hostile = record(
        kernel=EVIL, timing=timing(times), command=EVIL, left_out=(EVIL,), environment={EVIL: EVIL, "gpu": EVIL},
        statuses=(Status("COARSE", EVIL, EVIL),), operations=(Operation(EVIL, (EVIL,), 1, EVIL, None, EVIL),),
    )  # fmt: skip
    page = read(record_html(hostile))
    assert not [tag for tag, _ in page.tags if tag in ("script", "b")]
    assert page.text.count("alert('x')") > 12


def test_the_page_needs_no_network_and_no_script():
    text = record_html(record(timing=jittery()))
    assert not re.findall(r"https?://", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    tags = read(text).tags
    assert not [tag for tag, attrs in tags if tag in ("script", "link", "iframe", "img") or {"src", "href"} & set(attrs)]
    assert not re.findall(r"@import|url\(", text)


def test_a_large_record_is_below_a_megabyte():
    names = [f"implementation {n}" for n in range(7)]
    text = record_html(record(timing=jittery(20, 100, ("add", *names))))
    assert len(text.encode()) < 1e6
    assert all(name in text for name in names)


# ------------------------------------------------------------------------------------------------ plots


def drawn(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.get("role") == "img" and root.get("aria-label") and root[0].tag == f"{SVG}title"
    height, width = float(root.get("viewBox").split()[3]), float(root.get("viewBox").split()[2])
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height
    return root


def words(root: ET.Element) -> str:
    return " | ".join(e.text or "" for e in root.iter(f"{SVG}text"))


def test_every_implementation_has_a_panel_a_colour_and_a_mark():
    root = drawn(samples_over_time(jittery()))
    assert all(f"{name} [us]" in words(root) for name in ("add", "torch.add", "triton", "old"))
    paths = [p for p in root.iter(f"{SVG}path") if p.get("stroke-opacity")]
    assert len({p.get("stroke") for p in paths}) == 4
    assert [p.get("d").count(mark) for p, mark in zip(paths, MARKS, strict=False)] == [320] * 4
    assert "time since the first sample [ms]" in words(root) and "SM clock [MHz]" in words(root)
    assert len(set(MARKS)) == len(MARKS) > len(set(COLOURS)) == len(COLOURS)


def test_outliers_are_triangles_and_are_counted():
    made = jittery(4, 50, ("add", "torch.add"))
    samples = [dataclasses.replace(s, us=1e5 if n in (3, 40) else 0.5 if n == 20 else s.us) for n, s in enumerate(made.samples)]
    root = drawn(samples_over_time(dataclasses.replace(made, samples=tuple(samples))))
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "outlier"]) == 3
    assert "2 above, up to 100000 us; 1 below, down to 0.5000 us" in words(root)
    assert "all of 400 samples drawn, and 3 far out as triangles" in words(root)


def test_of_many_samples_some_are_drawn_and_every_outlier():
    made = jittery(20, 150)
    samples = [dataclasses.replace(s, us=s.us * 50 if n % 1000 == 0 else s.us) for n, s in enumerate(made.samples)]
    root = drawn(samples_over_time(dataclasses.replace(made, samples=tuple(samples))))
    outliers = [p for p in root.iter(f"{SVG}path") if p.get("class") == "outlier"]
    points = sum(p.get("d").count("M") for p in root.iter(f"{SVG}path") if p.get("stroke-opacity"))
    assert len(outliers) >= 12 and 0.9 * MOST_POINTS < points <= MOST_POINTS + 4
    assert f"1 in 3 of 12000 samples drawn, and {len(outliers)} far out" in words(root)


def test_without_clocks_or_times_of_the_samples_there_is_still_a_plot():
    bare = [dataclasses.replace(s, at_us=0.0, clock_mhz=None) for s in jittery(2, 3).samples]
    root = drawn(samples_over_time(dataclasses.replace(jittery(2, 3), samples=tuple(bare))))
    assert "number of the sample" in words(root) and "clock" not in words(root)
    drawn(samples_over_time(dataclasses.replace(jittery(2, 3), samples=tuple(bare[:1]))))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30))
def test_any_samples_give_a_plot(values):
    drawn(samples_over_time(timing({EVIL: [values]})))


def row(ratio: float = 0.9, low: float = 0.88, high: float = 0.92, **more) -> Comparison:
    return Comparison("inconclusive", "", 20.0, 10.0, ratio, low, high, **more)


def test_the_ratios_are_of_speed_and_a_missing_interval_is_said():
    root = drawn(ratio_intervals({"torch": row(), "few": row(math.nan, 0.0, math.inf), EVIL: row(0.02, 1e-9, 1e9, sound=False)}))
    assert "1.1111x (1.0870 to 1.1364) inconclusive" in words(root)
    assert "2.0000x (no interval)" in words(root) and "kernel is x times as fast" in words(root)
    assert [c.get("fill") for c in root.iter(f"{SVG}circle")][1:] == ["none", "currentColor"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.001, 1000), st.floats(1, 100)), min_size=1, max_size=6), st.floats(0.005, 0.1))
def test_every_point_of_any_ratios_is_within_the_plot(found, margin):
    root = drawn(ratio_intervals({str(n): row(r, r / w, r * w) for n, (r, w) in enumerate(found)}, margin))
    assert all(12 <= float(c.get("cx")) <= 408 for c in root.iter(f"{SVG}circle"))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_few_and_within_the_range(low, width):
    ticks = nice_ticks(low, low + width)
    assert 2 <= len(ticks) <= 8 and all(low - width * 1e-3 <= value <= low + width * 1.001 for value, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)
    assert all(float(label) == pytest.approx(value, abs=width * 1e-3) for value, label in ticks)
