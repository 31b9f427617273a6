"""The intrinsics that the machine knows, one file for each family of the PTX ISA.

An operation is a function of the strand, the mask of its active lanes, and its operands by the names that TVM's table of PTX
instructions gives them; that table also says how many there are. What is not here is refused by name.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tirx_bench.simulate.capture import UnsupportedError, inner
from tirx_bench.tools.ir import operation, walk

IGNORED = {"cache_policy"}  # a hint


@dataclass(frozen=True)
class Operation:
    """What an intrinsic does. `section` is where the PTX ISA says so."""

    name: str
    function: Callable[..., Any]
    section: str
    operands: tuple[str, ...]
    optional: frozenset[str]
    takes_modifiers: bool
    value: bool = False  # gives a value
    blocking: bool = False  # False: it cannot go on yet, and is to be tried again
    yields: bool = False  # a place where chance may let somebody else run
    polls: bool = False  # a loop around it waits for something
    inert: bool = False  # nothing that happens here depends on it
    communicates: bool = False  # blocks may talk through global memory with it
    unit: Callable[[list[str], Any], int] | None = None  # bytes of the smallest access to shared memory

    def bound(self, call: Any) -> Callable[..., Any]:
        return functools.partial(self.function, mods=modifiers(call)) if self.takes_modifiers else self.function


REGISTRY: dict[str, Operation] = {}


def op(*names: str, section: str, **traits: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the meaning of intrinsics."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = dict(list(inspect.signature(function).parameters.items())[2:])
        takes_modifiers = parameters.pop("mods", None) is not None
        optional = frozenset(name for name, p in parameters.items() if p.default is not p.empty)
        for name in names:
            REGISTRY[name] = Operation(name, function, section, tuple(parameters), optional, takes_modifiers, **traits)
        return function

    return register


@dataclass(frozen=True)
class Written:
    """An operand that the intrinsic writes: a load of a register, as TVM spells it."""

    node: Any

    @property
    def source(self) -> Any:
        return self.node.source


@functools.cache
def _table() -> dict[str, Any]:
    from tvm.backend.cuda.ptx import TABLE

    return dict(TABLE)


def strings(call: Any) -> list[str]:
    return [a.value for a in call.args if type(a).__name__ == "StringImm"]


def modifiers(call: Any) -> Any:
    """The modifiers of a PTX instruction by slot, those left out empty; the strings of any other intrinsic, and its type."""
    entry = _entry(call)
    if entry is None:
        return [*(word for word in strings(call) if word), str(call.ty)]
    from tvm.backend.cuda.ptx.table import mods

    return mods(entry, _tokens(entry, call))


def operands(call: Any) -> dict[str, Any]:
    """The operands by name: expressions, `Written`, or tuples of them where an operand is a group of registers."""
    entry = _entry(call)
    given = [a for a in call.args if type(a).__name__ != "StringImm"]
    if entry is None:
        found = REGISTRY.get(operation(call))
        names = found.operands if found else ()
        if len(names) < len(given):
            raise UnsupportedError(f"{len(given)} operands of {described(call)}")
        return dict(zip(names, given, strict=False)) | dict.fromkeys(names[len(given) :])
    from tvm.backend.cuda.ptx.table import operand_layout

    flags = call.args[-1].value.split(",")
    sunk = {int(flag[1:]) for flag in flags if flag[:1] == "s" and flag[1:].isdigit()}
    rest = iter(given)
    found_by_name: dict[str, Any] = {}
    for slot, first, count in operand_layout(entry, modifiers(call)):
        nodes = [None if first + lane in sunk else next(rest) for lane in range(count)]
        if slot.rw != "r":
            nodes = [node if node is None else Written(node) for node in nodes]
        if slot.name not in IGNORED:
            found_by_name[slot.name] = nodes[0] if slot.lanes == 1 else tuple(nodes)
    return found_by_name


def predicate_of(call: Any) -> Any:
    """The predicate that guards a PTX instruction, if one does."""
    if _entry(call) is None or "pred" not in call.args[-1].value.split(","):
        return None
    return [a for a in call.args if type(a).__name__ != "StringImm"][-1]


def variant(call: Any) -> str:
    """The instruction as PTX spells it, with its modifiers; what conformance is told by."""
    entry = _entry(call)
    if entry is None:
        return ".".join([operation(call), *(word for word in strings(call) if word)])
    return ".".join([entry.mnemonic or entry.name, *(token for token in _tokens(entry, call) if token)])


described = variant


def _entry(call: Any) -> Any:
    name = operation(call)
    return _table().get(name[4:]) if name.startswith("ptx.") else None


def _tokens(entry: Any, call: Any) -> list[str]:
    return [a.value for a in list(call.args)[-1 - len(entry.slots) : -1]]


# ---------------------------------------------------------------------------------------- asked of code


def blocks(statement: Any) -> bool:
    """Whether threads may have to wait somewhere in a statement."""
    kind = type(statement).__name__
    if kind == "Evaluate" and type(statement.value).__name__ == "Call":
        known = REGISTRY.get(operation(statement.value))
        return known is not None and (known.blocking or known.polls)
    return any(blocks(part) for part in inner(statement)) or (kind == "While" and polling(statement))


def polling(loop: Any) -> bool:
    """Whether a while loop looks at memory that somebody else may change."""
    found: list[bool] = []

    def visit(node: Any) -> None:
        if type(node).__name__ == "Call" and (known := REGISTRY.get(operation(node))) is not None:
            found.append(known.polls)
        elif type(node).__name__ == "TensorLoad" and node.source.scope() != "local":
            found.append(True)

    walk(loop, visit)
    return any(found)


def varying(node: Any) -> bool:
    """Whether an expression is more than constants."""
    return type(node).__name__ != "IntImm"


for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
