"""out[0] = sum of inp: each block adds up its share, and the block that takes the last ticket adds the shares.

No __threadfence stands between the write of a share and the ticket, so the last block may see the ticket and not the share.
The hardware mostly gives the right numbers all the same.
"""

import parts_sync_tma as parts

from tirx_bench import Kernel, RoundingBound

CLASS = "synchronisation"
FAULT = "a result is announced to other blocks by an atomic without a fence before it"
DETECTORS = ("simulator",)
OBSERVABLE = False  # the card orders a thread's write and its atomic, which lie in L2 both


def build(m, faulty):
    from tvm.script import tirx as T

    blocks = m // 32

    @T.prim_func
    def reset(tickets: T.Buffer((1,), "int32")):
        T.device_entry()
        block = T.cta_id([1])
        lane = T.thread_id([32])
        if (block == 0) & (lane == 0):
            tickets[0] = 0

    @T.prim_func
    def total(
        inp: T.Buffer((m, 64), "float32"), shares: T.Buffer((blocks,), "float32"),
        tickets: T.Buffer((1,), "int32"), out: T.Buffer((1,), "float32"),
    ):  # fmt: skip
        T.device_entry()
        block = T.cta_id([blocks])
        lane = T.thread_id([32])
        scratch = T.alloc_buffer((32,), "float32", scope="shared")
        sums = T.alloc_local((1,), "float32")
        ticket = T.alloc_local((1,), "int32")
        sums[0] = T.float32(0)
        for j in T.serial(64):
            sums[0] = sums[0] + inp[block * 32 + lane, j]
        scratch[lane] = sums[0]
        T.cuda.cta_sync()
        if lane == 0:
            sums[0] = T.float32(0)
            for i in T.serial(32):
                sums[0] = sums[0] + scratch[i]
            shares[block] = sums[0]
            if not faulty:
                T.cuda.thread_fence()
            ticket[0] = T.cuda.atomic_add(T.address_of(tickets[0]), T.int32(1))
            if ticket[0] == blocks - 1:
                T.cuda.thread_fence()
                sums[0] = T.float32(0)
                for i in T.serial(blocks):
                    sums[0] = sums[0] + shares[i]
                out[0] = sums[0]

    return {"reset": reset, "total": total}


CHANGES = {
    "outputs": lambda: {"out": ((1,), "float32")},
    "workspace": lambda m: {"shares": ((m // 32,), "float32"), "tickets": ((1,), "int32")},
    "reference": lambda inp: {"out": inp.sum().reshape(1)},
    "tolerance": lambda m: RoundingBound(steps=64 + 32 + m // 32, unit=2**-24),
    "magnitude": lambda inp: {"out": abs(inp).sum().reshape(1)},
    "launch": ("reset", "total"),
}


KERNEL = Kernel(name="sync_ticket_without_fence", build=build, **{**parts.AFFINE, **CHANGES}, tunables={"faulty": True})
