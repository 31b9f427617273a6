"""Findings in text."""

from __future__ import annotations

from collections.abc import Iterable

from tirx_bench.model import Finding


def findings(found: Iterable[Finding]) -> str:
    lines = []
    for f in found:
        place = f"{f.place}: " if f.place else ""
        lines.append(f"{place}{f.severity}[{f.rule}] {f.message}" + (f" ({f.evidence})" if f.evidence else ""))
        lines += [f"    {step}" for step in f.witness]
    return "\n".join(lines)
