"""cp.async with its groups and mbarriers."""

# ruff: noqa: F821 (in TVM's script, an annotation declares a register)
from conformance.suite import case, words

VALUES = words(128, 50)
OUT = {"out": ((128,), "uint32")}


def _groups(size, kind):
    """Every thread copies `size` bytes in two groups; the second is waited for behind the first."""

    @case(
        f"cp.async.{kind} of {size} bytes, two groups",
        {"inp": words(2 * 32 * size // 4, 51)},
        {"out": ((2 * 32 * size // 4,), "uint32")},
    )
    def build():
        from tvm.script import tirx as T

        each, total = size // 4, 32 * size // 4

        @T.prim_func
        def kernel(inp: T.Buffer((2 * total,), "uint32"), out: T.Buffer((2 * total,), "uint32")):
            T.device_entry()
            _warp = T.warp_id([1])
            lane = T.lane_id([32])
            tile = T.alloc_buffer((2 * total,), "uint32", scope="shared")
            for part in T.unroll(2):
                T.ptx[f"cp.async.{kind}.shared.global"](
                    T.address_of(tile[part * total + lane * each]), T.address_of(inp[part * total + lane * each]), size
                )
                T.ptx["cp.async.commit_group"]()
            T.ptx["cp.async.wait_group"](1)
            T.cuda.warp_sync()
            for i in T.serial(each):
                out[i * 32 + lane] = tile[i * 32 + 31 - lane]
            T.ptx["cp.async.wait_all"]()
            T.cuda.warp_sync()
            for i in T.serial(each):
                out[total + i * 32 + lane] = tile[total + i * 32 + 31 - lane]

        return kernel


for size, kind in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
    _groups(size, kind)


@case("cp.async with fewer bytes read, arriving on an mbarrier", {"inp": VALUES}, OUT)
def arrives():
    from tvm.script import tirx as T

    @T.prim_func
    def kernel(inp: T.Buffer((128,), "uint32"), out: T.Buffer((128,), "uint32")):
        T.device_entry()
        _warp = T.warp_id([1])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        gate = pool.alloc((1,), "uint64", align=8)
        tile = pool.alloc((128,), "uint32", align=16)
        pool.commit()
        if lane == 0:
            T.ptx["mbarrier.init.shared.b64"](gate.ptr_to([0]), T.uint32(32))
        T.cuda.cta_sync()
        T.ptx["cp.async.ca.shared.global"](
            tile.ptr_to([lane * 4]), T.address_of(inp[lane * 4]), 16, T.cast(lane % 5 * 4, "uint32") % T.uint32(20)
        )
        T.ptx["cp.async.mbarrier.arrive.noinc.shared.b64"](gate.ptr_to([0]))
        T.cuda.mbarrier_wait(gate.ptr_to([0]), 0)
        for i in T.serial(4):
            out[i * 32 + lane] = tile[i * 32 + 31 - lane]

    return kernel
