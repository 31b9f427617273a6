"""IKET annotations that would compile without a word and give a wrong trace, or that TVM would refuse late.

Rules: IK001 pop without push, IK002 push never popped, IK004 token range never ended, IK005 ended twice, IK006 token
never set, IK007 token overwritten while open, IK008 two open ranges of one name, IK010 a loop changes the depth, IK032
and IK033 names and limits. `unproven` is a note: what could not be decided, and why. An error is certain for every warp
that gets there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tirx_bench.lint import names, walk
from tirx_bench.lint.stack import PushPop
from tirx_bench.lint.tokens import StartEnd
from tirx_bench.lint.tree import Block
from tirx_bench.model import Finding

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


def lint(functions: Mapping[str, PrimFunc]) -> tuple[Finding, ...]:
    """Findings over the kernels of one CUDA module, by name; in the order of their places."""
    from tirx_bench.lint.front import read

    return lint_blocks({name: read(function) for name, function in functions.items()})


def lint_blocks(blocks: Mapping[str, Block]) -> tuple[Finding, ...]:
    """The rules alone, on what the front end read."""
    found = list(names.check(blocks))
    for block in blocks.values():
        found += walk.check(PushPop(), block)
        found += walk.check(StartEnd(), block)
    return tuple(sorted(dict.fromkeys(found), key=_order))


def _order(found: Finding) -> tuple[str, int, int, str]:
    place = found.place
    return (place.file, place.line, place.column, found.rule) if place else ("", 0, 0, found.rule)
