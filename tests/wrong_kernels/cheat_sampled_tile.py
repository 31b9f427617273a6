"""A baseline that computes the first and the last of its output, where a checker that samples looks.

The middle is filled with numbers of the right size.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "only the ends of the output are computed"
DETECTORS = ("baseline",)


def cheat(inp, out):
    ends = slice(0, 1 << 12), slice(-(1 << 12), None)

    def call():
        out.fill_(1)
        for part in ends:
            compute(inp[part], out[part])

    return call


KERNEL = cheating("cheat_sampled_tile", cheat)
