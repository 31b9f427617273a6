"""Values to JSON and back: what goes out comes in again, and what does not fit is refused by name."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping

import pytest
from helpers_records import artifact, record, timing, workload
from hypothesis import HealthCheck, given, settings
from strategies import BY_KIND

from tirx_bench.model import Finding, NothingRanError, Record, Sample, Timing, Tolerance, UsageError, Workload
from tirx_bench.serial import from_plain, to_plain

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


PROBLEM = workload(alpha=1.5, relu=True)
EXAMPLE = record(  # every optional part is present
    workload=PROBLEM, artifact=artifact(workload=PROBLEM, findings=record().lint), left_out=("a part",),
    timing=timing({"add": [[172.6]]}, throttle=("power cap",)), noise_floor=0.002,
)  # fmt: skip


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


FIELDS = [(keys, field, type(owner)) for keys, field, owner in paths(EXAMPLE)]


@pytest.mark.parametrize(("keys", "field", "owner"), FIELDS, ids=[name(Record, keys) for keys, _, _ in FIELDS])
def test_a_field_that_is_missing_unknown_or_of_another_type_is_refused_by_name(keys, field, owner):
    plain = through_json(EXAMPLE)
    where = holder(plain, keys)
    right = where.pop(field.name)
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        with pytest.raises(UsageError) as caught:
            from_plain(Record, plain)
        either = owner is Tolerance  # a bound is one of two kinds, so that no field is missing by name
        what = "should be a Tolerance or RoundingBound" if either else f"lacks the field {field.name!r}"
        assert caught.value.message.startswith(f"{name(Record, keys[:-1])} {what}")
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
        assert caught.value.message.startswith(name(Record, keys[:-1] if owner is Tolerance else keys))


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
    plain = through_json(EXAMPLE.timing)
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
