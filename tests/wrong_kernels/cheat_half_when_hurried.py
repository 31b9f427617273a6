"""A baseline that computes half of its output where calls come fast, as they do when they are timed.

A single call, as a checker makes it, does everything.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "a call that follows another at once computes half"
DETECTORS = ("baseline",)
PAUSE_S = 0.002


def cheat(inp, out):
    import time

    last = [0.0]

    def call():
        hurried = time.perf_counter() - last[0] < PAUSE_S
        end = len(inp) // 2 if hurried else len(inp)
        compute(inp[:end], out[:end])
        last[0] = time.perf_counter()

    return call


KERNEL = cheating("cheat_half_when_hurried", cheat)
