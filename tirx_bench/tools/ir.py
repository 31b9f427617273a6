"""TVM's statements and expressions, by reflection."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

LEAVES = {"Var", "IntImm", "StringImm", "FloatImm"}
NO_NODES = {"span", "ty", "annotations", "op", "attrs", "dtype", "buffer", "source", "kind", "loop_var"}


def operation(call: Any) -> str:
    return str(getattr(call.op, "name", call.op)).removeprefix("tirx.")


@cache
def _fields(kind: Hashable) -> tuple[str, ...]:
    """The fields of a node of this type that may hold others."""
    names: list[str] = []
    info: Any = getattr(kind, "__tvm_ffi_type_info__")  # noqa: B009
    while info is not None:
        names += [field.name for field in info.fields if field.name not in NO_NODES]
        info = info.parent_type_info
    return tuple(names)


def walk(node: Any, visit: Callable[[Any], None]) -> None:
    """Call `visit` on every statement and expression under a node, itself first."""
    import tvm
    import tvm_ffi
    from tvm import tirx

    nodes, lists = (tirx.Stmt, tvm.ir.Expr), (tvm_ffi.Array, list, tuple)

    def go(node: Any) -> None:
        if isinstance(node, nodes):
            visit(node)
            kind: Any = type(node)
            if kind.__name__ not in LEAVES:
                for name in _fields(kind):
                    go(getattr(node, name, None))
        elif isinstance(node, lists):
            for item in node:
                go(item)

    go(node)
