"""What a run of the machine found out, each thing once, with the lines of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from linecache import getline
from pathlib import Path

from tirx_bench.model import Finding, Place, Severity

LONGEST_STATEMENT = 5  # lines of one that are shown


@dataclass(frozen=True)
class Site:
    """An operation in the kernel: what it is, and the Python lines that made it, the kernel's own first."""

    operation: str
    lines: tuple[tuple[str, int], ...]

    @property
    def place(self) -> Place | None:
        """The line in the author's file: the outermost one that is not a library's."""
        own = next((line for line in self.lines if "site-packages" not in line[0]), self.lines[0] if self.lines else None)
        if own is None:
            return None
        path, here = Path(own[0]), Path.cwd()
        return Place(str(path.relative_to(here)) if path.is_relative_to(here) else own[0], own[1])

    @property
    def source(self) -> str:
        """The statement that begins on the author's line."""
        if self.place is None:
            return ""
        text = getline(self.place.file, self.place.line).strip()
        for number in range(self.place.line + 1, self.place.line + LONGEST_STATEMENT):
            if text.count("(") <= text.count(")"):
                break
            text += " " + getline(self.place.file, number).strip()
        return text

    def __str__(self) -> str:
        if self.place is None:
            return self.operation
        return f"{Path(self.place.file).name}:{self.place.line} {self.source or self.operation}"


class Found:
    """Findings by rule and places; `who` are the warps in which they were seen."""

    def __init__(self, sites: Sequence[Site]):
        self.sites = sites
        self.seen: dict[tuple[str, int | None, int | None, str], tuple[str, Counter[str], tuple[str, ...]]] = {}

    def add(
        self, rule: str, message: str, who: str, at: int | None = None, other: int | None = None, witness: Sequence[str] = ()
    ) -> None:
        key = (rule, at, other, message if at is None or rule == "deadlock" else "")
        if key not in self.seen:
            self.seen[key] = (message, Counter(), tuple(witness))
        self.seen[key][1][who] += 1

    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._finding(*key[:3], *value) for key, value in self.seen.items())

    def _finding(
        self, rule: str, at: int | None, other: int | None, message: str, who: Counter[str], witness: tuple[str, ...]
    ) -> Finding:
        site = self.sites[at] if at is not None else None
        names = [name for name in who if name]
        lines = [f"in {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"] if names else []
        if other is not None:
            lines.append(f"the other side: {self.sites[other]}")
        return Finding(
            rule, SEVERITIES.get(rule, "error"), message, site.place if site else None, site.source if site else "",
            (*lines, *witness),
        )  # fmt: skip


SEVERITIES: dict[str, Severity] = {
    "unmatched-arrive": "warning",
    "swizzle-phase": "warning",
    "unconsumed-load": "warning",
}
