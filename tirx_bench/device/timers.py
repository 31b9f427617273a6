"""The timers on a CUDA device. Each gives its one quantity; what surrounds a call stays outside its interval."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tirx_bench.device import Call, Loop, Reading
from tirx_bench.device.helpers import Helpers
from tirx_bench.device.trace import calls_of_trace
from tirx_bench.model import FailedError, MissingError


class Timers:
    """`synchronize` waits for all work and raises `FailedError` when a kernel faulted."""

    def __init__(self, torch: Any, helpers: Helpers, synchronize: Call):
        self.torch = torch
        self.helpers = helpers
        self.synchronize = synchronize
        self.elapsed_ms = torch.cuda.Event.elapsed_time  # what a kernel's file may replace later is not what is called

    def time(self, timer: str, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        self.helpers.use_current_stream()
        self.helpers.forget_persisting()
        timers = {"kernel": self._kernel, "event": self._event, "proton": self._proton, "wall": self._wall, "graph": self._graph}
        return timers[timer](calls, loop)

    def _before(self, loop: Loop) -> None:
        """Everything that writes comes first: what is evicted must not come back."""
        loop.before()
        if loop.flush is not None:
            self.helpers.evict(loop.flush)

    def _event(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        def repeated(call: Call) -> Call:
            def run() -> None:
                for _ in range(loop.calls):
                    call()

            return run

        return self._intervals([repeated(call) for call in calls] if loop.calls > 1 else calls, loop)

    def _graph(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        """The calls are replays of graphs that hold `loop.calls` calls each."""
        return self._intervals(calls, loop)

    def _intervals(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        marks, pairs = Marks(self.torch, self.helpers, len(calls)), [self._events() for _ in calls]
        self.helpers.close()
        for turn, (call, (start, stop)) in enumerate(zip(calls, pairs, strict=True), 1):
            self._before(loop)
            if loop.gate:
                self.helpers.hold(turn)
            marks.stamp()
            start.record()
            call()
            stop.record()
            marks.stamp()
            if loop.gate:
                self.helpers.open(turn)
        self.synchronize()
        if loop.gate and self.helpers.timed_out():
            raise FailedError("a gate reached its time limit: the call waits for the device", "without --gate it can be timed")
        return [
            Reading(round(self.elapsed_ms(*pair) * 1e3 / loop.calls, 5), at, clock)
            for pair, (at, clock) in zip(pairs, marks.read(), strict=True)
        ]

    def _events(self) -> tuple[Any, Any]:
        return self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)

    def _kernel(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        """CUPTI's activity records through torch.profiler, with the event interval of the traced call beside them."""
        from torch.profiler import ProfilerActivity, profile, record_function

        marks, pairs = Marks(self.torch, self.helpers, len(calls)), [self._events() for _ in calls]
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
            for number, (call, (start, stop)) in enumerate(zip(calls, pairs, strict=True)):
                with record_function(f"tirx before {number}"):
                    self._before(loop)
                    marks.stamp()
                    start.record()
                with record_function(f"tirx call {number}"):
                    call()
                with record_function(f"tirx after {number}"):
                    stop.record()
                    marks.stamp()
            self.synchronize()
        traced = calls_of_trace(_trace_of(session), len(calls))
        return [
            Reading(t.span_us, at, clock, t.busy_us, round(self.elapsed_ms(*pair) * 1e3, 3), t.kernels, t.streams)
            for t, pair, (at, clock) in zip(traced, pairs, marks.read(), strict=True)
        ]

    def _wall(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        readings = []
        for call in calls:
            self._before(loop)
            self.synchronize()
            start = time.perf_counter()
            call()
            self.synchronize()
            readings.append(Reading((time.perf_counter() - start) * 1e6, start * 1e6))
        return readings

    def _proton(self, calls: Sequence[Call], loop: Loop) -> list[Reading]:
        try:
            import triton.profiler as proton
        except ImportError as error:
            raise MissingError(f"the proton timer needs triton: {error}", "use --timer kernel, event or wall") from error
        marks = Marks(self.torch, self.helpers, len(calls))
        with tempfile.TemporaryDirectory() as folder:
            session = proton.start(str(Path(folder, "calls")), backend="cupti")
            for number, call in enumerate(calls):
                self._before(loop)
                marks.stamp()
                with proton.scope(f"call {number}"):
                    call()
                marks.stamp()
            self.synchronize()
            proton.finalize(session)
            tree = json.loads(Path(folder, "calls.hatchet").read_text())
        times = scope_times_us(tree, len(calls))
        return [Reading(us, at, clock, kernels=names) for (us, names), (at, clock) in zip(times, marks.read(), strict=True)]

    # ------------------------------------------------------------------------------------------ probes

    def capture(self, call: Call, calls: int) -> Call:
        from cuda.bindings import driver

        graph = self.torch.cuda.CUDAGraph(keep_graph=True)
        call()  # a first call may allocate, which a capture must not
        self.synchronize()
        with self.torch.cuda.graph(graph):
            for _ in range(calls):
                call()
        _, _, nodes = driver.cuGraphGetNodes(driver.CUgraph(graph.raw_cuda_graph()), 0)
        if not nodes:
            raise FailedError(
                "the CUDA graph of the call holds no work: what it launches was not captured",
                "the call must launch on torch's current stream; --timer kernel or event times it as it is",
            )
        graph.instantiate()
        replay: Call = graph.replay
        return replay

    def hidden_us(self, call: Call, before: Call, held: bool) -> float:
        def wait_after(work: Call) -> float:
            before()
            self.synchronize()
            self.helpers.close()
            if held:
                self.helpers.hold(1, everywhere=True)
            work()
            stop = self.torch.cuda.Event()
            stop.record()
            self.helpers.open(1)
            stop.synchronize()
            start = time.perf_counter()
            self.synchronize()
            return (time.perf_counter() - start) * 1e6

        # By turns, and the least against the middle: hidden work shows after every call, while a host that hesitates now
        # and then would make the least of ten differ from the least of ten others.
        waits = [(wait_after(call), wait_after(lambda: None)) for _ in range(10)]
        return min(busy for busy, _ in waits) - statistics.median(idle for _, idle in waits)

    def synchronizes(self, call: Call, before: Call) -> bool:
        self.helpers.close()
        before()
        self.synchronize()
        self.helpers.hold(1)
        call()
        self.helpers.open(1)
        self.synchronize()
        return bool(self.helpers.timed_out())

    def empty_event_us(self) -> float:
        held = Loop(lambda: None, gate=True)  # an idle device would show how long the host takes between two events
        return statistics.median(r.us for r in self._intervals([lambda: None] * 100, held))


class Marks:
    """Two stamps for each interval: when it began, and how many cycles the SM counted over it."""

    def __init__(self, torch: Any, helpers: Helpers, count: int):
        self.helpers = helpers
        self.words = torch.zeros((2 * count, 2), dtype=torch.int64, device="cuda")
        self.next = self.words.data_ptr()

    def stamp(self) -> None:
        self.helpers.stamp(self.next)
        self.next += 16

    def read(self) -> list[tuple[float, float | None]]:
        """Microseconds of the device's clock and MHz, for each interval; no MHz where the clock's step is wider than it."""
        rows = self.words.cpu().tolist()
        found = []
        for (start, first), (end, last) in zip(rows[::2], rows[1::2], strict=True):
            found.append((start / 1e3, round((last - first) / (end - start) * 1e3, 1) if end > start else None))
        return found


def _trace_of(session: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        session.export_chrome_trace(str(path))
        trace: dict[str, Any] = json.loads(path.read_text())
    return trace


def scope_times_us(tree: list[Any], count: int) -> list[tuple[float, tuple[str, ...]]]:
    """A Proton tree to the kernel time of each scope "call 0" to "call <count - 1>", in microseconds, and its kernels.

    Raises `FailedError` when a scope holds no kernel: a sample would be missing, or another timer's.
    """
    scopes = {scope["frame"]["name"]: scope for root in tree for scope in root.get("children", [])}
    found = [_leaves(scopes.get(f"call {n}", {})) for n in range(count)]
    if lost := sum(not sum(us for us, _ in leaves) for leaves in found):
        raise FailedError(f"Proton recorded no kernel for {lost} of {count} calls", "use --timer event, which needs no profiler")
    return [(sum(us for us, _ in leaves), tuple(name for _, name in leaves)) for leaves in found]


def _leaves(node: dict[str, Any]) -> list[tuple[float, str]]:
    if children := node.get("children", []):
        return [leaf for child in children for leaf in _leaves(child)]
    metrics = node.get("metrics", {})
    names = [node.get("frame", {}).get("name", "?")] * int(metrics.get("count", 1))
    times = [float(metrics.get("time (ns)", 0)) / 1e3 / max(len(names), 1)] * len(names)
    return list(zip(times, names, strict=True))
