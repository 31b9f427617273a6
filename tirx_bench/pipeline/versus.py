"""Two kernel files held against each other: in one process, or in fresh processes that take turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tirx_bench.model import NothingRanError, Operation, Record, Sample, Status, Timing, UsageError
from tirx_bench.pipeline.child import GpuProcess
from tirx_bench.pipeline.plan import Job, Plan, Progress, need_device, plan, quiet
from tirx_bench.pipeline.request import Answer, Request
from tirx_bench.pipeline.steps import launchable, merged, request_of, version_of
from tirx_bench.stats import balanced_order
from tirx_bench.store import write_record
from tirx_bench.timing import judge

FRESH_ROUNDS = 16  # 8 units, the least that a verdict takes


def old_name(spec: str) -> str:
    """What the times of the older kernel are called."""
    return f"{spec} (old)"


@dataclass(frozen=True)
class Pair:
    """The newer kernel, and the older one under the name that its times get."""

    new: Plan
    old: Plan

    @property
    def old_name(self) -> str:
        return old_name(self.old.job.spec)


def versus_job(old: str, job: Job, fresh: bool, progress: Progress) -> tuple[Record, Path]:
    """Time `job`'s kernel against `old`'s on the same problem; `fresh`: each block of calls in a process of its own.

    The record is the newer kernel's, with the older one's times in it.
    """
    pair = _pair(old, job)
    need_device(pair.new, "compare")
    if fresh:
        record = _in_turns(pair, FRESH_ROUNDS, progress)
    else:
        with GpuProcess(job.device) as process:
            before, after = launchable(pair.old, progress), launchable(pair.new, progress)
            request = replace(request_of(after, pair.new, "versus"), old=version_of(before, pair.old), old_name=pair.old_name)
            record = merged(after, pair.new, process.perform(request, job.timeout_s, progress))
    return record, write_record(record, job.out)


def _pair(old: str, job: Job) -> Pair:
    new = plan(job)
    known = plan(replace(job, spec=old, vs=None, tunables=())).kernel.tunables
    # What only the newer kernel has is left to it.
    shared = tuple(t for t in job.tunables if t.partition("=")[0].strip() in known)
    older = plan(replace(job, spec=old, vs=None, tunables=shared))
    if set(older.workload.params) != set(new.workload.params):
        names = " and ".join(str(sorted(p.workload.params)) for p in (older, new))
        raise UsageError(f"{old} and {job.spec} solve problems of other parameters: {names}")
    return Pair(new, replace(older, workload=new.workload))


def _in_turns(pair: Pair, rounds: int, progress: Progress) -> Record:
    """Each round one process per version, in balanced order; the samples of a process are one block."""
    records = {pair.old_name: launchable(pair.old, progress), pair.new.kernel.name: launchable(pair.new, progress)}
    plans = {pair.old_name: pair.old, pair.new.kernel.name: pair.new}
    names = list(records)
    answers: list[tuple[str, int, Answer]] = []
    for number in range(rounds):
        for index in balanced_order(2, number):
            name = names[index]
            progress(f"round {number + 1} of {rounds}: {name}")
            request = _alone(request_of(records[name], plans[name], "bench"))
            with GpuProcess(pair.new.job.device) as process:
                answers.append((name, number, process.perform(request, pair.new.job.timeout_s, quiet)))
    new = pair.new.kernel.name
    last = next(answer for name, _, answer in reversed(answers) if name == new)
    timing = _joined(answers, pair)
    of_the_rounds = (s for s in judge.statuses(timing, new, None, {}) if s.name in judge.OF_THE_ROUNDS)
    statuses = (*_said(answers), *of_the_rounds)
    answer = replace(last, timing=timing, statuses=statuses, operations=_launched(answers))
    return merged(records[new], pair.new, answer)


def _alone(request: Request) -> Request:
    """Without baselines, and with one block of a few rounds: the processes are the rounds."""
    return replace(request, vs="", policy=replace(request.policy, rounds=2, max_rounds=2))


def _said(answers: list[tuple[str, int, Answer]]) -> tuple[Status, ...]:
    """What any process said of the card and its calls, once each; about a version, under the name that its times have.

    What a process says of its few rounds is left to the timing as a whole.
    """
    said: dict[tuple[str, str | None], Status] = {}
    for name, _, answer in answers:
        for status in answer.statuses:
            if status.name in judge.OF_THE_ROUNDS:
                continue
            about = None if status.implementation is None else name
            said.setdefault((status.name, about), replace(status, implementation=about))
    return tuple(said.values())


def _launched(answers: list[tuple[str, int, Answer]]) -> tuple[Operation, ...]:
    first = {name: answer for name, _, answer in reversed(answers)}
    return tuple(replace(o, implementation=name) for name, answer in first.items() for o in answer.operations)


def _joined(answers: list[tuple[str, int, Answer]], pair: Pair) -> Timing:
    samples: list[Sample] = []
    untraced: list[Sample] = []
    timings = []
    for name, number, answer in answers:
        if answer.timing is None:
            reason = "; ".join(answer.left_out) or "it did not pass verification"
            raise NothingRanError(f"round {number + 1}: {name} was not timed: {reason}")
        timings.append(answer.timing)
        samples += [replace(s, implementation=name, round=number) for s in answer.timing.samples]
        untraced += [replace(s, implementation=name, round=number) for s in answer.timing.untraced]
    states = tuple(replace(s, round=number) for _, number, a in answers if a.timing for s in a.timing.states)
    return replace(
        timings[0], samples=tuple(samples), untraced=tuple(untraced), states=states, policy=pair.new.job.policy,
        session_s=sum(t.session_s for t in timings),
    )  # fmt: skip
