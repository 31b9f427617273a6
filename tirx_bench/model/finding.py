"""What lint, the compiler's notes and reports say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "lead"]


@dataclass(frozen=True)
class Place:
    """A place in a file; `line` and `column` count from 1, 0 is unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])


@dataclass(frozen=True)
class Finding:
    """One thing that lint, the compiler's notes or a report says about a kernel."""

    rule: str
    severity: Severity
    message: str
    place: Place | None = None
    evidence: str = ""
    witness: tuple[str, ...] = ()


def failing(findings: Iterable[Finding], strict: bool = False) -> bool:
    """Whether there is an error among them, or a warning when strict."""
    bad = ("error", "warning") if strict else ("error",)
    return any(f.severity in bad for f in findings)
