"""A baseline that computes while it is prepared, and never again.

The output is right until somebody else writes to it.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "the output is written in prepare and by no call"
DETECTORS = ("baseline",)


def cheat(inp, out):
    compute(inp, out)
    return lambda: None


KERNEL = cheating("cheat_written_once", cheat)
