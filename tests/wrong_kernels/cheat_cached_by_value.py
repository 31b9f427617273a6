"""A baseline that remembers results by a fingerprint of a few values of its input.

Reading them waits for the device; where the fingerprint is known it copies what it computed once.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "the result is remembered by the first values of the input"
DETECTORS = ("SYNCS", "HIDDEN_WORK", "baseline")


def cheat(inp, out):
    results = {}

    def call():
        key = tuple(inp[:4].tolist())
        if key not in results:
            compute(inp, out)
            results[key] = out.clone()
        out.copy_(results[key])

    return call


KERNEL = cheating("cheat_cached_by_value", cheat)
