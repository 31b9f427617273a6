"""Values to text. Every function returns a string; nothing here prints."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence

from tirx_bench.compare import Comparison, against
from tirx_bench.hardware import occupancy
from tirx_bench.model import TIMERS, Artifact, Finding, OutputCheck, Peak, Record, Resources, Timing, Work
from tirx_bench.stats import trend

__all__ = ["artifact_page", "comparison", "findings", "listing", "page"]

# What a kernel author looks for first; the rest of the mix is in the artifact's kernel.sass.
TELLING = ("HGMMA", "QGMMA", "HMMA", "UTCHMMA", "UTMALDG", "UTMASTG", "LDSM", "STSM", "LDL", "STL")
ALWAYS = ("HGMMA", "UTMALDG", "STSM", "LDL", "STL")


def table(rows: Sequence[Sequence[str]], indent: int = 0) -> str:
    """Rows in columns: names on the left, numbers right-aligned."""
    return "\n".join(" " * indent + line for line in _lines(rows, str.rjust))


def listing(rows: Sequence[Sequence[str]]) -> str:
    """Rows in left-aligned columns."""
    return "\n".join(_lines(rows, str.ljust))


def _lines(rows: Sequence[Sequence[str]], justify: Callable[[str, int], str]) -> Iterator[str]:
    """Rows in columns of one width each: the first on the left, the others as `justify` puts them."""
    name, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *cells in rows:
        yield "  ".join([first.ljust(name), *(justify(c, w) for c, w in zip(cells, others, strict=True))]).rstrip()


def findings(found: Iterable[Finding]) -> str:
    lines = []
    for f in found:
        place = f"{f.place}: " if f.place else ""
        lines.append(f"{place}{f.severity}[{f.rule}] {f.message}" + (f" ({f.evidence})" if f.evidence else ""))
        lines += [f"    {step}" for step in f.witness]
    return "\n".join(lines)


def page(record: Record) -> str:
    """One page: what the kernel is made of, whether it is right, how fast it is, and what was left out."""
    parts = [_head(record), *_compiled(record), *_verified(record), *_timed(record)]
    parts.append(_row("artifact", record.artifact.folder))
    parts += [_row("left out", text) for text in record.left_out]
    return "\n".join(parts)


def artifact_page(artifact: Artifact) -> str:
    """What an artifact folder holds, without the roofline, which needs the kernel's file."""
    params = " ".join(f"{k}={v}" for k, v in {**artifact.workload.params, **artifact.tunables}.items())
    rows = [f"{artifact.kernel} {artifact.workload.label}: {params} ({artifact.arch}, {artifact.compiler})", ""]
    for function in artifact.resources:
        rows += [_row("resources", _resources(function)), _row("occupancy", _occupancy(function, artifact.arch))]
    rows += [_row("ptxas", findings(artifact.findings) or "no notes"), _row("code", artifact.code_hash)]
    rows += [_row("rebuild", shlex.join(artifact.command)), _row("artifact", artifact.folder)]
    return "\n".join(rows)


def _row(label: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"{label:<13}{first}", *(" " * 13 + line for line in rest)])


def _head(record: Record) -> str:
    params = " ".join(f"{k}={v}" for k, v in record.workload.params.items())
    tuned = " ".join(f"{k}={v}" for k, v in record.artifact.tunables.items())
    device = record.environment.get("gpu")
    where = f"{record.artifact.arch}, {record.artifact.compiler}" + (f", {device}" if device else "")
    lines = [f"{record.kernel} {record.workload.label}: {params} ({where})", ""]
    return "\n".join(lines + ([_row("tunables", tuned)] if tuned else []))


def _compiled(record: Record) -> list[str]:
    rows = [_row("lint", findings(record.lint) or "no findings")]
    for function in record.artifact.resources:
        rows.append(_row("resources", _resources(function)))
        rows.append(_row("occupancy", _occupancy(function, record.artifact.arch)))
    mix = record.instructions
    counts = [f"{mix.get(name, 0)} {name}" for name in TELLING if name in mix or name in ALWAYS]
    rows.append(_row("instructions", f"{', '.join(counts)}; {sum(mix.values())} in all"))
    rows.append(_row("ptxas", findings(record.artifact.findings) or "no notes"))
    work = record.work
    floors = [_floor(work, peak) for peak in (record.theoretical, record.measured) if work and peak]
    rows.append(_row("floor", "\n".join(floors) or "unknown: the kernel states no work, or no card is known; --card names one"))
    return rows


def _resources(r: Resources) -> str:
    grid = "x".join(str(n or "?") for n in r.grid)
    cluster = f" in clusters of {math.prod(r.cluster)}" if math.prod(r.cluster) > 1 else ""
    spills = r.spill_store_bytes + r.spill_load_bytes
    return (
        f"{r.function}: {r.registers} registers, {spills} B spilled, {r.smem_bytes} B shared memory, "
        f"{grid} blocks of {r.threads or '?'} threads{cluster}"
    )


def _occupancy(r: Resources, arch: str) -> str:
    found = occupancy(r, arch)
    if found is None:
        return f"unknown: no limits for {arch} in the table" if r.threads else "unknown: the launch size is not constant"
    if not found.blocks:
        return f"no block fits on an SM: {found.limiter} allow none"
    warps = f"{found.fraction:.1%}: {found.warps} of {found.max_warps} warps"
    return f"{warps}, {found.blocks} block(s) per SM, limited by {found.limiter}"


def _floor(work: Work, peak: Peak) -> str:
    compute, memory = work.flops / peak.tflops / 1e6, work.bytes / peak.tb_per_s / 1e6
    bound = "compute" if compute > memory else "memory"
    arithmetic = f"{_us(compute)} for {work.flops / 1e9:.4g} GFLOP at {peak.tflops:.4g} TFLOP/s"
    traffic = f"{_us(memory)} for {work.bytes / 1e6:.4g} MB at {peak.tb_per_s:.3g} TB/s"
    return f"{_us(peak.floor_us(work))}, {bound} bound: {arithmetic}, {traffic} ({peak.source})"


def _us(us: float) -> str:
    return f"{us:.4g} us"


def _verified(record: Record) -> list[str]:
    verification = record.verification
    if verification is None:
        return []
    return [
        _row(
            "verify",
            "\n".join(
                [
                    *map(_check, verification.outputs),
                    f"{verification.reference}; inputs {verification.fill}, seed {verification.seed}",
                ]
            ),
        )
    ]


def _check(o: OutputCheck) -> str:
    verdict = "passed" if o.passed else "FAILED"
    head = f"{verdict}: {o.name} {'x'.join(map(str, o.shape))} {o.dtype}"
    if o.problem:
        head += f" {o.problem}"
    if o.rms_rel_error is None and o.max_abs_error is None and not o.wrong_elements:
        return head
    undefined = o.rms_rel_error is None and o.max_abs_error is not None  # the reference is zero everywhere
    rms = "undefined" if undefined else _error(o.rms_rel_error)
    detail = (
        f", {o.wrong_elements} of {math.prod(o.shape)} elements wrong, max error {_error(o.max_abs_error)} absolute, "
        f"{_error(o.max_rel_error)} relative, rms {rms}\n"
        f"  worst at {list(o.worst_index)}: {_error(o.worst_actual)}, expected {_error(o.worst_expected)}; "
        f"tolerance {o.tolerance}"
    )
    return head + detail


def _error(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _timed(record: Record) -> list[str]:
    timing = record.timing
    if timing is None:
        return []
    policy = timing.policy
    calls = sum(s.implementation == record.kernel for s in timing.samples)
    how = f"{policy.timer} ({TIMERS[policy.timer]}), {policy.cache} cache, median of {calls} calls in {policy.rounds} rounds"
    if record.noise_floor is not None:
        how += f"\nnoise floor {record.noise_floor:.2%}: what this card shows between equal code"
    return [_row("time", how), "", table(_times(record, timing), indent=2), *_doubts(record, timing), ""]


def _times(record: Record, timing: Timing) -> list[list[str]]:
    rows = [["implementation", "time", "spread", "TFLOP/s", "of measured peak", "of data sheet", "kernel is (95 % interval)"]]
    for name in timing.implementations:
        us = timing.median_us(name)
        work = record.work
        fractions = [f"{p.floor_us(work) / us:.1%}" if p and work else "-" for p in (record.measured, record.theoretical)]
        rate = f"{work.flops / us / 1e6:.4g}" if work else "-"
        ratio = "" if name == record.kernel else _speed(against(timing, record.kernel, name, record.noise_floor))
        spread = timing.spread(name)
        rows.append([name, _us(us), "-" if math.isnan(spread) else f"{spread:.2%}", rate, *fractions, ratio])
    return rows


def _speed(c: Comparison) -> str:
    if not c.low or math.isnan(c.ratio):
        return f"{c.old_us / c.new_us:.3f}x as fast" if c.new_us else "-"
    return f"{1 / c.ratio:.3f}x as fast ({1 / c.high:.3f} to {1 / c.low:.3f})"


def _doubts(record: Record, timing: Timing) -> list[str]:
    """What makes the numbers above less sure, beside them."""
    doubts = []
    held = sorted({reason for state in timing.rounds for reason in state.throttle})
    if held:
        rounds = sum(bool(state.throttle) for state in timing.rounds)
        doubts.append(f"the card was held back ({', '.join(held)}) before {rounds} of {len(timing.rounds)} rounds")
    for name in timing.implementations:
        moved = trend(timing.round_medians_us(name))
        if moved.drifts:
            doubts.append(f"{name} drifted by {moved.change:+.1%} from the first round to the last: its time alone is not sure")
    if record.measured and record.work and timing.median_us(record.kernel) < 0.98 * record.measured.floor_us(record.work):
        doubts.append("faster than the measured peak allows: the inputs or part of the work may have stayed in cache")
    return [f"  doubt: {text}" for text in doubts]


def comparison(c: Comparison) -> str:
    rows = [
        f"{c.verdict}: {c.new_us:.2f} us after {c.old_us:.2f} us",
        f"ratio {c.ratio:.4f}, 95 % interval {c.low:.4f} to {c.high:.4f}",
        c.reason,
        *(f"changed: {text}" for text in c.changed),
    ]
    return "\n".join(rows)
