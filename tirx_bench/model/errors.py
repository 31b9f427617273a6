"""The errors: what happened, and the next step. The class decides the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkbenchError(Exception):
    """Something a person can act on: what happened, and the next step. `exit_code` is the process's."""

    exit_code = 1

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint


class FailedError(WorkbenchError):
    """The work itself failed: a build raised, a compiler refused, a kernel faulted or never returned. Exit 1."""


class UsageError(WorkbenchError):
    """A name, an option, a shape or a file that cannot be used. Exit 2."""

    exit_code = 2


class MissingError(WorkbenchError):
    """A tool, a package or a device that is not here. Exit 3."""

    exit_code = 3


class NothingRanError(WorkbenchError):
    """Nothing was measured, so there is nothing to conclude. Exit 4."""

    exit_code = 4


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """A `UsageError` that answers an unknown name with the nearest known ones."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return UsageError(f"unknown {kind} {name!r}", hint)
