"""What a command writes: values as JSON on stdout, errors and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from tirx_bench.model import WorkbenchError
from tirx_bench.serial import to_plain


def emit(value: Any) -> int:
    print(json.dumps(to_plain(value), indent=1))
    return 0


def print_text(text: str) -> int:
    print(text)
    return 0


def error_plain(error: WorkbenchError) -> dict[str, Any]:
    return {
        "error": {
            "kind": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
            "exit_code": error.exit_code,
        }
    }


def report(error: WorkbenchError) -> None:
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"next: {error.hint}", file=sys.stderr)


class Progress:
    """The current step on one line of a terminal; nothing in a pipe."""

    def __init__(self, name: str):
        self.name = name
        self.shown = sys.stderr.isatty()

    def __enter__(self) -> Callable[[str], None]:
        return self._show

    def _show(self, step: str) -> None:
        if self.shown:
            print(f"\r\x1b[K{self.name}: {step}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
