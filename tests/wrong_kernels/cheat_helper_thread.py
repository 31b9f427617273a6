"""A baseline whose call hands the work to a thread and returns.

The thread launches later, behind the stop event.
"""

from parts_cheats import cheating, compute

CLASS = "cheat"
FAULT = "the work is launched by a thread after the call has returned"
DETECTORS = ("baseline", "HIDDEN_WORK")


def cheat(inp, out):
    import threading
    import time

    def later():
        time.sleep(0.002)
        compute(inp, out)

    return lambda: threading.Thread(target=later).start()


KERNEL = cheating("cheat_helper_thread", cheat)
