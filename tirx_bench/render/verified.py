"""A verification in text: passed or not, by how much, whose the worst element is, and what was tried."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from tirx_bench.model import CONDITIONS, Attempt, Control, Deep, OutputCheck, Record, Verification
from tirx_bench.render.findings import findings
from tirx_bench.render.rows import listing, row


def verified(record: Record) -> list[str]:
    found = record.verification
    if found is None:
        return []
    lines = [*map(check, found.outputs), found.reference, *_controls(found.controls), *_tried(found), *found.skipped]
    sanitized = [row("sanitizer", findings(record.sanitizer))] if record.sanitizer else []
    return [row("verify", "\n".join(lines)), *(_deep(record.deep) if record.deep else []), *sanitized]


def check(o: OutputCheck) -> str:
    head = f"{'passed' if o.passed else 'FAILED'}: {o.name} {'x'.join(map(str, o.shape))} {o.dtype}"
    if o.problem:
        head += f" {o.problem}"
    if o.rms_rel_error is None and o.max_abs_error is None and not o.wrong_elements:
        return head
    undefined = o.rms_rel_error is None and o.max_abs_error is not None  # the reference is zero everywhere
    rms = "undefined" if undefined else _error(o.rms_rel_error)
    share = "" if o.bound_share is None else f", {o.bound_share:.3g} of its bound"
    owner = f" ({o.owner})" if o.owner else ""
    return (
        f"{head}, {o.wrong_elements} of {math.prod(o.shape)} elements wrong, max error {_error(o.max_abs_error)} absolute, "
        f"{_error(o.max_rel_error)} relative, rms {rms}\n"
        f"  worst at {list(o.worst_index)}{owner}: {_error(o.worst_actual)}, expected {_error(o.worst_expected)}{share}\n"
        f"  {o.tolerance}"
    )


def _error(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _controls(controls: Iterable[Control]) -> list[str]:
    """How many known wrong outputs the tolerance rejects; what it accepts or could not be told of, by name."""
    by = {outcome: [c for c in controls if c.outcome == outcome] for outcome in ("rejected", "accepted", "skipped")}
    if not any(by.values()):
        return []
    lines = [f"FAILED: the tolerance accepts {c.name}{f' ({c.reason})' if c.reason else ''}" for c in by["accepted"]]
    names = ", ".join(c.name for c in by["rejected"])
    lines.append(f"controls: {len(by['rejected'])} known wrong outputs rejected" + (f" ({names})" if names else ""))
    return lines + [f"  skipped: {c.name}: {c.reason}" for c in by["skipped"]]


def _tried(found: Verification) -> list[str]:
    lines = [_attempts(list(same)) for _, same in itertools.groupby(found.tried, lambda a: (a.fill, a.condition, a.launches))]
    if not found.passed and not found.accepted:
        lines.append(f"FAILED on {found.fill}, seed {found.seed}{_under(found.condition)}")
    if found.repeats is not None and found.tried:
        lines.append(
            "the same bits in every launch"
            if found.repeats
            else "OTHER BITS when launched again: a race, or an order that varies"
        )
    return lines


def _attempts(tried: list[Attempt]) -> str:
    """Attempts that differ in their seeds alone."""
    a, seeds = tried[0], f"seed {tried[0].seed}" if len(tried) == 1 else f"seeds {tried[0].seed} to {tried[-1].seed}"
    launches, share = sum(attempt.launches for attempt in tried), max(attempt.bound_share for attempt in tried)
    return f"{launches} launches on {a.fill}, {seeds}{_under(a.condition)}: at most {share:.3g} of the bound"


def _under(condition: str) -> str:
    return "" if condition == CONDITIONS[0] else f", {condition}"


# ------------------------------------------------------------------------------------------------- deep


def _deep(deep: Deep) -> list[str]:
    rows = [row("shapes", _shapes(deep))] if deep.shapes or deep.problems else []
    if deep.serial:
        rows.append(row("one by one", f"{_verdict(deep.serial)} with every launch waited for (CUDA_LAUNCH_BLOCKING=1)"))
    return rows


def _shapes(deep: Deep) -> str:
    cells = [(label, _verdict(found)) for label, found in deep.shapes.items()]
    return listing(cells + [(label, f"FAILED: {text}") for label, text in deep.problems.items()])


def _verdict(found: Verification) -> str:
    if not found.passed:
        return "FAILED: " + "; ".join(check(o).removeprefix("FAILED: ") for o in found.outputs if not o.passed)
    return f"passed, at most {max(a.bound_share for a in found.tried):.3g} of the bound"
