"""Each rule on real TIRx kernels (data/lint_kernels.py marks the lines), and the rules against a concrete execution."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import count, product
from pathlib import Path
from random import Random

import pytest

from tirx_bench.lint import lint, lint_blocks
from tirx_bench.lint.names import range_id
from tirx_bench.lint.tree import Block, Branch, Event, Jump, Loop, Node, Site, TokenStore
from tirx_bench.model import Place

KERNELS = Path(__file__).parent / "data" / "lint_kernels.py"
LINES = KERNELS.read_text().splitlines()
MARK = re.compile(r"# <- (\S+)$")
SEEDS = 400
SEVERITY = {"IK032": "warning", "unproven": "note"}


@pytest.fixture(scope="module")
def kernels():
    spec = importlib.util.spec_from_file_location("lint_kernels", KERNELS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected() -> dict[str, list[tuple[str, int]]]:
    """The marked rules and lines of each prim_func in the file."""
    marks: dict[str, list[tuple[str, int]]] = {}
    name = ""
    for number, line in enumerate(LINES, 1):
        if line.startswith("def "):
            name = line[4 : line.index("(")]
            if LINES[number - 2] == "@T.prim_func":
                marks[name] = []
        elif found := MARK.search(line):
            marks[name].append((found[1], number))
    return marks


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if line.endswith(text))


# ----------------------------------------------------------------------------------------- real kernels


@pytest.mark.parametrize("name", [name for name in expected() if name != "inlined"])
def test_findings_are_on_the_marked_lines_and_nowhere_else(kernels, name):
    found = lint({name: getattr(kernels, name)})
    assert [(f.rule, f.place.line) for f in found] == expected()[name]
    assert {f.place.file for f in found} <= {str(KERNELS)}
    assert all(f.severity == SEVERITY.get(f.rule, "error") and f.place.column and f.message for f in found)


def test_inlined_event_is_placed_where_it_is_written_with_its_call_sites(kernels):
    (found,) = lint({"main": kernels.inlined})
    assert (found.rule, found.place.line) == ("IK002", line_of("# never popped"))
    assert found.witness == tuple(f"inlined at {KERNELS}:{line_of(text)}:5" for text in ("# the inner call", "# the outer call"))


def test_names_are_counted_over_all_kernels_of_the_module(kernels):
    assert lint({"one": kernels.names}) == lint({"one": kernels.other_kernel}) == ()
    (found,) = lint({"one": kernels.names, "two": kernels.other_kernel})
    assert (found.rule, found.place.line) == ("IK033", line_of("# a mark in `names`"))
    assert str(line_of('iket.mark("m", n)')) in found.evidence


def test_a_note_names_what_is_undecided_and_why(kernels):
    (found,) = lint({"main": kernels.book_without_a_role_pop})
    assert "`if warp_id == 1` leaves 'consumer_compute' open" in found.message
    assert found.evidence == "balance of range_push and range_pop"


def test_the_package_imports_without_tvm():
    code = "import sys, tirx_bench.lint; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------------------------- the rules on blocks

LINE = count(1)


def here() -> Site:
    return Site(Place("k.py", next(LINE)))


def event(kind: str, name: str | None = None, token: int | None = None, payload: str | None = None) -> Event:
    return Event(kind, here(), name, token, payload)


def store(source: str, token: int, name: str | None = None, origin: int | None = None) -> TokenStore:
    return TokenStore(source, here(), token, name, origin)


def rules(block: Sequence) -> list[str]:
    return [f.rule for f in lint_blocks({"main": tuple(block)})]


def test_the_31st_name_switches_the_module_to_extended_records_and_the_4033rd_is_refused():
    names = [event("mark", f"n{i}") for i in range(4033)]
    assert rules(names[:30] * 2) == []
    (found,) = lint_blocks({"one": tuple(names[:20]), "two": tuple(names[10:31])})
    assert (found.rule, found.severity, found.place) == ("IK032", "warning", names[30].site.place)
    assert [f.severity for f in lint_blocks({"main": tuple(names[:4032])})] == ["warning"]
    (found,) = lint_blocks({"main": tuple(names)})
    assert (found.rule, found.severity, found.place) == ("IK032", "error", names[4032].site.place)


def test_a_sentinel_takes_no_name():
    sentinels = [store("sentinel", 0, f"n{i}") for i in range(40)]
    assert rules(sentinels) == []


def test_range_id_is_the_one_in_a_captured_trace():
    assert range_id("producer_load") == 159632868
    assert range_id("stage_14518") == range_id("stage_1718024")


def test_marks_have_no_range_id_to_collide():
    assert rules([event("mark", "stage_14518"), event("push", "stage_1718024"), event("pop")]) == []


def test_the_payload_of_an_end_is_checked_on_every_path_the_token_can_take():
    block = [store("start", 0, "a"), store("copy", 1, origin=0), store("copy", 2, origin=1), event("end", token=2)]
    assert rules(block) == []
    assert rules([*block[:3], event("end", token=2, payload="int32")]) == ["IK033"]


def test_a_walk_that_would_take_too_long_ends_in_a_note(monkeypatch):
    monkeypatch.setattr("tirx_bench.lint.walk.STEP_LIMIT", 100)
    grows = Loop("loop over i", here(), 1_000_000, (event("push", "a"),))
    assert rules([grows]) == ["unproven"]


def test_a_repeated_statement_is_no_loop():
    """An unrolled Python loop gives several events on one line."""
    site = here()
    assert rules([Event("push", site, "a"), Event("push", site, "a")]) == ["IK002"]


# ------------------------------------------------------------------------- against a concrete execution
#
# A run fixes every condition and every trip count. If no run of a kernel has a fault, lint may not report an error;
# a fault in code that no run reaches is let through, because lint does not know which conditions exclude each other.


class Fault(Exception):
    pass


class Leave(Exception):
    pass


class Hang(Exception):
    """An endless loop that nothing leaves: what is open can still be ended, unless no token holds it any more."""


class Run:
    """One warp, as NVIDIA's matcher sees it: a stack, and one toggle per name."""

    def __init__(self, conditions: dict[str, bool], trips: int):
        self.conditions, self.trips = conditions, trips
        self.depth, self.open, self.tokens = 0, set(), {}
        self.reached: set[Place] = set()
        self.later = [False]

    def outcome(self, block: Block) -> str:
        try:
            self.block(block)
        except Leave:
            pass
        except Hang:
            return "lost in a hang" if self.open - set(self.tokens.values()) else "right"
        except Fault:
            return "wrong"
        return "wrong" if self.depth or self.open else "right"

    def block(self, block: Block) -> None:
        for node in block:
            self.reached.add(node.site.place)
            if isinstance(node, Branch):
                taken = self.later[-1] if node.condition == "later" else self.conditions[node.condition]
                self.block(node.then if taken else node.other)
            elif isinstance(node, Loop):
                self.loop(node)
            elif isinstance(node, Jump):
                raise Leave(node.kind)
            elif isinstance(node, TokenStore):
                self.store(node)
            else:
                self.event(node)

    def loop(self, loop: Loop) -> None:
        trips = 4 if loop.endless else self.trips if loop.trips is None else loop.trips
        for trip in range(trips):
            self.later.append(trip > 0)
            try:
                self.block(loop.body)
            except Leave as leave:
                if str(leave) == "return":
                    raise
                if str(leave) == "break":
                    break
            finally:
                self.later.pop()
        else:
            if loop.endless:
                raise Hang

    def store(self, node: TokenStore) -> None:
        if node.source == "copy":
            self.tokens[node.token] = self.tokens.get(node.origin)
            return
        if node.source == "start":
            self.must(node.name not in self.open)
            self.open.add(node.name)
        self.tokens[node.token] = node.name if node.source == "start" else ""

    def event(self, node: Event) -> None:
        if node.kind == "end":
            name = self.tokens.get(node.token)
            self.must(name is not None and (not name or name in self.open))
            self.open.discard(name)
        else:
            self.must(node.kind == "push" or self.depth > 0)
            self.depth += 1 if node.kind == "push" else -1

    def must(self, right: bool) -> None:
        if not right:
            raise Fault


CONDITIONS = ("a", "b")


class Writer:
    """Writes random kernels. A condition is not used again inside its own arms: one arm could never run."""

    def __init__(self, seed: int):
        self.random = Random(seed)

    def block(self, depth: int = 3, free: tuple[str, ...] = CONDITIONS, in_loop: bool = False) -> Block:
        return tuple(self.node(depth, free, in_loop) for _ in range(self.random.randint(1, 4)))

    def node(self, depth: int, free: tuple[str, ...], in_loop: bool) -> Node:
        kind = self.random.choice(("leaf", "pair", "pair", "branch", "loop", "jump") if depth else ("leaf", "pair"))
        if kind == "pair":
            return Loop("once", here(), 1, self.pair(depth, free, in_loop))
        if kind == "branch" and free:
            taken = self.random.choice(free)
            rest = tuple(c for c in free if c != taken)
            return Branch(taken, here(), *(self.block(depth - 1, rest, in_loop) for _ in range(2)))
        if kind == "loop":
            inside = free if "later" in free else (*free, "later")
            trips, endless = self.random.choice(((None, False), (None, True), (1, False), (3, False)))
            return Loop("loop", here(), trips, self.block(depth - 1, inside, True), endless)
        if kind == "jump":
            return Jump(self.random.choice(("break", "continue", "return") if in_loop else ("return",)), here())
        return self.leaf()

    def pair(self, depth: int, free: tuple[str, ...], in_loop: bool) -> Block:
        name, token = self.random.choice("xyz"), self.random.randint(0, 2)
        inside = self.block(depth - 1, free, in_loop) if depth and self.random.random() < 0.7 else ()
        if self.random.random() < 0.5:
            return (event("push", name), *inside, event("pop"))
        return (store("start", token, name), *inside, event("end", token=token))

    def leaf(self) -> Node:
        name, token, origin = self.random.choice("xyz"), self.random.randint(0, 2), self.random.randint(0, 2)
        made = (
            event("push", name), event("pop"), event("end", token=token), store("start", token, name),
            store("sentinel", token, name), store("copy", token, origin=origin),
        )  # fmt: skip
        return self.random.choice(made)


def runs(block: Block) -> Iterator[tuple[str, set[Place]]]:
    for *values, trips in product((False, True), (False, True), range(4)):
        run = Run(dict(zip(CONDITIONS, values, strict=True)), trips)
        yield run.outcome(block), run.reached


@pytest.mark.parametrize("start", range(0, SEEDS, SEEDS // 4))
def test_a_kernel_gets_an_error_only_if_some_run_faults_and_passes_in_silence_only_if_none_does(start):
    for seed in range(start, start + SEEDS // 4):
        block = Writer(seed).block()
        outcomes, places = zip(*runs(block), strict=True)
        found = [f for f in lint_blocks({"main": block}) if f.rule != "IK033"]
        if "wrong" in outcomes:
            assert found, f"seed {seed}: nothing reported"
        if set(outcomes) == {"right"}:
            reached = set().union(*places)
            assert not [f for f in found if f.severity == "error" and f.place in reached], f"seed {seed}"
