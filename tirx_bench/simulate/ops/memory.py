"""Loads, stores and atomics that are spelled as instructions: PTX ISA 9.7.10.8 to 9.7.10.12, 9.7.15.6, 9.7.15.7, mapa."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tirx_bench.simulate.accesses import load, store
from tirx_bench.simulate.capture import UnsupportedError
from tirx_bench.simulate.machine import Strand
from tirx_bench.simulate.memory import OFFSET, RANK_SHIFT
from tirx_bench.simulate.ops import op
from tirx_bench.simulate.values import BITS, WARP, Mask, Slot, numpy_kind, spread, uniform, wrapped

TYPES = {
    **{f"{letter}{bits}": f"uint{bits}" for letter in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16",
}  # fmt: skip


def _type(mods: Any) -> str:
    if mods["type"] not in TYPES:
        raise UnsupportedError(f"an access of type {mods['type']}")
    return TYPES[mods["type"]]


def _bytes(mods: list[str], call: Any) -> int:
    """The size of what an instruction accesses, from its type."""
    found = [re.fullmatch(r"(?:b|u|s|f|bf)(\d+)", word) for word in mods]
    return min((int(m[1]) // 8 for m in found if m), default=16)


@op("ptx.ld", section="9.7.10.8", unit=_bytes)
def load_into(s: Strand, mask: Mask, mods: Any, d: Slot, addr: Any) -> None:
    d.write(load(s.warp, mask, addr, _type(mods)), mask)
    if mods["sem"] in ("acquire", "volatile", "relaxed"):
        s.warp.observe(mask, addr)


@op("ptx.st", section="9.7.10.12", unit=_bytes)
def store_from(s: Strand, mask: Mask, mods: Any, addr: Any, value: Any) -> None:
    store(s.warp, mask, addr, value, _type(mods))


@op("ptx.mapa_u32", section="9.7.10.26")
def map_address(s: Strand, mask: Mask, d: Slot, a: Any, b: Any) -> None:
    d.write((a & OFFSET) + ((b + 1) << RANK_SHIFT), mask)


@op("ptx.getctarank", section="9.7.10.27")
def rank_of(s: Strand, mask: Mask, d: Slot, a: Any) -> None:
    rank = int(uniform(a, mask)) >> RANK_SHIFT
    d.write(rank - 1 if rank else s.warp.block.rank, mask)


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "min": min, "max": max, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "exch": lambda old, value: value,
}  # fmt: skip


def _combined(name: str, old: Any, value: Any, dtype: str) -> Any:
    found = COMBINE[name](old, value)
    return wrapped(found, BITS[dtype], not dtype.startswith("u")) if dtype in BITS else found


def _atomic(s: Strand, mask: Mask, name: str, address: Any, value: Any, dtype: str, semantics: str = "") -> Any:
    """Lane after lane; the values before."""
    warp = s.warp
    if semantics in ("release", "acq_rel"):
        warp.fence(mask)
    memory, offsets, size = warp.atomic(address, mask, dtype)
    old = np.zeros(WARP, np.int64 if dtype in BITS else np.float32)
    if offsets is None:
        return old
    given = spread(value)
    for lane, offset in zip(mask.lanes, np.broadcast_to(offsets, mask.count).tolist(), strict=True):
        cell = memory[offset : offset + size].view(numpy_kind(dtype))
        before = int(cell[0]) if dtype in BITS else cell[0]
        operand = int(given[lane]) if dtype in BITS else cell.dtype.type(given[lane])
        old[lane] = before
        cell[0] = _combined(name, before, operand, dtype)
    return old


@op("ptx.red", section="9.7.15.7", unit=_bytes)
def reduce(s: Strand, mask: Mask, mods: Any, addr: Any, value: Any) -> None:
    _atomic(s, mask, mods["op"], addr, value, _type(mods), mods["sem"])


@op("ptx.atom", "ptx.atom_exch", section="9.7.15.6", communicates=True, unit=_bytes)
def atomic(s: Strand, mask: Mask, mods: Any, d: Slot, addr: Any, value: Any) -> None:
    d.write(_atomic(s, mask, mods["op"], addr, value, _type(mods), mods["sem"]), mask)


@op("cuda.atomic_add", section="9.7.15.6", communicates=True, value=True, unit=lambda mods, call: int(_width(call)))
def atomic_add(s: Strand, mask: Mask, mods: Any, addr: Any, value: Any) -> Any:
    return _atomic(s, mask, "add", addr, value, mods[-1])


def _width(call: Any) -> int:
    return int(np.dtype(numpy_kind(str(call.args[1].ty))).itemsize)
