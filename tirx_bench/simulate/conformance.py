"""Which operations gave the same bits as a GPU."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

MEASURED = Path(__file__).with_name("conformance.json")


@cache
def conformant() -> frozenset[str]:
    """The variants of intrinsics that a kernel of the conformance suite ran on the GPU with the bits that it has here."""
    return frozenset(json.loads(MEASURED.read_text())["conformant"])
