"""Hypothesis strategies: any value of the model that constructs."""

from __future__ import annotations

import typing

from hypothesis import strategies as st

from tirx_bench import model
from tirx_bench.pipeline import request

TEXT = st.text(max_size=12)
NAME = st.text(min_size=1, max_size=12)
WHOLE = st.integers()
COUNT = st.integers(0, 1 << 40)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.booleans() | WHOLE | FINITE | TEXT
PARAMS = st.dictionaries(TEXT, VALUE, max_size=3)
SHAPE = st.lists(COUNT, max_size=3).map(tuple)
ANYTHING = st.recursive(
    st.none() | VALUE, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)


def several(strategy, least=0, most=2):
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def maybe(strategy):
    return st.none() | strategy


PLACES = st.builds(model.Place, TEXT, COUNT, COUNT)
FINDINGS = st.builds(
    model.Finding, TEXT, st.sampled_from(typing.get_args(model.Severity)), TEXT, maybe(PLACES), TEXT, several(TEXT)
)
WORKLOADS = st.builds(model.Workload, NAME, PARAMS)
TOLERANCES = st.builds(model.Tolerance, FINITE, FINITE) | st.builds(
    model.RoundingBound, COUNT, st.floats(0, 2.0**-3, exclude_min=True), st.floats(0, 4, exclude_min=True)
)
WORK = st.builds(model.Work, FINITE, FINITE, TEXT)
PEAKS = st.builds(model.Peak, TEXT, FINITE, FINITE)
RESOURCES = st.builds(model.Resources, TEXT, *[COUNT] * 7, SHAPE, SHAPE, COUNT)
POSITIVE = st.floats(0, exclude_min=True, allow_infinity=False)
NO_LESS_THAN_0 = st.floats(0, allow_infinity=False)
ONE_CALL, NO_GATE = st.just(1), st.just(False)
BUDGETS = {
    "precision": st.floats(0, 1, exclude_min=True, exclude_max=True), "rounds": st.integers(1, 80),
    "max_rounds": st.integers(80), "max_time_s": POSITIVE, "block_ms": POSITIVE, "warmup_ms": NO_LESS_THAN_0,
    "settle_s": NO_LESS_THAN_0, "cooldown_s": NO_LESS_THAN_0, "seed": WHOLE,
}  # fmt: skip


def policies(timers, caches, calls=ONE_CALL, gate=NO_GATE):
    """Not every timer goes with every cache, number of calls and gate."""
    return st.builds(
        model.TimingPolicy, st.sampled_from(sorted(timers)), st.sampled_from(sorted(caches)),
        st.sampled_from(sorted(model.FLUSHES)), calls, gate,
        **BUDGETS,
    )  # fmt: skip


POLICIES = (
    policies(model.TIMERS, model.CACHES)
    | policies(["event"], model.CACHES, gate=st.booleans())
    | policies(["event", "graph"], ["warm", "rotate"], calls=st.integers(1, 1000))
)
OUTPUTS = st.builds(
    model.OutputCheck, TEXT, SHAPE, TEXT, *[maybe(FINITE)] * 3, SHAPE, *[maybe(FINITE)] * 2, COUNT, TOLERANCES, TEXT,
    maybe(FINITE), TEXT,
)  # fmt: skip
KINDS, CONDITIONS = st.sampled_from(model.FILLS), st.sampled_from(model.CONDITIONS)
CONTROLS = st.builds(model.Control, TEXT, st.sampled_from(["rejected", "accepted", "skipped"]), TEXT)
ATTEMPTS = st.builds(model.Attempt, TEXT, WHOLE, CONDITIONS, COUNT, FINITE)
VERIFICATIONS = st.builds(
    model.Verification, several(OUTPUTS), WHOLE, TEXT, TEXT, maybe(st.booleans()), KINDS, CONDITIONS, several(CONTROLS),
    several(ATTEMPTS), several(TEXT),
)  # fmt: skip
CHECKS = st.builds(
    model.VerifyPolicy, st.integers(1, 99), several(KINDS, least=1), several(CONDITIONS, least=1), st.integers(1, 99)
)
DEEP = st.builds(
    model.Deep, st.dictionaries(TEXT, VERIFICATIONS, max_size=2), st.dictionaries(TEXT, TEXT, max_size=2), maybe(VERIFICATIONS)
)  # fmt: skip
SAMPLES = st.builds(model.Sample, TEXT, COUNT, POSITIVE, FINITE, maybe(FINITE), maybe(FINITE), maybe(FINITE))
STATUSES = st.builds(model.Status, st.sampled_from(sorted(model.STATUSES)), TEXT, maybe(TEXT))
OPERATIONS = st.builds(model.Operation, TEXT, several(TEXT), COUNT, TEXT, maybe(COUNT), TEXT)
STATES = st.builds(model.CardState, COUNT, maybe(COUNT), maybe(COUNT), maybe(FINITE), several(TEXT))
TIMINGS = st.builds(
    model.Timing, POLICIES, several(SAMPLES, least=1, most=4), several(STATES), st.just(True), several(SAMPLES), *[FINITE] * 3
)
ARTIFACTS = st.builds(
    model.Artifact, TEXT, TEXT, WORKLOADS, PARAMS, TEXT, TEXT, several(TEXT), TEXT, TEXT, several(RESOURCES), several(FINDINGS),
    st.dictionaries(TEXT, TEXT, max_size=2), st.booleans(),
)  # fmt: skip


def record_of_its_own_timing(kernel, *rest):
    """A record does not construct when its timing holds no sample of its kernel."""
    timing = rest[-7]
    return model.Record(timing.implementations[0] if timing else kernel, *rest)


RECORDS = st.builds(
    record_of_its_own_timing,
    TEXT, WORKLOADS, TEXT, TEXT, maybe(WORK), maybe(PEAKS), ARTIFACTS, st.dictionaries(TEXT, COUNT),
    st.dictionaries(TEXT, ANYTHING, max_size=3), several(FINDINGS), maybe(PEAKS), maybe(VERIFICATIONS), maybe(TIMINGS),
    several(TEXT), maybe(FINITE), several(STATUSES), several(OPERATIONS), maybe(DEEP), several(FINDINGS),
)  # fmt: skip
VERSIONS = st.builds(request.Version, TEXT, PARAMS, TEXT)
REQUESTS = st.builds(
    request.Request, st.sampled_from(typing.get_args(request.Action)), VERSIONS, WORKLOADS, POLICIES, TEXT, maybe(TEXT),
    maybe(VERSIONS), TEXT, CHECKS, st.booleans(),
)  # fmt: skip
ANSWERS = st.builds(
    request.Answer, st.dictionaries(TEXT, ANYTHING, max_size=2), maybe(VERIFICATIONS), maybe(TIMINGS), maybe(PEAKS),
    several(TEXT), several(STATUSES), several(OPERATIONS), st.dictionaries(TEXT, FINITE, max_size=2),
)  # fmt: skip
BY_KIND = {
    model.Finding: FINDINGS, model.Workload: WORKLOADS, model.TimingPolicy: POLICIES, model.Resources: RESOURCES,
    model.Verification: VERIFICATIONS, model.Timing: TIMINGS, model.Artifact: ARTIFACTS, model.Record: RECORDS,
}  # fmt: skip
