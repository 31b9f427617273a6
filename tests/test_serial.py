"""Values to JSON and back: what goes out comes in again, and what does not fit is refused by name."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tirx_bench.model import (
    TIMERS,
    Artifact,
    Finding,
    NothingRanError,
    OutputCheck,
    Peak,
    Place,
    Record,
    Resources,
    RoundState,
    Sample,
    Timing,
    TimingPolicy,
    Tolerance,
    UsageError,
    Verification,
    Work,
    Workload,
)
from tirx_bench.serial import from_plain, to_plain

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=8)
COUNT = st.integers(0, 1 << 40)
VALUE = st.booleans() | st.integers() | FINITE | TEXT
PARAMS = st.dictionaries(TEXT, VALUE, max_size=3)
SHAPE = st.lists(COUNT, max_size=3).map(tuple)


def several(strategy, least=0):
    return st.lists(strategy, min_size=least, max_size=2).map(tuple)


PLACES = st.builds(Place, TEXT, COUNT, COUNT)
FINDINGS = st.builds(
    Finding, TEXT, st.sampled_from(("error", "warning", "note", "lead")), TEXT, st.none() | PLACES, TEXT, several(TEXT)
)
WORKLOADS = st.builds(Workload, st.text(min_size=1, max_size=8), PARAMS)
TOLERANCES = st.builds(Tolerance, FINITE, FINITE)
WORK = st.builds(Work, FINITE, FINITE, TEXT)
PEAKS = st.builds(Peak, TEXT, FINITE, FINITE)
RESOURCES = st.builds(Resources, TEXT, *[COUNT] * 7, SHAPE, SHAPE, COUNT)
POLICIES = st.builds(
    TimingPolicy, st.sampled_from(sorted(TIMERS)), st.sampled_from(("cold", "warm")), st.floats(0, 1e6), st.floats(1e-3, 1e6),
    st.integers(1, 100), COUNT,
)  # fmt: skip
OUTPUTS = st.builds(
    OutputCheck, TEXT, SHAPE, TEXT, *[st.none() | FINITE] * 3, SHAPE, *[st.none() | FINITE] * 2, COUNT, TOLERANCES, TEXT
)
VERIFICATIONS = st.builds(Verification, several(OUTPUTS), COUNT, TEXT, TEXT)
STATES = st.builds(RoundState, COUNT, st.none() | COUNT, st.none() | COUNT, st.none() | FINITE, several(TEXT))
TIMINGS = st.builds(Timing, POLICIES, several(st.builds(Sample, TEXT, COUNT, FINITE), 1), several(STATES), st.just(True))
ARTIFACTS = st.builds(
    Artifact, TEXT, TEXT, WORKLOADS, PARAMS, TEXT, TEXT, several(TEXT), TEXT, TEXT, several(RESOURCES), several(FINDINGS),
    st.dictionaries(TEXT, TEXT, max_size=2), st.booleans(),
)  # fmt: skip


def record_of_its_own_timing(kernel, *rest):
    """A record does not construct when its timing holds no sample of its kernel."""
    timing = rest[-2]
    return Record(timing.implementations[0] if timing else kernel, *rest)


RECORDS = st.builds(
    record_of_its_own_timing,
    TEXT, WORKLOADS, TEXT, TEXT, st.none() | WORK, st.none() | PEAKS, ARTIFACTS, st.dictionaries(TEXT, COUNT, max_size=2),
    st.dictionaries(TEXT, VALUE | st.none(), max_size=2), several(FINDINGS), st.none() | PEAKS, st.none() | VERIFICATIONS,
    st.none() | TIMINGS, several(TEXT),
)  # fmt: skip
BY_KIND = {
    Finding: FINDINGS, Workload: WORKLOADS, TimingPolicy: POLICIES, Resources: RESOURCES, Verification: VERIFICATIONS,
    Timing: TIMINGS, Artifact: ARTIFACTS, Record: RECORDS,
}  # fmt: skip
QUICK = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def through_json(value):
    return json.loads(json.dumps(to_plain(value)))


@pytest.mark.parametrize("kind", BY_KIND, ids=lambda kind: kind.__name__)
def test_a_value_comes_back_as_it_was(kind):
    @QUICK
    @given(BY_KIND[kind])
    def check(value):
        again = from_plain(kind, through_json(value))
        assert again == value
        assert repr(again) == repr(value)  # also the types: 1 is not True and not 1.0

    check()


def example(kind):
    """One value with every optional part present."""
    place = Place("a.py", 3)
    finding = Finding("SPILL", "warning", "it spills", place, "64 bytes", ("a", "b"))
    workload = Workload("4096", {"m": 4096, "dtype": "bfloat16", "alpha": 1.5, "relu": True})
    resources = Resources("gemm", 168, 0, 0, 0, 0, 230400, 384, (132, 1, 1), (1, 1, 1), 16)
    artifact = Artifact("/a", "gemm", workload, {"bn": 256}, "sm_90a", "nvcc", ("nvcc",), "0", "1", (resources,), (finding,), {})
    check = OutputCheck("c", (2, 2), "bfloat16", 0.0, 0.0, 0.0, (0, 1), 1.0, 1.0, 0, Tolerance(1e-2, 1e-2))
    timing = Timing(TimingPolicy(), (Sample("gemm", 0, 172.6),), (RoundState(0, 1980, 40, 300.5, ("power cap",)),), True)
    record = Record("gemm", workload, "run", "now", Work(1.0, 2.0, "bfloat16"), Peak("sheet", 989.4, 4.8), artifact,
                    {"HGMMA": 8}, {"gpu": "H200"}, (finding,), Peak("run", 700.0, 4.0),
                    Verification((check,), 0, "normal(0, 1)", "FP32"), timing, ("a part",))  # fmt: skip
    return {Record: record, Artifact: artifact, Timing: timing, Finding: finding, Workload: workload}[kind]


def paths(value, at=()):
    """Every field of a value as the keys that lead to it and the name that a message should give it."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            yield (*at, field.name), field, value
            yield from paths(part, (*at, field.name))
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from paths(part, (*at, index))


def name(kind, keys):
    return kind.__name__ + "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in keys)


def holder(plain, keys):
    for key in keys[:-1]:
        plain = plain[key]
    return plain


FIELDS = [(keys, field, type(owner)) for keys, field, owner in paths(example(Record))]


@pytest.mark.parametrize(("keys", "field", "owner"), FIELDS, ids=[name(Record, keys) for keys, _, _ in FIELDS])
def test_a_field_that_is_missing_unknown_or_of_another_type_is_refused_by_name(keys, field, owner):
    plain = through_json(example(Record))
    where = holder(plain, keys)
    right = where.pop(field.name)
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        with pytest.raises(UsageError) as caught:
            from_plain(Record, plain)
        assert caught.value.message == f"{name(Record, keys[:-1])} lacks the field {field.name!r}"
    else:
        assert from_plain(Record, plain) is not None  # the default

    where[field.name] = right
    where["surprise"] = 1
    with pytest.raises(UsageError) as caught:
        from_plain(Record, plain)
    assert name(Record, keys[:-1]) in caught.value.message and "'surprise'" in caught.value.message

    del where["surprise"]
    kind = typing.get_type_hints(owner)[field.name]
    where[field.name] = {"a": {}} if not isinstance(right, dict) else [1]
    if kind is not typing.Any:
        with pytest.raises(UsageError) as caught:
            from_plain(Record, plain)
        assert caught.value.message.startswith(name(Record, keys))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 3}, "Workload.label should be a str, not '3'"),
        ({"label": None}, "Workload.label should be a str, not 'None'"),
        ({"params": {"m": None}}, "Workload.params.m should be a int or float or str or bool, not 'None'"),
        ({"params": {"m": [1]}}, "Workload.params.m should be a int or float or str or bool, not '[1]'"),
        ({"params": [1]}, "Workload.params should be a Mapping, not '[1]'"),
    ],
)
def test_a_wrong_type_is_named_with_the_value(change, message):
    with pytest.raises(UsageError) as caught:
        from_plain(Workload, {"label": "a", "params": {"m": 1}, **change})
    assert caught.value.message == message


def test_numbers_are_not_mixed_up_with_truth_values():
    plain = through_json(Sample("gemm", 1, 2.0))
    for field, wrong in (("round", True), ("round", 1.0), ("us", True), ("us", "2")):
        with pytest.raises(UsageError, match=f"Sample.{field} should be"):
            from_plain(Sample, {**plain, field: wrong})
    assert from_plain(Sample, {**plain, "us": 2}) == Sample("gemm", 1, 2.0)  # JSON writers may drop the point


def test_a_severity_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="Finding.severity"):
        from_plain(Finding, {"rule": "R", "severity": "fatal", "message": "m"})


@pytest.mark.parametrize("data", [None, 3, "text", [], [[]], {"a": 1}])
def test_what_is_no_object_at_all_is_refused(data):
    with pytest.raises(UsageError, match="manifest.json"):
        from_plain(Workload, data, "manifest.json")


def test_a_value_that_cannot_be_right_does_not_come_back():
    plain = through_json(example(Timing))
    with pytest.raises(UsageError, match="passed verification"):
        from_plain(Timing, {**plain, "verified": False})
    with pytest.raises(NothingRanError):
        from_plain(Timing, {**plain, "samples": []})
    plain["policy"]["timer"] = "evnt"
    with pytest.raises(UsageError, match="unknown timer 'evnt'"):
        from_plain(Timing, plain)


def test_what_is_not_finite_becomes_null():
    assert to_plain({"a": math.nan, "b": (math.inf, -math.inf, 1.5)}) == {"a": None, "b": [None, None, 1.5]}


def test_what_has_no_json_form_is_a_bug_of_ours():
    for value in ({1, 2}, object(), b"bytes", Finding):
        with pytest.raises(TypeError, match="has no JSON form"):
            to_plain(value)


def test_any_mapping_is_written():
    class Reversed(Mapping):
        def __getitem__(self, key):
            return key * 2

        def __iter__(self):
            return iter((3, 1))

        def __len__(self):
            return 2

    assert to_plain(Reversed()) == {"3": 6, "1": 2}
