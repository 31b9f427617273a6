"""SASS text to what it does."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tirx_bench.model import Artifact

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]*)")


def instruction_mix(sass: str) -> dict[str, int]:
    """How often each instruction stands in the text, by its first word (HGMMA, UTMALDG, LDL), commonest first."""
    return dict(Counter(match.group(1).partition(".")[0] for match in INSTRUCTION.finditer(sass)).most_common())


def artifact_mix(artifact: Artifact) -> dict[str, int]:
    return instruction_mix(Path(artifact.folder, "kernel.sass").read_text())
