"""docs/faults.md, the tests that are named after faults, and the table of guards say the same."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from guards import GUARDS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
FAULTS = range(1, 68)


def functions() -> dict[str, set[int]]:
    """Every test by file and name, and the faults in its name: test_f06_f09_... is of both."""
    found = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                numbers = re.match(r"test_((?:f\d+_)*)", node.name)[1]
                found[f"{path.relative_to(TESTS)}::{node.name}"] = {int(n) for n in re.findall(r"\d+", numbers)}
    return found


def listed() -> dict[int, list[list[str]]]:
    """The rows of docs/faults.md by fault: source, what went wrong, what is done here, tests."""
    found = defaultdict(list)
    for line in (ROOT / "docs" / "faults.md").read_text().splitlines():
        if row := re.match(r"\| F(\d+) \| (.+) \|$", line):
            found[int(row[1])].append(row[2].split(" | "))
    return found


NAMED = functions()
PAGE = listed()


def named_for(fault: int) -> list[str]:
    return re.findall(r"`([^`]+)`", PAGE[fault][0][3])


def test_the_page_has_every_fault_once_and_no_other():
    assert {fault: len(rows) for fault, rows in PAGE.items()} == dict.fromkeys(FAULTS, 1)
    assert all(len(rows[0]) == 4 and all(rows[0]) for rows in PAGE.values())


@pytest.mark.parametrize("fault", FAULTS)
def test_the_page_names_the_tests_of_a_fault_and_no_other(fault):
    named = {test for test, faults in NAMED.items() if fault in faults}
    assert named and set(named_for(fault)) == named


@pytest.mark.parametrize("fault", FAULTS)
def test_a_test_that_needs_no_card_fails_without_a_guard_of_the_fault(fault):
    guarded = [guard for guard in GUARDS if guard.fault == fault and not guard.gpu]
    assert guarded and all(guard.test in named_for(fault) for guard in guarded)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"F{guard.fault:02} {guard.file}")
def test_a_guard_is_in_its_file_once_and_its_test_is_one_of_the_faults(guard):
    assert guard.old != guard.new and (ROOT / "tirx_bench" / guard.file).read_text().count(guard.old) == 1
    assert guard.fault in NAMED[guard.test] and guard.test.startswith("gpu/") == guard.gpu
