"""Copies that take turns, enough of them that none is still in L2 when it comes round again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tirx_bench.model import UsageError
from tirx_bench.pipeline.rotation import EVICTED_L2S, MOST_COPIES, Rotation, copies_needed, whole_turns

MB = 1 << 20
L2 = 50 * MB  # of an H200 and an H100


def between(copies: int, size: int) -> int:
    """How many bytes of others are touched between two uses of one copy."""
    return (copies - 1) * size


@pytest.mark.parametrize("size", [n * MB for n in range(1, 61)], ids=lambda size: f"{size // MB} MB")
def test_between_two_uses_of_a_copy_twice_the_l2_is_touched(size):
    """A published rotation took as many copies as fill L2 a fixed number of times or ten at most: 1, 2 and 4 MB inputs gave
    10, 20 and 40 MB, which L2 holds."""
    copies = copies_needed(size, L2)
    assert between(copies, size) >= EVICTED_L2S * L2
    assert copies == 2 or between(copies - 1, size) < EVICTED_L2S * L2, "and not more copies than that takes"


@given(st.integers(1, 1 << 34), st.integers(1 << 16, 1 << 28))
def test_whatever_the_sizes_there_is_another_copy_and_enough_of_them_or_a_refusal(size, l2):
    try:
        copies = copies_needed(size, l2)
    except UsageError:
        assert between(MOST_COPIES, size) < EVICTED_L2S * l2
        return
    assert 2 <= copies <= MOST_COPIES and between(copies, size) >= EVICTED_L2S * l2


def test_what_would_take_too_many_copies_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match=r"102401 copies of 1024 bytes .* more than 1000") as raised:
        copies_needed(1024, L2)
    assert "--cache cold" in raised.value.hint
    with pytest.raises(UsageError, match="nothing to rotate"):
        copies_needed(0, L2)


def test_each_call_moves_on_to_the_next_copy_and_begins_with_the_first():
    log = []
    call = Rotation(3).over([lambda n=n: log.append(n) for n in range(3)], set())
    for _ in range(7):
        call()
    assert log == [0, 1, 2, 0, 1, 2, 0]


def test_all_implementations_share_one_turn_because_they_share_the_copies():
    rotation, log = Rotation(3), []
    a, b = (rotation.over([lambda n=n, name=name: log.append((name, n)) for n in range(3)], set()) for name in "AB")
    for call in (a, b, b, a, b, a, a, b):
        call()
    assert [n for _, n in log] == [0, 1, 2, 0, 1, 2, 0, 1], "what one has just read the other would find in L2"
    assert "".join(name for name, _ in log) == "ABBABAAB"


def test_the_next_copy_is_known_before_the_call():
    rotation = Rotation(2)
    seen = []
    call = rotation.over([lambda: seen.append(0), lambda: seen.append(1)], set())
    for _ in range(5):
        before = rotation.next
        call()
        assert seen[-1] == before


def test_one_copy_is_always_the_next():
    rotation = Rotation(1)
    rotation.over([lambda: None], set())()
    assert rotation.next == 0


def test_a_graph_holds_whole_turns():
    assert [whole_turns(calls, 4) for calls in (1, 3, 4, 5, 8, 9)] == [4, 4, 4, 8, 8, 12]
    assert whole_turns(100, 1) == 100


@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_a_graph_of_whole_turns_comes_back_to_where_it_began_and_holds_what_was_asked_for(calls, copies):
    held = whole_turns(calls, copies)
    assert held % copies == 0 and calls <= held < calls + copies
