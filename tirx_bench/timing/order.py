"""Which call comes when: balanced from call to call, or in blocks where an implementation must follow itself."""

from __future__ import annotations

from collections.abc import Mapping

from tirx_bench.stats import balanced_order


def blocks(turns: Mapping[str, int], in_turns: bool, number: int) -> list[list[str]]:
    """The names of the calls of one round, in order, by block. `turns` says how many calls each has in a round.

    Cold calls take turns, because the clock of a card at its power limit moves within tens of milliseconds: in blocks of
    20 ms one H200 showed 1 to 2.6 % between equal code. With a warm cache an implementation must follow itself, so each
    has one block in a round and the rounds are balanced.
    """
    names = list(turns)
    if not in_turns:
        return [[names[i]] * turns[names[i]] for i in balanced_order(len(names), number)]
    count = min(turns.values(), default=0)  # the slowest sets the time that a round takes
    # Counted on from round to round: an odd number of turns in each would else break the pairs in which a drift cancels.
    return [[names[i] for turn in range(count) for i in balanced_order(len(names), number * count + turn)]]
