"""What limits an answer, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from tirx_bench.model.errors import unknown


@dataclass(frozen=True)
class Meaning:
    """What a status says, and what it takes away: "nothing is timed", "no verdict", "no absolute time" or nothing."""

    text: str
    forbids: str = ""


STATUSES = {
    "HIDDEN_WORK": Meaning("the device was busy after the stop event: work on a stream that is not joined", "nothing is timed"),
    "SYNCS": Meaning("the call waits for the device, so no gate holds it", "nothing is timed behind a gate"),
    "IMPOSSIBLE": Meaning("faster than the card can be", "no verdict"),
    "COLD_UNPROVEN": Meaning("what should have left L2 still answers as fast as L2", "no verdict"),
    "SHARED": Meaning("others use this card", "no verdict"),
    "HOST_BOUND": Meaning("the host took longer to launch than the device to compute", "no verdict by events"),
    "COARSE": Meaning("the timer's steps are wide against the precision asked for"),
    "IMPRECISE": Meaning("the budget ended before the interval was as narrow as asked for"),
    "THROTTLED": Meaning("the card was held back or its clock moved", "no absolute time"),
    "DRIFT": Meaning("the times moved from the first round to the last", "no absolute time"),
    "NOT_SETTLED": Meaning("times or clock were still moving when the warm-up ended", "no absolute time"),
}  # fmt: skip


@dataclass(frozen=True)
class Status:
    """Something that limits what the times say, with its evidence. None: it is about the card or the whole timing."""

    name: str
    evidence: str
    implementation: str | None = None

    def __post_init__(self) -> None:
        if self.name not in STATUSES:
            raise unknown("status", self.name, STATUSES)
