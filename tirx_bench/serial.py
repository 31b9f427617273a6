"""Frozen dataclasses to plain JSON values and back, strictly: nothing is dropped, guessed or coerced. Standard library only."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from tirx_bench.model import UsageError

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """The JSON form of a value. A float that is not finite becomes null, since JSON has none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_plain(kind: type[T], data: Any, where: str = "") -> T:
    """Build a `kind` from JSON values. Raises `UsageError` naming the first field that is missing, unknown or of another type."""
    return _build(kind, data, where or kind.__name__)


def _build(kind: Any, data: Any, where: str) -> Any:
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data, where)
    if origin in (Union, types.UnionType):
        return _union(typing.get_args(kind), data, where)
    if origin is Literal:
        return data if data in typing.get_args(kind) else _refuse(kind, data, where)
    if origin is tuple:
        return _tuple(typing.get_args(kind), data, where)
    if origin is not None and issubclass(origin, Mapping):
        _, value_kind = typing.get_args(kind)
        if not isinstance(data, dict):
            _refuse(kind, data, where)
        return {k: _build(value_kind, v, f"{where}.{k}") for k, v in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind in (int, float, str, bool, types.NoneType) and type(data) is kind:
        return data
    return _refuse(kind, data, where)


def _dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        _refuse(kind, data, where)
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    if extra := sorted(set(data) - set(fields)):
        raise UsageError(f"{where} has a field {extra[0]!r} that this version does not know")
    required = [n for n, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING]
    if missing := [n for n in required if n not in data]:
        raise UsageError(f"{where} lacks the field {missing[0]!r}")
    return kind(**{n: _build(hints[n], v, f"{where}.{n}") for n, v in data.items()})


def _union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and types.NoneType in kinds:
        return None
    plain = [k for k in kinds if k is type(data)]
    for kind in plain or [k for k in kinds if k is not types.NoneType]:
        try:
            return _build(kind, data, where)
        except UsageError:
            if len(kinds) - (types.NoneType in kinds) == 1:
                raise
    return _refuse(" or ".join(getattr(k, "__name__", str(k)) for k in kinds), data, where)


def _tuple(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if not isinstance(data, list) or len(kinds) != 2 or kinds[1] is not Ellipsis:
        return _refuse(tuple, data, where)
    return tuple(_build(kinds[0], v, f"{where}[{i}]") for i, v in enumerate(data))


def _refuse(kind: Any, data: Any, where: str) -> Any:
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    raise UsageError(f"{where} should be a {name}, not {str(data)[:60]!r}")
