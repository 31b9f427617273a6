"""Device work of the profiler's traces: real captures of an H200, and made-up ones for each way in which a trace misleads.

The numbers F.. are those of the catalogue of ways in which a timing can be wrong.
"""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tirx_bench.device.trace import TracedCall, calls_of_trace, constant_kernels
from tirx_bench.model import FailedError

CAPTURES = Path(__file__).parent / "data" / "traces"
MM = "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_TNT"
FILL = "void at::native::vectorized_elementwise_kernel<FillFunctor>"
MAIN, HELPER = 596, 335541952
PERIOD = 1000.0  # microseconds from one call to the next, in traces that are made up


def capture(name: str) -> dict:
    return json.loads((CAPTURES / f"h200-{name}.json").read_text())


def event(cat, name, ts, dur, pid, tid, **args) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def own_range(name, begin, end, tid=MAIN) -> dict:
    return event("user_annotation", name, begin, end - begin, 596, tid)


numbers = itertools.count(1)


def kernel(name="gemm", at=200.0, us=10.0, *, stream=7, launched=150.0, tid=MAIN, cat="kernel", device=0) -> list[dict]:
    """A launch record and its device activity; the times count from the begin of the call's period."""
    number = next(numbers)
    return [
        event("cuda_runtime", "cudaLaunchKernel", launched, 5.0, 596, tid, correlation=number),
        event(cat, name, at, us, device, stream, correlation=number, stream=stream, device=device),
    ]


def flush(at=50.0, us=20.0) -> list[dict]:
    return kernel(FILL, at, us, launched=30.0)


def stamp() -> list[dict]:
    return kernel("stamp", 350.0, 1.0, launched=320.0)


def period(n: int, *work: list[dict]) -> list[dict]:
    """The events of call `n`: "before" over 0 to 100, "call" over 100 to 300 and "after" over 300 to 400."""
    ranges = [
        own_range(f"tirx before {n}", 0, 100),
        own_range(f"tirx call {n}", 100, 300),
        own_range(f"tirx after {n}", 300, 400),
    ]
    return [{**e, "ts": e["ts"] + n * PERIOD} for e in [*ranges, *itertools.chain(*work)]]


def trace_of(*periods: list[dict]) -> dict:
    """Each call's work, without the flush that goes ahead of it; `period` makes other ones."""
    return {"traceEvents": [e for each in periods for e in each]}


def looped(*works: list[list[dict]]) -> dict:
    """A flush and then this work, for each call."""
    return trace_of(*(period(n, flush(), *work) for n, work in enumerate(works)))


def refused(trace, count, *parts: str) -> FailedError:
    with pytest.raises(FailedError) as caught:
        calls_of_trace(trace, count)
    for part in parts:
        assert part in caught.value.message
    return caught.value


def without(trace: dict, *positions: int) -> dict:
    return {"traceEvents": [e for at, e in enumerate(trace["traceEvents"]) if at not in positions]}


def places(trace: dict, cat: str) -> list[int]:
    return [at for at, e in enumerate(trace["traceEvents"]) if e.get("cat") == cat]


# ------------------------------------------------------------------------------------- real captures


def test_a_tirx_kernel_launched_by_the_driver_api_is_one_kernel_whose_span_is_its_duration():
    calls = calls_of_trace(capture("tirx"), 4)
    assert [c.kernels for c in calls] == [("gemm_kernel",)] * 4
    assert [c.span_us for c in calls] == [13.344, 13.056, 13.088, 12.864]
    assert all(c.span_us == c.busy_us == c.sum_us and c.streams == 1 for c in calls)
    assert calls[0].start_us == 5235727496486.732


@pytest.mark.parametrize(
    "name, kernels, streams",
    [
        ("mm", (MM,), 1),
        ("forkjoin", (MM, "gemm_kernel"), 2),
        ("side", (MM,), 1),
        ("helper", (MM,), 1),  # launched by another thread than the one that called
        ("graph", ("gemm_kernel", MM), 1),  # two kernels of one launch record
        ("copies", ("Memcpy DtoD (Device -> Device)", "gemm_kernel"), 1),
    ],
)
def test_each_call_of_a_capture_has_its_kernels_and_no_flush(name, kernels, streams):
    calls = calls_of_trace(capture(name), 4)
    assert [(c.kernels, c.streams) for c in calls] == [(kernels, streams)] * 4
    assert constant_kernels(calls, name) == kernels


@pytest.mark.parametrize("name", ["forkjoin", "graph", "copies"])
def test_kernels_one_after_the_other_have_a_gap_in_their_span(name):
    for call in calls_of_trace(capture(name), 4):
        assert call.span_us > call.busy_us == pytest.approx(call.sum_us)


def test_calls_that_launched_nothing_are_refused_with_the_timer_for_host_work():
    error = refused(capture("empty"), 4, "4 of 4 calls launched nothing: 0, 1, 2 and 1 more")
    assert "--timer wall" in error.hint


def test_one_call_that_launched_nothing_is_named_and_not_taken_for_host_work():
    error = refused(looped([kernel()], [], [kernel()]), 3, "1 of 3 calls launched nothing: 1")
    assert "--timer" not in error.hint


# ----------------------------------------------------------------------------------------- durations


def test_f3_gaps_between_short_kernels_are_in_the_span_and_not_in_the_busy_time():
    (call,) = calls_of_trace(looped([kernel("k", 200 + n * 39.875, 13) for n in range(7)] + [kernel("k", 610, 13)]), 1)
    assert (call.span_us, call.busy_us, call.sum_us) == (423, 104, 104)
    assert 1 - call.busy_us / call.span_us == pytest.approx(0.75, abs=0.005)


def test_f37_kernels_that_overlap_count_once_in_the_busy_time_and_twice_in_the_sum():
    (call,) = calls_of_trace(looped([kernel("a", 200, 1), kernel("b", 200, 1, stream=13)]), 1)
    assert (call.sum_us, call.busy_us, call.span_us, call.streams) == (2, 1, 1, 2)


def test_a_kernel_inside_a_longer_one_does_not_end_the_span():
    (call,) = calls_of_trace(looped([kernel("long", 200, 100), kernel("short", 210, 5, stream=13)]), 1)
    assert (call.kernels, call.span_us, call.busy_us, call.sum_us) == (("long", "short"), 100, 100, 105)


def test_kernels_are_in_order_of_start_and_not_of_the_trace():
    (call,) = calls_of_trace(looped([kernel("second", 220), kernel("first", 200), kernel("set", 240, cat="gpu_memset")]), 1)
    assert (call.kernels, call.start_us) == (("first", "second", "set"), 200)


def test_streams_of_one_number_on_two_devices_are_two():
    (call,) = calls_of_trace(looped([kernel(), kernel(at=210, device=1)]), 1)
    assert call.streams == 2


def test_nanoseconds_survive_a_clock_of_three_months():
    quarter = 7_800_000_000_000
    trace = looped([kernel("a", 200, 0.001), kernel("b", 200.001, 1.001)])
    for e in trace["traceEvents"]:
        e["ts"] += quarter
    (call,) = calls_of_trace(trace, 1)
    assert (call.span_us, call.busy_us) == (1.002, 1.002)  # 1.001 times 1000 is 1000.9999999999999


# ------------------------------------------------------------------------------------- whose work it is


def test_f22_a_users_own_fill_counts_although_the_flush_has_its_name():
    (call,) = calls_of_trace(looped([kernel(FILL), kernel(at=220)]), 1)
    assert call.kernels == (FILL, "gemm")


def test_f10_a_launch_by_another_thread_counts_after_the_call_returned():
    late = kernel("late", 450, launched=420.0, tid=HELPER)
    calls = calls_of_trace(looped([kernel(), late], [kernel()]), 2)
    assert [c.kernels for c in calls] == [("gemm", "late"), ("gemm",)]


@pytest.mark.parametrize("launched", [150.0, 350.0])
def test_f10_a_launch_by_another_thread_is_the_calls_whatever_range_the_main_thread_is_in(launched):
    (call,) = calls_of_trace(looped([kernel(at=400, launched=launched, tid=HELPER)]), 1)
    assert call.kernels == ("gemm",)


def test_f10_a_launch_by_another_thread_while_the_next_flush_is_launched_is_the_last_calls():
    late = kernel("late", 1040, 5, launched=1010.0, tid=HELPER)
    calls = calls_of_trace(looped([kernel(), late], [kernel()]), 2)
    assert [c.kernels for c in calls] == [("gemm", "late"), ("gemm",)]


def test_a_launch_by_the_main_thread_after_all_ranges_counts_too():
    calls = calls_of_trace(looped([kernel(), kernel("late", 450, launched=420.0)], [kernel()]), 2)
    assert [c.kernels for c in calls] == [("gemm", "late"), ("gemm",)]


def test_the_workbenchs_own_work_after_a_call_does_not_count():
    calls = calls_of_trace(looped([kernel(), stamp()], [kernel(), stamp()]), 2)
    assert [c.kernels for c in calls] == [("gemm",), ("gemm",)]


def test_work_before_the_first_call_is_nobodys():
    early = kernel("early", -500, launched=-600.0) + kernel("early", 10, 5, launched=5.0, tid=HELPER)
    for e in early:
        e["ts"] += PERIOD
    trace = looped([], [kernel()])
    of_call_1 = [{**e, "name": e["name"].replace("1", "0")} for e in trace["traceEvents"] if e["ts"] >= PERIOD]
    (call,) = calls_of_trace(trace_of(early, of_call_1), 1)
    assert call.kernels == ("gemm",)


def test_a_launch_record_inside_another_of_the_same_number_does_not_move_the_work():
    late = kernel("late", 450, launched=295.0)
    inner = {**late[0], "cat": "cuda_driver", "ts": 1150.0}  # would be of call 1
    calls = calls_of_trace(looped([kernel(), late, [inner]], [kernel()]), 2)
    assert [c.kernels for c in calls] == [("gemm", "late"), ("gemm",)]


def test_the_devices_own_annotations_of_a_range_are_no_ranges():
    trace = looped([kernel()])
    trace["traceEvents"].append(event("gpu_user_annotation", "tirx call 0", 200.0, 10.0, 0, 7))
    assert len(calls_of_trace(trace, 1)) == 1


# ---------------------------------------------------------------------------------------- lost records


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_range_of_a_call_is_refused_with_how_many_are_left(lost):
    trace = looped([kernel()], [kernel()], [kernel()])
    position = next(at for at, e in enumerate(trace["traceEvents"]) if e["name"] == f"tirx call {lost}")
    refused(without(trace, position), 3, "2 of 3 calls", "began late")


@pytest.mark.parametrize("names", [["0", "0", "1"], ["1", "0"], ["0", "1", "2"], ["0", "x"]])
def test_ranges_that_are_not_each_call_once_and_in_order_are_refused(names):
    events = [e for n, name in enumerate(names) for e in period(n, kernel()) if e["name"][:5] != "tirx "]
    ranges = [own_range(f"tirx call {name}", n * PERIOD + 100, n * PERIOD + 300) for n, name in enumerate(names)]
    refused(trace_of(events, ranges), 2, "of 2 calls", "ranges")


@pytest.mark.parametrize("change", [{"dur": 5000.0}, {"tid": HELPER}, {"pid": 1}])
def test_ranges_that_overlap_or_are_of_several_threads_are_refused(change):
    trace = looped([kernel()], [kernel()])
    trace["traceEvents"][1].update(change)
    refused(trace, 2, "not readable", "ranges")


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_f34_a_session_that_lost_its_leading_kernels_is_refused(lost):
    trace = looped([kernel()], [kernel()], [kernel()])
    error = refused(without(trace, *places(trace, "kernel")[:lost]), 3, "lost records", "tirx before 0 has 0")
    assert "time it again" in error.hint


def test_f34_a_real_session_without_its_first_kernel_is_refused():
    trace = capture("tirx")
    first = min(places(trace, "kernel"), key=lambda at: trace["traceEvents"][at]["ts"])
    refused(without(trace, first), 4, "lost records")


def test_a_lost_record_of_the_work_after_a_call_is_refused():
    refused(looped([kernel(), stamp()], [kernel()], [kernel(), stamp()]), 3, "lost records", "tirx after 1 has 0")


def test_a_kernel_without_a_launch_record_is_named():
    trace = looped([kernel("orphan")])
    refused(without(trace, places(trace, "cuda_runtime")[-1]), 1, "lost its launch records", "orphan")


# -------------------------------------------------------------------------------- not the call's own time


def test_f19_a_flush_that_runs_into_the_timed_window_is_refused():
    refused(trace_of(period(0, flush(50, 151), kernel(at=200))), 1, "work ahead of call 0", f"{FILL} on stream 7")


def test_f19_a_flush_that_runs_after_the_call_it_is_for_is_refused():
    refused(trace_of(period(0, flush(250), kernel(at=200))), 1, "work ahead of call 0")


def test_a_call_that_begins_when_the_flush_ends_and_ends_when_the_next_begins_is_its_own():
    calls = calls_of_trace(trace_of(period(0, flush(50, 150), kernel(at=200, us=850)), period(1, flush(), kernel())), 2)
    assert [c.span_us for c in calls] == [850, 10]


def test_f9_work_that_still_runs_when_the_next_flush_begins_is_refused_with_its_stream():
    hidden = kernel("side", 210, 850, stream=13)
    refused(looped([kernel(), hidden], [kernel()]), 2, "call 0 has hidden work", "side on stream 13")


def test_f6_work_that_begins_after_the_next_flush_is_refused():
    hidden = kernel("queued", 1500, 10, stream=13)
    refused(looped([kernel(), hidden], [kernel(at=600)]), 2, "call 0 has hidden work", "queued on stream 13")


def test_f9_several_hidden_kernels_are_counted_and_not_all_named():
    hidden = [kernel(f"side {n}", 1100 + n, 1, stream=13) for n in range(5)]
    error = refused(looped([kernel(), *hidden], [kernel()]), 2, "side 0", "side 2", "and 2 more")
    assert "side 3" not in error.message and "gemm" not in error.message


def test_f9_without_work_between_them_a_call_may_not_reach_into_the_next_call():
    apart = [period(n, kernel()) for n in range(2)]
    assert [c.span_us for c in calls_of_trace(trace_of(*apart), 2)] == [10, 10]
    refused(trace_of(period(0, kernel("side", us=1001, stream=13)), apart[1]), 2, "call 0 has hidden work")


# ------------------------------------------------------------------------------------- the same kernels


def of_kernels(*names: str) -> TracedCall:
    return TracedCall(names, 1, 1.0, 1.0, 1.0, 0.0)


def test_f35_kernels_that_are_no_multiple_of_the_calls_are_refused_with_their_counts():
    usual, odd = of_kernels("gemm_kernel", *["fill"] * 5), of_kernels("gemm_kernel", *["fill"] * 4)
    with pytest.raises(FailedError) as caught:
        constant_kernels([*[usual] * 3, odd, *[usual] * 42, *[odd] * 4], "torch.mm")
    assert caught.value.message == (
        "torch.mm launched 295 kernels in 50 calls: fill 245, gemm_kernel 50 (call 3 has fill 4; call 0 has fill 5)"
    )


def test_f35_calls_of_as_many_kernels_of_other_names_differ():
    with pytest.raises(FailedError, match=r"2 kernels in 2 calls: .*call 1 has a 0, b 1; call 0 has a 1, b 0"):
        constant_kernels([of_kernels("a"), of_kernels("b")], "mine")


def test_kernels_on_two_streams_may_start_in_either_order():
    assert constant_kernels([of_kernels("a", "b"), of_kernels("b", "a")], "mine") == ("a", "b")


# ------------------------------------------------------------------------------------ malformed traces


@pytest.mark.parametrize("trace", [None, [], "text", {}, {"traceEvents": None}, {"traceEvents": {}}, {"traceEvents": [1]}])
def test_what_is_no_trace_is_refused(trace):
    refused(trace, 1, "not readable")


@pytest.mark.parametrize("cat", ["user_annotation", "cuda_runtime", "kernel"])
@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", ["12", None, float("nan"), float("inf"), -1.0, 1.79e15, 10**400, True, []])
def test_a_time_that_cannot_be_right_is_refused(cat, field, value):
    trace = looped([kernel()], [kernel()])
    trace["traceEvents"][places(trace, cat)[1]][field] = value
    refused(trace, 2, "not readable", field)


@pytest.mark.parametrize(
    "cat, field",
    [*itertools.product(["user_annotation", "cuda_runtime", "kernel"], ["ts", "dur", "name", "pid", "tid"])]
    + [*itertools.product(["cuda_runtime", "kernel"], ["args", "correlation"])],
)
def test_a_field_that_is_missing_or_of_another_type_is_refused(cat, field):
    for value in ("gone", None, [], True):
        trace = looped([kernel()], [kernel()])
        broken = trace["traceEvents"][places(trace, cat)[1]]
        holder = broken["args"] if field == "correlation" else broken
        holder[field] = value
        if value == "gone":
            del holder[field]
        refused(trace, 2, "not readable", field)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)


def outcome(trace, count) -> list[TracedCall] | None:
    """The calls; none where they are refused. Nothing else may be raised."""
    try:
        return calls_of_trace(trace, count)
    except FailedError as error:
        assert error.message and error.hint
        return None


@settings(deadline=None, max_examples=60)
@given(JSON | st.fixed_dictionaries({"traceEvents": st.lists(JSON, max_size=4)}))
@example({"traceEvents": [{"cat": []}]})
def test_anything_is_refused_and_never_a_traceback(trace):
    assert outcome(trace, 1) is None


CATEGORIES = ("user_annotation", "cuda_driver", "cuda_runtime", "kernel")
RELEVANT = [e for e in capture("forkjoin")["traceEvents"] if e.get("cat") in CATEGORIES]
WHOLE = calls_of_trace({"traceEvents": RELEVANT}, 4)
FIELDS = ["cat", "name", "pid", "tid", "ts", "dur", "args"]


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, len(RELEVANT) - 1),
    st.sampled_from(FIELDS),
    JSON | JSON.map(lambda v: {"correlation": v}),
)
def test_a_real_trace_with_one_field_of_anything_is_read_or_refused(at, field, value):
    events = copy.deepcopy(RELEVANT)
    events[at][field] = value
    calls = outcome({"traceEvents": events}, 4)
    assert calls is None or all(0 <= c.busy_us <= min(c.span_us, c.sum_us) + 1e-6 for c in calls)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(RELEVANT)))
def test_a_real_trace_cut_short_is_refused_or_its_calls_differ(length):
    calls = outcome({"traceEvents": RELEVANT[:length]}, 4)
    assert calls in (None, WHOLE) or len({c.kernels for c in calls}) > 1  # which constant_kernels refuses


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50), st.sampled_from([7, 13])), min_size=1, max_size=6))
def test_the_busy_time_is_that_of_every_nanosecond_counted_once(intervals):
    work = [kernel(f"k{n}", 200 + at / 1e3, ns / 1e3, stream=stream) for n, (at, ns, stream) in enumerate(intervals)]
    (call,) = calls_of_trace(looped(work), 1)
    touched = {ns for at, length, _ in intervals for ns in range(at, at + length)}
    assert round(call.busy_us * 1e3) == len(touched)
    assert round(call.sum_us * 1e3) == sum(length for _, length, _ in intervals)
    assert round(call.span_us * 1e3) == max(at + length for at, length, _ in intervals) - min(at for at, _, _ in intervals)
    assert call.streams == len({stream for _, _, stream in intervals})


def test_reading_a_trace_leaves_it_as_it_was():
    trace = capture("forkjoin")
    before = copy.deepcopy(trace)
    calls_of_trace(trace, 4)
    assert trace == before
