"""A baseline that computes on a stream of its own and returns.

The stop event does not wait for that stream, so an event timer sees nothing of the work; the numbers are right.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "the work runs on a stream that nobody waits for"
DETECTORS = ("HIDDEN_WORK", "baseline")


def cheat(inp, out):
    import torch

    side = torch.cuda.Stream()

    def call():
        with torch.cuda.stream(side):
            for _ in range(20):
                compute(inp, out)

    return call


KERNEL = cheating("cheat_side_stream", cheat)
