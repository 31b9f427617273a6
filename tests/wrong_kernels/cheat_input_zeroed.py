"""A baseline that writes zeros over its input, for which the answer is known.

Who computes the reference afterwards, from the same memory, agrees with it.
"""

from parts_cheats import cheating

CLASS = "cheat"
FAULT = "the input is overwritten so that the answer is a constant"
DETECTORS = ("baseline",)


def cheat(inp, out):
    def call():
        inp.zero_()
        out.fill_(1)

    return call


KERNEL = cheating("cheat_input_zeroed", cheat)
