"""Who runs next, and when asynchronous work completes: fixed adversaries and seeded chance, replayed from its choices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

KINDS = ("copy", "store", "wgmma")  # asynchronous work: loads and other copies into shared memory, bulk stores, wgmma


@dataclass(frozen=True)
class Schedule:
    """`early` kinds complete as soon as they are issued, the others when nobody can run; with `seed`, chance decides.

    `choices` are what chance decided in an earlier run, to be decided again; 0 beyond their end.
    """

    name: str
    early: frozenset[str] = frozenset()
    seed: int | None = None
    choices: tuple[int, ...] | None = None

    @property
    def by_chance(self) -> bool:
        return self.seed is not None or self.choices is not None


LATE = Schedule("late")
FIXED = (
    LATE,
    Schedule("early", frozenset(KINDS)),
    Schedule("copies early, wgmma late", frozenset({"copy", "store"})),
    Schedule("copies late, wgmma early", frozenset({"wgmma"})),
)


def seeded(seed: int) -> Schedule:
    return Schedule(f"seed {seed}", seed=seed)


@dataclass
class Chance:
    """The decisions of one run, recorded."""

    schedule: Schedule
    made: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.schedule.seed)
        self.given: Sequence[int] | None = self.schedule.choices

    def choose(self, count: int) -> int:
        """A number below `count`."""
        if count <= 1:
            return 0
        if self.given is None:
            number = self.random.randrange(count)
        else:
            number = self.given[len(self.made)] % count if len(self.made) < len(self.given) else 0
        self.made.append(number)
        return number
