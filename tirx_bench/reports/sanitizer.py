"""The XML report of compute-sanitizer: what it recorded, and findings with the line of kernel.cu."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tirx_bench.model import FailedError, Finding, Place, Severity

SEVERITIES: dict[str, Severity] = {"info": "note", "warn": "warning", "warning": "warning"}


@dataclass(frozen=True)
class Frame:
    """A place in device code. Empty texts and line 0 are unknown."""

    function: str
    path: str
    line: int
    pc: str

    @property
    def where(self) -> tuple[str, str, int]:
        """Without the instruction: one line of source often becomes several."""
        return self.function, self.path, self.line


@dataclass(frozen=True)
class Access:
    """One side of a race, and how often it met the first."""

    direction: str
    frame: Frame
    hazards: int


@dataclass(frozen=True)
class Fault:
    """One record. `frames` lead from where it happened out to the kernel; `race` is the accesses that are not ordered."""

    kind: str
    severity: Severity
    message: str
    frames: tuple[Frame, ...]
    thread: str
    race: tuple[Access, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for what a person would fix in one go: threads, addresses and counts may differ."""
        race = tuple((access.direction, access.frame.where) for access in self.race)
        return self.severity, self.message, tuple(frame.where for frame in self.frames), race


def read(path: Path) -> tuple[Fault, ...]:
    """What a report recorded. Raises `FailedError` naming the file when it is absent, empty, cut short or of another form."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
        return tuple(_fault(record) for record in _records(root))
    except OSError as error:
        raise FailedError(f"there is no report of compute-sanitizer at {path}: {error.strerror}") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise FailedError(f"{path} is empty, cut short or no report of compute-sanitizer: {error}") from error


def findings(faults: Sequence[Fault], tool: str, functions: Sequence[str], source: Path) -> tuple[Finding, ...]:
    """One finding for each place, of those in the device `functions` whose text is `source`; torch's kernels are left out."""
    groups: dict[tuple[object, ...], list[Fault]] = {}
    for fault in faults:
        if _of_kernel(fault, functions, source):
            groups.setdefault(fault.identity, []).append(fault)
    text = _Source(source)
    return tuple(_finding(tool, group, text) for group in groups.values())


# --------------------------------------------------------------------------------------------- the file


def _records(root: Element) -> Iterator[Element]:
    if root.tag != "ComputeSanitizerOutput":
        raise ValueError(f"its root is {root.tag}")
    for child in root:
        if child.tag != "record":
            raise ValueError(f"it holds a {child.tag}")
        yield child


def _fault(record: Element) -> Fault:
    what = record.find("what")
    if what is None or not _text(what, "text"):
        raise ValueError("a record does not say what happened")
    race = tuple(_access(side) for side in (*what.iterfind("source"), *what.iterfind("destination")))
    frames = tuple(_frame(element) for element in (*record.iterfind("where"), *record.iterfind("deviceStack/frame")))
    return Fault(
        kind=_text(record, "kind"),
        severity=SEVERITIES.get(_text(record, "level").lower(), "error"),
        message=_message(what, race),
        frames=frames or tuple(access.frame for access in race[:1]),
        thread=_thread(record.find("who")),
        race=race,
    )


def _access(side: Element) -> Access:
    where = side.find("where")
    if where is None:
        raise ValueError("one side of a race has no place")
    return Access(_text(side, "direction").lower() or "access", _frame(where), int(_text(side, "count") or 0))


def _frame(element: Element) -> Frame:
    return Frame(_text(element, "func"), _text(element, "path"), int(_text(element, "line") or 0), _text(element, "pc"))


def _message(what: Element, race: tuple[Access, ...]) -> str:
    if race:
        others = "another access" if len(race) == 2 else f"{len(race) - 1} other accesses"
        return f"race in shared memory: nothing orders this {race[0].direction} and {others}"
    size, direction, space, error = (_text(what, name) for name in ("size", "direction", "space", "error"))
    if size and direction and space and error:
        return f"{size}-byte {direction} of {space.strip('_')} memory {error}"
    said = [text.replace("__", "") for text in (_text(what, "text"), _text(what, "type")) if text]
    return ": ".join(text[:1].lower() + text[1:] for text in said)


def _thread(who: Element | None) -> str:
    """``thread (1,0,0) of block (0,0,0)``; empty if it is not known."""
    parts = [(name, who.find(f"{name}Idx")) for name in ("thread", "block")] if who is not None else []
    named = [f"{name} ({','.join(_text(index, axis) for axis in 'xyz')})" for name, index in parts if index is not None]
    return " of ".join(named)


def _text(element: Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


# ------------------------------------------------------------------------------------------ the findings


class _Source:
    """The lines of kernel.cu, as far as it can be read."""

    def __init__(self, path: Path):
        self.path = path
        self.lines: list[str] = []
        with contextlib.suppress(OSError):
            self.lines = path.read_text(errors="replace").splitlines()

    def holds(self, frame: Frame) -> bool:
        """By its name: an artifact may have been moved since it was compiled."""
        return Path(frame.path).name == self.path.name

    def place(self, frame: Frame) -> Place | None:
        return Place(str(self.path) if self.holds(frame) else frame.path, frame.line) if frame.path else None

    def line(self, frame: Frame) -> str:
        return self.lines[frame.line - 1].strip() if self.holds(frame) and 0 < frame.line <= len(self.lines) else ""

    def shown(self, frame: Frame) -> str:
        """``kernel.cu:73, scale_kernel+0x80: out[i] = inp[i];`` with the parts that are known."""
        place = f"{Path(frame.path).name}:{frame.line}" if frame.path else ""
        head = ", ".join(part for part in (place, _instruction(frame)) if part)
        return ": ".join(part for part in (head, self.line(frame)) if part)


def _instruction(frame: Frame) -> str:
    return f"{frame.function}+{frame.pc}" if frame.pc else frame.function


def _of_kernel(fault: Fault, functions: Sequence[str], source: Path) -> bool:
    """Whether it is the kernel's, or nobody knows whose. A failed CUDA call is the host's."""
    if fault.kind == "Api":
        return False
    own = (frame.function in functions or Path(frame.path).name == source.name for frame in fault.frames)
    return not fault.frames or any(own)


def _finding(tool: str, group: list[Fault], source: _Source) -> Finding:
    first, times = group[0], len(group)
    who = f", {'first ' if times > 1 else ''}by {first.thread}" if first.thread else ""
    message = first.message + (f", {times} times" if times > 1 else "") + who
    if not first.frames:
        return Finding(tool, first.severity, message)
    kernel = first.frames[-1]  # what it calls are TVM's helpers
    evidence = "; ".join(text for text in (source.line(kernel), _instruction(kernel)) if text)
    witness = [f"in {source.shown(frame)}" for frame in first.frames[:-1]] + _sides(group, source)
    return Finding(tool, first.severity, message, source.place(kernel), evidence, tuple(witness))


def _sides(group: list[Fault], source: _Source) -> list[str]:
    """Every access of a race, with its hazards in all records of it."""
    lines = []
    for sides in zip(*(fault.race for fault in group), strict=True):
        hazards = sum(side.hazards for side in sides)
        lines.append(f"{sides[0].direction} at {source.shown(sides[0].frame)}" + (f" ({hazards} hazards)" if hazards else ""))
    return lines
