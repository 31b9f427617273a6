"""F33 to F38: what a profiler counts, and to whom. F34, F35 and F37 are in test_trace.py as well."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest
from helpers_records import record, verification
from simulated import Card, simulated_timers

from tirx_bench.device import Loop
from tirx_bench.device.fake import FakeDevice
from tirx_bench.device.timers import scope_times_us
from tirx_bench.device.trace import calls_of_trace
from tirx_bench.model import TIMERS, FailedError, MissingError, TimingPolicy
from tirx_bench.render import page
from tirx_bench.timing import measure

SHORT = {"block_ms": 0.5, "warmup_ms": 1, "settle_s": 0, "rounds": 4, "max_rounds": 4, "cache": "warm"}
TRACES = Path(__file__).parents[1] / "data" / "traces"


def measured(call, **policy):
    return measure({"k": call}, TimingPolicy(**{**SHORT, **policy}), call.device, verification())


def test_f33_what_tracing_adds_is_reported_and_is_not_in_the_kernel_time():
    device = FakeDevice()
    device.tracing_us = 0.9
    found = measured(device.kernel(6.41)).timing
    assert found.median_us("k") == pytest.approx(6.41) and found.tracing_cost_us("k") == pytest.approx(0.9)
    assert "tracing adds" in page(record(kernel="k", timing=found)) and "+0.90 us" in page(record(kernel="k", timing=found))


def test_f33_helper_kernels_that_come_with_later_blocks_are_refused():
    class Profiled(FakeDevice):
        def time_calls(self, timer, calls, loop):
            for call in calls:
                call.kernels = ("gemm", "helper") if self.timers_used.count("kernel") > 2 else ("gemm",)
            return super().time_calls(timer, calls, loop)

    device = Profiled()
    with pytest.raises(FailedError, match="k launched gemm in one block and gemm, helper in another"):
        measured(device.kernel(6.41))


@pytest.mark.parametrize("timer", TIMERS)
def test_f36_a_timer_that_is_not_installed_is_not_replaced_by_another(timer):
    class Without(FakeDevice):
        def time_calls(self, name, calls, loop):
            if name == timer and loop.calls == 1 and self.clock_us > 10e3:
                raise MissingError(f"no {timer} here", "use another")
            return super().time_calls(name, calls, loop)

    with pytest.raises(MissingError, match=f"no {timer} here"):
        measured(Without().kernel(10), timer=timer, warmup_ms=50)


def test_f36_what_was_timed_by_is_what_was_asked_for():
    device = FakeDevice()
    found = measured(device.kernel(10), timer="proton")
    assert found.timing.policy.timer == "proton" and device.timers_used[-4:] == ["proton"] * 4


def test_f36_the_error_names_timers_that_work(monkeypatch):
    def refuse(name, *rest, real=builtins.__import__):
        if name.startswith("triton"):
            raise ImportError("no triton")
        return real(name, *rest)

    timers = simulated_timers(monkeypatch, card := Card())
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingError, match="the proton timer needs triton") as raised:
        timers.time("proton", [card.kernel(5)], Loop(lambda: None))
    assert raised.value.hint == "use --timer kernel, event or wall"


def scope(number, *times_ns):
    kernels = [{"frame": {"name": "gemm"}, "metrics": {"time (ns)": ns, "count": 1}, "children": []} for ns in times_ns]
    return {"frame": {"name": f"call {number}"}, "metrics": {}, "children": kernels}


def tree(*scopes):
    return [{"frame": {"name": "ROOT"}, "metrics": {}, "children": list(scopes)}]


def test_f37_a_lost_scope_is_an_error_and_not_one_sample_less():
    assert [us for us, _ in scope_times_us(tree(scope(0, 1000), scope(1, 2000), scope(2, 1500)), 3)] == [1.0, 2.0, 1.5]
    with pytest.raises(FailedError, match="Proton recorded no kernel for 1 of 3 calls"):
        scope_times_us(tree(scope(0, 1000), scope(2, 1500)), 3)


def test_f37_the_sum_of_kernels_is_never_called_a_span():
    assert TIMERS["kernel"].startswith("kernel span") and TIMERS["proton"].startswith("kernel sum")


def test_f38_the_kernels_of_an_older_graph_belong_to_the_replay_that_launched_them():
    """The graph was captured before the session: only the replay's launch record says whose its kernels are."""
    calls = calls_of_trace(json.loads((TRACES / "h200-graph.json").read_text()), 4)
    assert {len(c.kernels) for c in calls} == {2}
