"""A baseline that remembers results by the address of its input.

With the same memory it copies what it computed once, whatever stands there now.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "the result is remembered by the input's address"
DETECTORS = ("baseline",)


def cheat(inp, out):
    results = {}

    def call():
        if inp.data_ptr() not in results:
            compute(inp, out)
            results[inp.data_ptr()] = out.clone()
        out.copy_(results[inp.data_ptr()])

    return call


KERNEL = cheating("cheat_cached_by_pointer", cheat)
