"""Where bytes lie: swizzled shared memory, the matrix descriptors of wgmma, and the fragments that threads hold.

Sources: PTX ISA, "Swizzling Modes" of tensor copies, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix
Descriptor Format", and "Register Fragments". A chunk is 16 bytes, the unit that swizzling moves.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

CHUNK = 16
SPAN = {0: 16, 1: 32, 2: 64, 3: 128}  # bytes of a swizzled row, by CUtensorMapSwizzle
DESCRIPTOR_MODE = {0: 0, 3: 1, 2: 2, 1: 3}  # the layout type in bits 62-63, to CUtensorMapSwizzle


class LayoutError(Exception):
    """A layout that nothing here models."""


def swizzled(address: Any, mode: int) -> Any:
    """The byte where a logical address lies: bits 4-6 are mixed with bits 7-9, as many as the mode has."""
    return address ^ (((address >> 7) & (SPAN[mode] // CHUNK - 1)) << 4)


@cache
def box_chunks(start: int, inner: int, rows: int, mode: int) -> Any:
    """The chunks of a box of `rows` x `inner` bytes, a multiple of 16, written densely at `start`."""
    dense = start + np.arange(rows)[:, None] * inner + np.arange(inner // CHUNK)[None, :] * CHUNK
    return swizzled(dense, mode) // CHUNK


def encoded(address: int, leading: int, stride: int, mode: int) -> int:
    """A matrix descriptor; offsets in units of 16 bytes, `mode` of CUtensorMapSwizzle."""
    layout = {1: 3, 2: 2, 3: 1}.get(mode, 0)
    return (address & 0x3FFFF) >> 4 | (leading & 0x3FFF) << 16 | (stride & 0x3FFF) << 32 | layout << 62


def _fields(descriptor: int) -> tuple[int, int, int, int]:
    if descriptor >> 49 & 7:
        raise LayoutError("a matrix descriptor with a base offset")
    start, leading, stride = (((descriptor >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
    return start, leading, stride, DESCRIPTOR_MODE[descriptor >> 62 & 3]


@cache
def k_major_chunks(descriptor: int, rows: int) -> Any:
    """(rows, 2) chunks: the 32 bytes of K that one wgmma reads of every row."""
    start, leading, stride, mode = _fields(descriptor)
    row, half = np.arange(rows)[:, None], np.arange(2)[None, :]
    step = CHUNK if mode else leading
    return swizzled(start + row // 8 * stride + row % 8 * SPAN[mode] + half * step, mode) // CHUNK


@cache
def mn_major_chunks(descriptor: int, rows: int) -> Any:
    """(16, rows / 8) chunks of 8 neighbouring rows each, for every one of the 16 columns of K; 16-bit types only."""
    start, leading, stride, mode = _fields(descriptor)
    k, group = np.arange(16)[:, None], np.arange(rows // 8)[None, :]
    wide = SPAN[mode] // CHUNK  # groups of 8 rows in one swizzled row
    if mode:
        dense = start + group % wide * CHUNK + group // wide * leading + k % 8 * SPAN[mode] + k // 8 * stride
    else:
        dense = start + group * stride + k % 8 * CHUNK + k // 8 * leading
    return swizzled(dense, mode) // CHUNK


def fragments(tile: Any) -> Any:
    """A 64 x N accumulator as (4 warps, N/2 registers, 32 lanes); N/4 registers of two values where they are 16 bits."""
    n = tile.shape[1]
    if tile.dtype.itemsize == 2:
        pairs = np.ascontiguousarray(tile).view(np.uint32)  # (64, N/2): two neighbouring columns
        return pairs.reshape(4, 2, 8, n // 8, 4).transpose(0, 3, 1, 2, 4).reshape(4, n // 4, 32)
    return tile.reshape(4, 2, 8, n // 8, 4, 2).transpose(0, 3, 1, 5, 2, 4).reshape(4, n // 2, 32)


def assembled(parts: list[Any], half: bool) -> Any:
    """The inverse of `fragments`: four warps' registers as the 64 x N tile."""
    stack = np.stack(parts)
    if half:
        n = stack.shape[1] * 4
        pairs = stack.reshape(4, n // 8, 2, 8, 4).transpose(0, 2, 3, 1, 4)
        return np.ascontiguousarray(pairs).reshape(64, n // 2).view(np.float16)
    n = stack.shape[1] * 2
    return np.ascontiguousarray(stack.reshape(4, n // 8, 2, 2, 8, 4).transpose(0, 2, 4, 1, 5, 3)).reshape(64, n)


def operand_a(parts: list[Any], kind: Any) -> Any:
    """Four warps' four registers of A, of two 16-bit or four 8-bit or one 32-bit value each, as the 64 x K tile."""
    stack = np.stack(parts).astype(np.uint32)  # (4 warps, 4 registers, 32 lanes): register = half of K, half of rows
    words = stack.reshape(4, 2, 2, 8, 4).transpose(0, 2, 3, 1, 4)  # warp, row half, row, k half, lane in quad
    return np.ascontiguousarray(words).reshape(64, 8).view(kind)
