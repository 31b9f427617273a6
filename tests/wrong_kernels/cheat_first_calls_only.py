"""A baseline that computes in its first calls and copies the last result in all others.

Who checks before timing sees honest calls only.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "only the first calls do the work, and the others copy what they left"
DETECTORS = ("baseline",)


def cheat(inp, out):
    calls = []

    def call():
        calls.append(1)
        if len(calls) <= 20:
            compute(inp, out)
            calls[0] = out.clone()
        else:
            out.copy_(calls[0])

    return call


KERNEL = cheating("cheat_first_calls_only", cheat)
