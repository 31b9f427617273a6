"""Values to text. Every function returns a string; nothing here prints."""

from __future__ import annotations

import math
import shlex

from tirx_bench.hardware import occupancy
from tirx_bench.model import Artifact, Peak, Record, Resources, Work
from tirx_bench.render.findings import findings
from tirx_bench.render.rows import listing, microseconds, row
from tirx_bench.render.simulated import simulated, simulation_page
from tirx_bench.render.times import comparison, first_call, timed, verdicts
from tirx_bench.render.verified import verified

__all__ = ["artifact_page", "comparison", "findings", "first_call", "listing", "page", "simulation_page", "verdicts"]

# What a kernel author looks for first; the rest of the mix is in the artifact's kernel.sass.
TELLING = ("HGMMA", "QGMMA", "HMMA", "UTCHMMA", "UTMALDG", "UTMASTG", "LDSM", "STSM", "LDL", "STL")
ALWAYS = ("HGMMA", "UTMALDG", "STSM", "LDL", "STL")


def page(record: Record) -> str:
    """One page: what the kernel is made of, whether it is right, how fast it is, and what was left out."""
    parts = [_head(record), *_compiled(record), *simulated(record.simulation), *verified(record), *timed(record)]
    parts.append(row("artifact", record.artifact.folder))
    parts += [row("left out", text) for text in record.left_out]
    return "\n".join(parts)


def artifact_page(artifact: Artifact) -> str:
    """What an artifact folder holds, without the roofline, which needs the kernel's file."""
    params = " ".join(f"{k}={v}" for k, v in {**artifact.workload.params, **artifact.tunables}.items())
    rows = [f"{artifact.kernel} {artifact.workload.label}: {params} ({artifact.arch}, {artifact.compiler})", ""]
    for function in artifact.resources:
        rows += [row("resources", _resources(function)), row("occupancy", _occupancy(function, artifact.arch))]
    rows += [row("ptxas", findings(artifact.findings) or "no notes"), row("code", artifact.code_hash)]
    rows += [row("rebuild", shlex.join(artifact.command)), row("artifact", artifact.folder)]
    return "\n".join(rows)


def _head(record: Record) -> str:
    params = " ".join(f"{k}={v}" for k, v in record.workload.params.items())
    tuned = " ".join(f"{k}={v}" for k, v in record.artifact.tunables.items())
    device = record.environment.get("gpu")
    where = f"{record.artifact.arch}, {record.artifact.compiler}" + (f", {device}" if device else "")
    lines = [f"{record.kernel} {record.workload.label}: {params} ({where})", ""]
    return "\n".join(lines + ([row("tunables", tuned)] if tuned else []))


def _compiled(record: Record) -> list[str]:
    rows = [row("lint", findings(record.lint) or "no findings")]
    for function in record.artifact.resources:
        rows.append(row("resources", _resources(function)))
        rows.append(row("occupancy", _occupancy(function, record.artifact.arch)))
    mix = record.instructions
    counts = [f"{mix.get(name, 0)} {name}" for name in TELLING if name in mix or name in ALWAYS]
    rows.append(row("instructions", f"{', '.join(counts)}; {sum(mix.values())} in all"))
    rows.append(row("ptxas", findings(record.artifact.findings) or "no notes"))
    work = record.work
    floors = [_floor(work, peak) for peak in (record.theoretical, record.measured) if work and peak]
    rows.append(row("floor", "\n".join(floors) or "unknown: the kernel states no work, or no card is known; --card names one"))
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
    arithmetic = f"{microseconds(compute)} for {work.flops / 1e9:.4g} GFLOP at {peak.tflops:.4g} TFLOP/s"
    traffic = f"{microseconds(memory)} for {work.bytes / 1e6:.4g} MB at {peak.tb_per_s:.3g} TB/s"
    return f"{microseconds(peak.floor_us(work))}, {bound} bound: {arithmetic}, {traffic} ({peak.source})"
