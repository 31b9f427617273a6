"""A baseline whose launch fails, and which does not look at what the runtime answers.

It asks the runtime for a function that there is not, with 4096 threads; nothing is written, and that is fast.
"""

from parts_cheats import cheating

CLASS = "cheat"
FAULT = "a launch is refused and its error is ignored"
DETECTORS = ("baseline",)


def cheat(inp, out):
    import ctypes

    import torch

    class Dim3(ctypes.Structure):
        _fields_ = [(axis, ctypes.c_uint) for axis in "xyz"]

    launch = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}").cudaLaunchKernel
    launch.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return lambda: launch(ctypes.addressof(launch), Dim3(1, 1, 1), Dim3(4096, 1, 1), None, 0, None)


KERNEL = cheating("cheat_unread_error", cheat)
