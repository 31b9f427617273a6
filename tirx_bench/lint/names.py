"""Names, kinds, payloads and limits, over all kernels of one CUDA module: what TVM's LowerIket refuses, and where
its ids run out. TVM checks the same things, but late, and points into lowered TVMScript and not into the Python file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tirx_bench.lint.tree import Block, Leaf, Site, TokenStore, error, finding, leaves
from tirx_bench.model import Finding

NAME_BYTES = 32
NATIVE_NAMES = 30  # 5-bit event ids, without 0 and the shared id of pop
EXTENDED_NAMES = 4032
PAYLOADS = frozenset(
    ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")
)  # fmt: skip


@dataclass(frozen=True)
class Declared:
    """The first site of a name: every other must agree with it."""

    kind: str
    payload: str | None
    site: Site


def check(functions: Mapping[str, Block]) -> tuple[Finding, ...]:
    declared: dict[str, Declared] = {}
    found: list[Finding] = []
    for block in functions.values():
        for leaf in leaves(block):
            found += _literal(leaf)
            found += _payload(leaf)
            found += _declare(declared, leaf)
    for block in functions.values():
        found += _ends(declared, block)
    return (*found, *_collisions(declared), *_count(declared))


def range_id(name: str) -> int:
    """FNV-1a, 32 bits, over the UTF-8 bytes: IKET's id of a range."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def _kind(leaf: Leaf) -> str | None:
    """The kind that `leaf` declares its name to be. A sentinel declares nothing, it only labels the token."""
    if isinstance(leaf, TokenStore):
        return "token range" if leaf.source == "start" else None
    return {"mark": "mark", "push": "push/pop range"}.get(leaf.kind)


def _named(leaf: Leaf) -> bool:
    return leaf.source != "copy" if isinstance(leaf, TokenStore) else leaf.kind in ("mark", "push")


def _refused(message: str, site: Site, first: Site | None = None) -> Finding:
    return error("IK033", message, site, f"first declared at {first}" if first else "")


def _literal(leaf: Leaf) -> Iterator[Finding]:
    if not _named(leaf):
        return
    if leaf.name is None:
        yield _refused("an event name must be a string literal", leaf.site)
    elif not leaf.name:
        yield _refused("an event name must not be empty", leaf.site)
    elif (size := len(leaf.name.encode())) > NAME_BYTES:
        yield _refused(f"event name {leaf.name!r} has {size} UTF-8 bytes; {NAME_BYTES} fit", leaf.site)


def _payload(leaf: Leaf) -> Iterator[Finding]:
    if leaf.payload is not None and leaf.payload not in PAYLOADS:
        allowed = "only scalar bool, 8- to 64-bit integers, float32 and float64"
        yield _refused(f"a payload cannot be {leaf.payload}: {allowed}", leaf.site)


def _declare(declared: dict[str, Declared], leaf: Leaf) -> Iterator[Finding]:
    kind = _kind(leaf)
    if kind is None or not leaf.name:
        return
    first = declared.setdefault(leaf.name, Declared(kind, leaf.payload, leaf.site))
    if first.kind != kind:
        yield _refused(f"{leaf.name!r} is a {kind} here and a {first.kind} elsewhere", leaf.site, first.site)
    elif _schema(first.payload) != _schema(leaf.payload):
        here, there = _words(leaf.payload), _words(first.payload)
        yield _refused(f"{leaf.name!r} has {here} here and {there} elsewhere", leaf.site, first.site)


def _ends(declared: Mapping[str, Declared], block: Block) -> Iterator[Finding]:
    possible = _possible_names(block)
    for leaf in leaves(block):
        if isinstance(leaf, TokenStore) or leaf.kind != "end" or leaf.token is None:
            continue
        for name in sorted(possible.get(leaf.token, ())):
            first = declared[name]
            if first.kind == "token range" and _schema(first.payload) != _schema(leaf.payload):
                here, there = _words(leaf.payload), _words(first.payload)
                yield _refused(f"range_end of {name!r} has {here}, its range_start {there}", leaf.site, first.site)


def _possible_names(block: Block) -> dict[int, set[str]]:
    """Per token, the names that any start in `block` may give it, through copies too, on whatever path. As in TVM."""
    names: dict[int, set[str]] = {}
    stores = [leaf for leaf in leaves(block) if isinstance(leaf, TokenStore)]
    for store in stores:
        if store.token is not None and store.source == "start" and store.name:
            names.setdefault(store.token, set()).add(store.name)
    copies = [(store.origin, store.token) for store in stores if store.origin is not None and store.token is not None]
    for _ in copies:
        for origin, token in copies:
            names.setdefault(token, set()).update(names.get(origin, ()))
    return names


def _collisions(declared: Mapping[str, Declared]) -> Iterator[Finding]:
    """Marks have no range id."""
    seen: dict[int, str] = {}
    for name, first in declared.items():
        other = seen.setdefault(range_id(name), name) if first.kind != "mark" else name
        if other != name:
            message = f"range names {other!r} and {name!r} have the same 32-bit id: rename one"
            yield _refused(message, first.site, declared[other].site)


def _count(declared: Mapping[str, Declared]) -> Iterator[Finding]:
    sites = [first.site for first in declared.values()]
    if len(sites) > EXTENDED_NAMES:
        message = f"{len(sites)} distinct event names in one module; TVM takes at most {EXTENDED_NAMES}"
        yield error("IK032", message, sites[EXTENDED_NAMES])
    elif len(sites) > NATIVE_NAMES:
        message = f"{len(sites)} distinct event names in one module: more than {NATIVE_NAMES} switch it to extended records"
        yield finding("IK032", "warning", message, sites[NATIVE_NAMES], "every record of every kernel in it grows")


def _schema(payload: str | None) -> str | None:
    """TVM records a bool as an unsigned byte."""
    return "uint8" if payload == "bool" else payload


def _words(payload: str | None) -> str:
    return f"a payload of {payload}" if payload else "no payload"
