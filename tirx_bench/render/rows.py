"""Text in rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence


def table(rows: Sequence[Sequence[str]], indent: int = 0) -> str:
    """Rows in columns: names on the left, numbers right-aligned."""
    return "\n".join(" " * indent + line for line in _lines(rows, str.rjust))


def listing(rows: Sequence[Sequence[str]]) -> str:
    """Rows in left-aligned columns."""
    return "\n".join(_lines(rows, str.ljust))


def _lines(rows: Sequence[Sequence[str]], justify: Callable[[str, int], str]) -> Iterator[str]:
    """Rows in columns of one width each: the first on the left, the others as `justify` puts them."""
    name, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *cells in rows:
        yield "  ".join([first.ljust(name), *(justify(c, w) for c, w in zip(cells, others, strict=True))]).rstrip()


def row(label: str, text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"{label:<13}{first}", *(" " * 13 + line for line in rest)])


def microseconds(us: float) -> str:
    return f"{us:.4g} us"
