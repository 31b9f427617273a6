"""What each timed call did on the device, from a torch.profiler (Kineto) trace. Pure; inside, times are whole nanoseconds.

Call n ran in the range "tirx call n"; the workbench's own work around it is in "tirx before n" and "tirx after n". Whose an
activity is, its launch record says: when and on which thread it was launched. Not its name, since a filter of names drops a
user's own fill with the flush (TileOPs#1576); not "External id", which launches through the driver API do not have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from tirx_bench.model import FailedError

BEFORE, CALL, AFTER = "tirx before ", "tirx call ", "tirx after "
RANGES = ("user_annotation",)
LAUNCHES = ("cuda_runtime", "cuda_driver")
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LATEST_US = 2**43  # up to here a double tells nanoseconds apart; Kineto counts from a date at most three months ago
LOST_RECORDS = "the profiler lost records: time it again, or use --timer event, which needs no trace"


@dataclass(frozen=True)
class TracedCall:
    """One call's work on the device. Where kernels overlap or leave gaps, the span, the busy time and the sum differ."""

    kernels: tuple[str, ...]  # the names of kernels, copies and memsets, in order of start
    streams: int  # distinct ones
    span_us: float  # from the first start to the last end
    busy_us: float  # the time in which any ran
    sum_us: float  # all durations added
    start_us: float  # the first start, on the trace's clock


def calls_of_trace(trace: Mapping[str, Any], count: int) -> list[TracedCall]:
    """The `count` calls in a Chrome trace, in order, in microseconds.

    Raises `FailedError` when the trace is not readable or has lost records, when a call launched nothing, and when a
    call's work overlaps the work ahead of it or of the next call, so that its times are not its own.
    """
    ranges = _ranges(trace, count)
    launches = {launch.correlation: launch for launch in reversed(_events(trace, LAUNCHES))}  # of nested ones the outer stays
    owned: defaultdict[str, list[_Event]] = defaultdict(list)
    for event in _events(trace, DEVICE_WORK):
        if event.correlation not in launches:
            raise FailedError(f"the session lost its launch records: {event.name} has none", LOST_RECORDS)
        owned[_owner(launches[event.correlation], ranges)].append(event)
    for word in (BEFORE, AFTER):
        _require_constant([len(owned[f"{word}{n}"]) for n in range(count)], word)
    _require_work([len(owned[f"{CALL}{n}"]) for n in range(count)])
    for n in range(count):
        following = owned[f"{BEFORE}{n + 1}"] or owned[f"{CALL}{n + 1}"]
        _require_apart(owned[f"{BEFORE}{n}"], owned[f"{CALL}{n}"], following, n)
    return [_traced(owned[f"{CALL}{n}"]) for n in range(count)]


class Launched(Protocol):
    """A call whose kernels are known."""

    @property
    def kernels(self) -> tuple[str, ...]: ...


def constant_kernels(calls: Sequence[Launched], what: str) -> tuple[str, ...]:
    """The kernels that each of the calls of `what`, one at least, launched, as the first call ordered them.

    Raises `FailedError` when calls differ: totals that are no multiple of the calls have no time per call (TileOPs#1796).
    """
    first = Counter(calls[0].kernels)
    for n, call in enumerate(calls):
        if (found := Counter(call.kernels)) != first:
            total = Counter(name for each in calls for name in each.kernels)
            names = [name for name in first | found if first[name] != found[name]]
            here, there = (_some(f"{name} {times[name]}" for name in names) for times in (found, first))
            raise FailedError(
                f"{what} launched {total.total()} kernels in {len(calls)} calls: "
                f"{_some(f'{name} {times}' for name, times in total.most_common())} (call {n} has {here}; call 0 has {there})",
                "either the call does not do the same work every time, or the profiler lost records",
            )
    return calls[0].kernels


# ---------------------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class _Event:
    name: str
    lane: tuple[int, int]  # process and thread on the host; device and stream on the device
    start: int
    end: int
    correlation: int  # of a launch with its work; 0 for a range


def _events(trace: Mapping[str, Any], categories: tuple[str, ...]) -> list[_Event]:
    """In order of start."""
    raws = _field(trace, "traceEvents", list)
    if not all(isinstance(raw, Mapping) for raw in raws):
        raise _unreadable("an event is no object")
    return sorted((_event(raw) for raw in raws if raw.get("cat") in categories), key=_start)


def _event(raw: Mapping[str, Any]) -> _Event:
    start, us = _ns(raw, "ts"), _ns(raw, "dur")
    correlation = 0 if raw["cat"] in RANGES else _field(_field(raw, "args", Mapping), "correlation", int)
    return _Event(_field(raw, "name", str), (_field(raw, "pid", int), _field(raw, "tid", int)), start, start + us, correlation)


def _ns(raw: Mapping[str, Any], name: str) -> int:
    us = _field(raw, name, int, float)
    if not 0 <= us < LATEST_US:  # nor is NaN
        raise _unreadable(f"{name} is out of range")
    return round(us * 1000)


def _field(raw: Any, name: str, *kinds: type) -> Any:
    value = raw.get(name) if isinstance(raw, Mapping) else None
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _unreadable(f"{name} is {type(value).__name__}, not {kinds[-1].__name__}")
    return value


def _unreadable(why: str) -> FailedError:
    return FailedError(f"the profiler's trace is not readable: {why}", "--timer event needs no trace")


def _start(event: _Event) -> int:
    return event.start


def _ranges(trace: Mapping[str, Any], count: int) -> list[_Event]:
    """The workbench's ranges in order, all of one thread, each call's once."""
    ranges = [event for event in _events(trace, RANGES) if event.name.startswith((BEFORE, CALL, AFTER))]
    found = [event.name for event in ranges if event.name.startswith(CALL)]
    wanted = [f"{CALL}{n}" for n in range(count)]
    if found != wanted:
        there = f"{len({*found} & {*wanted})} of {count} calls in {len(found)} ranges, where each has one, in order"
        raise FailedError(f"the trace has {there}: the session began late or lost some", LOST_RECORDS)
    if any(a.end > b.start or a.lane != b.lane for a, b in pairwise(ranges)):
        raise _unreadable("the ranges of the calls overlap, or are of several threads")
    return ranges


def _owner(launch: _Event, ranges: Sequence[_Event]) -> str:
    """The name of the range that a launch belongs to; empty before the first call.

    Outside every range, or from another thread, it is the last call that began: a helper may launch after the call returned.
    """
    begun = bisect_right(ranges, launch.start, key=_start)
    if begun and launch.lane == ranges[begun - 1].lane and launch.start <= ranges[begun - 1].end:
        return ranges[begun - 1].name
    return next((ranges[at].name for at in reversed(range(begun)) if ranges[at].name.startswith(CALL)), "")


# ---------------------------------------------------------------------------------------------- checks


def _require_constant(counts: Sequence[int], word: str) -> None:
    """The k-th session of a process can lose its k leading kernels, and the first are the workbench's own: pytorch#192021."""
    for n, own in enumerate(counts):
        if own != counts[-1]:
            those = f"{word}{n} has {own} and {word}{len(counts) - 1} has {counts[-1]}"
            raise FailedError(f"the session lost records of the workbench's own kernels: {those}", LOST_RECORDS)


def _require_work(counts: Sequence[int]) -> None:
    idle = [str(n) for n, own in enumerate(counts) if not own]
    if len(idle) == len(counts):
        hint = "nothing ran on the device; --timer wall times host work"
    else:
        hint = "either the call does not use the device every time, or the profiler lost records"
    if idle:
        raise FailedError(f"{len(idle)} of {len(counts)} calls launched nothing: {_some(idle)}", hint)


def _require_apart(before: Sequence[_Event], call: Sequence[_Event], following: Sequence[_Event], n: int) -> None:
    """`following` is what comes between this call and the next or, where that is nothing, the next call."""
    if late := [event for event in before if event.end > call[0].start]:
        raise FailedError(
            f"the work ahead of call {n} ran into its timed window: {_placed(late)}",
            "the call's first work has to wait for torch's current stream",
        )
    if hidden := [event for event in call if following and event.end > following[0].start]:
        raise FailedError(
            f"call {n} has hidden work that had not ended when what follows the call began: {_placed(hidden)}",
            "torch's current stream has to wait for the call's other streams before the call returns",
        )


def _placed(events: Iterable[_Event]) -> str:
    return _some(dict.fromkeys(f"{event.name} on stream {event.lane[1]}" for event in events))


def _some(texts: Iterable[str]) -> str:
    every = list(texts)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")


# ------------------------------------------------------------------------------------------- durations


def _traced(work: Sequence[_Event]) -> TracedCall:
    busy, reach = 0, work[0].start
    for event in work:
        busy += max(0, event.end - max(event.start, reach))
        reach = max(reach, event.end)
    return TracedCall(
        kernels=tuple(event.name for event in work),
        streams=len({event.lane for event in work}),
        span_us=(reach - work[0].start) / 1e3,
        busy_us=busy / 1e3,
        sum_us=sum(event.end - event.start for event in work) / 1e3,
        start_us=work[0].start / 1e3,
    )
