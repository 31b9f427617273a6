"""Ordinary loads and stores of a warp, of shared memory and of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_bench.simulate.copies import count_stores
from tirx_bench.simulate.memory import Pointer
from tirx_bench.simulate.values import WARP, Mask, numpy_kind, spread

if TYPE_CHECKING:
    from tirx_bench.simulate.warp import Warp


def load(warp: Warp, mask: Mask, address: Any, dtype: str) -> Any:
    """A value where all lanes have one address, else one for each lane; 0 in lanes that are not active."""
    kind = np.dtype(numpy_kind(dtype))
    memory, offsets = _located(warp, mask, address, kind.itemsize, f"a load of {dtype}", write=False)
    if offsets is None:
        return 0
    found = _widened(memory[offsets[:, None] + np.arange(kind.itemsize)].view(kind)[:, 0])
    if np.ndim(_offset(address)) == 0:
        return found[0].item() if found.dtype.kind in "iub" else found[0]
    values = np.zeros(WARP, found.dtype)
    values[mask.bits] = found
    return values


def store(warp: Warp, mask: Mask, address: Any, value: Any, dtype: str) -> None:
    kind = np.dtype(numpy_kind(dtype))
    memory, offsets = _located(warp, mask, address, kind.itemsize, f"a store of {dtype}", write=True)
    if offsets is None:
        return
    written = _narrowed(spread(value)[mask.bits], kind)
    if len(offsets) < len(written):
        if (written != written[0]).any():
            warp.finding("race", f"WAW: {mask.count} lanes store different values to one address")
        written = written[:1]
    elif len(offsets) > 1 and len(set(offsets.tolist())) < len(offsets) and _differ(offsets, written):
        warp.finding("race", "WAW: several lanes store different values to one address")
    memory[offsets[:, None] + np.arange(kind.itemsize)] = written.view(np.uint8).reshape(-1, kind.itemsize)
    if type(address) is Pointer:
        count_stores(address.tensor, offsets // address.tensor.size)


def _located(warp: Warp, mask: Mask, address: Any, size: int, what: str, write: bool) -> tuple[Any, Any]:
    """The bytes of the memory, and the offsets of the active lanes; None when they are outside of it."""
    if type(address) is Pointer:
        return address.tensor.raw, warp.global_index(address, size, mask, what, write)
    found = warp.shared(address, size, mask, what, write)
    return (found[0].memory.bytes, found[1]) if found else (None, None)


def _offset(address: Any) -> Any:
    return address.offset if type(address) is Pointer else address


def _widened(values: Any) -> Any:
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def _narrowed(values: Any, kind: Any) -> Any:
    """With the bits that a register of the type has: integers were computed in 64."""
    return np.ascontiguousarray(values.astype(kind))


def _differ(offsets: Any, values: Any) -> bool:
    """Whether lanes with one address have different values."""
    seen: dict[int, bytes] = {}
    return any(seen.setdefault(o, v.tobytes()) != v.tobytes() for o, v in zip(offsets.tolist(), values, strict=True))
