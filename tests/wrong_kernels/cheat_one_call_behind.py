"""A baseline that hands out the result of the call before, and computes this call's for the next.

Nobody has to wait for what it computes; as long as the inputs stay the same, the numbers are right.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "a call gives the result of the call before"
DETECTORS = ("baseline",)


def cheat(inp, out):
    ready = out.clone()
    compute(inp, ready)

    def call():
        out.copy_(ready)
        compute(inp, ready)

    return call


KERNEL = cheating("cheat_one_call_behind", cheat)
