"""A baseline that does nothing at all.

What stands in the output before decides what a checker sees there.
"""

from parts_cheats import cheating

CLASS = "cheat"
FAULT = "the output is never written"
DETECTORS = ("baseline",)


def cheat(inp, out):
    return lambda: None


KERNEL = cheating("cheat_never_written", cheat)
