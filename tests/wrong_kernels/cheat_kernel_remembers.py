"""out = 2 * inp + 1, by a kernel that keeps its result in a workspace, and a flag that says so.

Every later launch copies the workspace out, whatever the input holds by then.
"""

from parts_cheats import SIZE

from tirx_bench import Kernel, Tolerance, Workload

CLASS = "cheat"
FAULT = "the kernel keeps its first result in a workspace and copies it out again"
DETECTORS = ("numeric",)
DONE = 12345.0


def build(n, faulty):
    from tvm.script import tirx as T

    @T.prim_func
    def affine(
        inp: T.Buffer((n,), "float32"), kept: T.Buffer((n,), "float32"), done: T.Buffer((n,), "float32"),
        out: T.Buffer((n,), "float32"),
    ):  # fmt: skip
        T.device_entry()
        block = T.cta_id([n // 256])
        thread = T.thread_id([256])
        i = T.meta_var(block * 256 + thread)
        if (done[i] == T.float32(DONE)) & (True if faulty else done[i] != done[i]):
            out[i] = kept[i]
        else:
            kept[i] = inp[i] * T.float32(2) + T.float32(1)
            done[i] = T.float32(DONE)
            out[i] = kept[i]

    return affine


KERNEL = Kernel(
    name="cheat_kernel_remembers",
    archs=("sm_90a",),
    workloads=(Workload("1M", {"n": SIZE}),),
    small={"n": 1024},
    build=build,
    inputs=lambda n, rng: {"inp": rng.normal((n,), "float32")},
    outputs=lambda n: {"out": ((n,), "float32")},
    workspace=lambda n: {"kept": ((n,), "float32"), "done": ((n,), "float32")},
    reference=lambda inp: {"out": inp * 2 + 1},
    tolerance=Tolerance(rtol=0, atol=0),
    work=None,
    tunables={"faulty": True},
)
