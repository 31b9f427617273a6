"""How large an integer expression can get, so that only arithmetic that may overflow is wrapped."""

from __future__ import annotations

from typing import Any

from tirx_bench.simulate.values import BITS

Range = tuple[int, int]


def of_type(dtype: str) -> Range:
    if dtype == "bool":
        return 0, 1
    bits = BITS.get(dtype, 64)
    return (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Bounds:
    """Ranges of the variables seen so far, and of expressions over them."""

    def __init__(self) -> None:
        self.known: dict[Any, Range] = {}

    def of(self, node: Any) -> Range:
        """What the expression's register may hold."""
        low, high = self.exact(node)
        least, most = of_type(str(node.ty))
        return (low, high) if least <= low and high <= most else (least, most)

    def exact(self, node: Any) -> Range:
        """What the arithmetic gives before a register wraps it."""
        kind = type(node).__name__
        if kind == "IntImm":
            return int(node.value), int(node.value)
        if kind == "Var":
            return self.known.get(node) or of_type(str(node.ty))
        if kind in ("Add", "Sub", "Mul", "LShift", "RShift", "BitwiseAnd", "FloorMod", "Mod", "FloorDiv", "Div", "Min", "Max"):
            return _combined(kind, self.of(node.a), self.of(node.b), of_type(str(node.ty)))
        if kind == "Cast" and str(node.value.ty) in BITS:
            return self.of(node.value)
        if kind == "Select":
            a, b = self.of(node.true_value), self.of(node.false_value)
            return min(a[0], b[0]), max(a[1], b[1])
        return of_type(str(node.ty))


def _combined(kind: str, a: Range, b: Range, whole: Range) -> Range:
    if kind == "Add":
        return a[0] + b[0], a[1] + b[1]
    if kind == "Sub":
        return a[0] - b[1], a[1] - b[0]
    if kind in ("Min", "Max"):
        pick = min if kind == "Min" else max
        return pick(a[0], b[0]), pick(a[1], b[1])
    if kind == "BitwiseAnd":
        tops = [top for low, top in (a, b) if low >= 0]
        return (0, min(tops)) if tops else whole
    if kind in ("Mod", "FloorMod") and b[0] > 0:
        low = 0 if kind == "FloorMod" or a[0] >= 0 else max(a[0], 1 - b[1])
        return low, max(0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1)
    if kind == "Mul" or (kind == "LShift" and b[0] >= 0 and b[1] < 64):
        factors = b if kind == "Mul" else (1 << b[0], 1 << b[1])
        products = [x * y for x in a for y in factors]
        return min(products), max(products)
    if kind in ("Div", "FloorDiv") and b[0] > 0 and a[0] >= 0:
        return a[0] // b[1], a[1] // b[0]
    if kind == "RShift" and a[0] >= 0 and b[0] >= 0:
        return 0, a[1] >> min(b[0], 64)
    return whole
