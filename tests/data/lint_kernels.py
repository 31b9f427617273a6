"""Kernels for test_lint. A finding is expected on each line that ends in `# <- RULE`, and nowhere else."""

# ruff: noqa: B007, F841
from tvm.script import tirx as T
from tvm.tirx.cuda.iket import IketProfiler

N = 256


@T.prim_func
def book(inp: T.Buffer((N,), "float32"), out: T.Buffer((N,), "float32")):
    T.device_entry()
    profiler = IketProfiler()
    warp_id = T.warp_id([2])
    lane = T.lane_id([32])
    shared = T.alloc_buffer((N,), "float32", scope="shared")
    profiler.mark("kernel_start", warp_id)
    if warp_id == 0:
        profiler.range_push("producer_load")
        for i in T.serial(8, unroll=False):
            shared[i * 32 + lane] = inp[i * 32 + lane]
        profiler.range_pop()
    profiler.range_push("wait_for_data")
    T.cuda.cta_sync()
    profiler.range_pop()
    if warp_id == 1:
        profiler.range_push("consumer_compute")
        for i in T.serial(8, unroll=False):
            out[i * 32 + lane] = shared[i * 32 + lane] * T.float32(2) + T.float32(1)
        profiler.range_pop()


@T.prim_func
def book_without_a_pop(inp: T.Buffer((N,), "float32"), out: T.Buffer((N,), "float32")):
    T.device_entry()
    profiler = IketProfiler()
    warp_id = T.warp_id([2])
    lane = T.lane_id([32])
    shared = T.alloc_buffer((N,), "float32", scope="shared")
    if warp_id == 0:
        profiler.range_push("producer_load")
        for i in T.serial(8, unroll=False):
            shared[i * 32 + lane] = inp[i * 32 + lane]
        profiler.range_pop()
    profiler.range_push("wait_for_data")  # <- IK002
    T.cuda.cta_sync()
    if warp_id == 1:
        profiler.range_push("consumer_compute")
        for i in T.serial(8, unroll=False):
            out[i * 32 + lane] = shared[i * 32 + lane] * T.float32(2) + T.float32(1)
        profiler.range_pop()


@T.prim_func
def book_without_a_role_pop(inp: T.Buffer((N,), "float32"), out: T.Buffer((N,), "float32")):
    T.device_entry()
    profiler = IketProfiler()
    warp_id = T.warp_id([2])
    lane = T.lane_id([32])
    if warp_id == 1:  # <- unproven
        profiler.range_push("consumer_compute")
        for i in T.serial(8, unroll=False):
            out[i * 32 + lane] = inp[i * 32 + lane]


# ------------------------------------------------------------------------------------------ push and pop


@T.prim_func
def pop_without_push(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("a")
    iket.range_pop()
    iket.range_pop()  # <- IK001


@T.prim_func
def pop_without_push_in_a_role(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    if warp_id == 0:
        iket.range_pop()  # <- IK001
    iket.range_push("a")  # <- IK002


@T.prim_func
def push_then_return(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("a")  # <- IK002
    T.evaluate(T.thread_return())
    iket.range_pop()


@T.prim_func
def loop_pushes_more(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(8, unroll=False):
        iket.range_push("a")  # <- IK010
    iket.range_pop()


@T.prim_func
def loop_pops_more(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("a")
    for i in T.serial(8, unroll=False):
        iket.range_pop()  # <- IK010


@T.prim_func
def loop_is_even(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(3, unroll=False):
        iket.range_push("a")
    for i in T.unroll(3):
        iket.range_pop()
    iket.range_push("step")
    for i in T.serial(100000, unroll=False):
        iket.range_pop()
        iket.range_push("step")
    iket.range_pop()


@T.prim_func
def loop_of_unknown_count(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(n, unroll=False):
        iket.range_push("a")
        iket.range_pop()
    for i in T.serial(n, unroll=False):  # <- unproven
        iket.range_push("b")
    for i in T.serial(n, unroll=False):
        iket.range_pop()


@T.prim_func
def loop_closes_the_previous_step(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(n, unroll=False):
        if i > 0:
            iket.range_pop()  # <- unproven
        iket.range_push("step")
    if n > 0:
        iket.range_pop()


@T.prim_func
def break_after_pop(n: T.int32, m: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    if warp_id == 3:
        T.evaluate(T.thread_return())
    for i in T.serial(8, unroll=False):
        if i == n:
            continue
        iket.range_push("tile")
        for j in T.serial(8, unroll=False):
            if j == m:
                break
        iket.range_pop()
        if i == m:
            break


@T.prim_func
def only_a_return_leaves_the_loop(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("all")
    while True:
        iket.range_push("tile")
        iket.range_pop()
        if n > 0:
            iket.range_pop()
            T.evaluate(T.thread_return())


@T.prim_func
def break_before_pop(n: T.int32, m: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(8, unroll=False):
        iket.range_push("tile")
        if i == m:
            break  # <- unproven
        iket.range_pop()


@T.prim_func
def lane_returns_inside_a_range(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("a")
    if lane == 0:
        T.evaluate(T.thread_return())  # <- unproven
    iket.range_pop()


@T.prim_func
def correlated_roles(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    if n > 0:  # <- unproven
        iket.range_push("a")
    if n >= 1:
        iket.range_pop()


@T.prim_func
def balanced_roles(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("all")
    if warp_id == 0:
        iket.range_push("producer")
        while n > 0:
            if T.filter(lane, T.cuda.elect_sync()):
                iket.range_push("issue")
                iket.range_pop()
        iket.range_pop()
    else:
        iket.range_push("consumer")
        iket.range_pop()
    iket.range_pop()


@T.prim_func
def branches_that_every_warp_or_none_takes(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    if warp_id < 4:
        iket.range_push("a")
    if warp_id >= 4:
        iket.range_pop()
    if lane >= 32:
        iket.mark("a")
    iket.range_pop()


# ---------------------------------------------------------------------------------------- start and end


@T.prim_func
def tokens(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    first = iket.range_start("first")
    second = iket.range_start("second")
    iket.range_push("pushed")
    iket.range_end(first)
    kept = second
    second = iket.range_start("first")
    iket.range_end(kept)
    iket.range_pop()
    iket.range_end(second)
    if warp_id == 0:
        role = iket.range_start("role")
        iket.range_end(role)


@T.prim_func
def token_never_ended(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.range_start("a")  # <- IK004


@T.prim_func
def token_ended_twice(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.range_start("a")
    other = token
    iket.range_end(token)
    iket.range_end(other)  # <- IK005


@T.prim_func
def token_ended_in_every_iteration(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.range_start("a")
    for i in T.serial(4, unroll=False):
        iket.range_end(token)  # <- IK005


@T.prim_func
def token_never_set(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = T.alloc_local((1,), "uint32")
    for i in T.serial(4, unroll=False):
        iket.range_end(token[0])  # <- IK006
        token[0] = iket.range_start("a")
    iket.range_end(token[0])


@T.prim_func
def token_set_by_one_role(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = T.alloc_local((1,), "uint32")
    if warp_id == 0:  # <- unproven
        token[0] = iket.range_start("a")
    iket.range_end(token[0])


@T.prim_func
def token_ended_by_one_role_and_again(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = T.alloc_local((1,), "uint32")
    if warp_id == 0:
        token[0] = iket.range_start("a")
        iket.range_end(token[0])
    iket.range_end(token[0])  # <- unproven


@T.prim_func
def token_overwritten(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.range_start("a")
    token = iket.range_start("b")  # <- IK007
    iket.range_end(token)
    token = iket.range_start("c")
    token = iket.sentinel_token("c")  # <- IK007


@T.prim_func
def two_tokens_of_one_name(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    one = iket.range_start("a")
    two = iket.range_start("a")  # <- IK008
    iket.range_end(one)
    iket.range_end(two)


@T.prim_func
def sentinel(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.sentinel_token("a")
    iket.range_end(token)
    for i in T.serial(4, unroll=False):
        iket.range_end(token)
        token = iket.range_start("a")
    iket.range_end(token)


@T.prim_func
def sentinel_for_one_role(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.sentinel_token("a")
    if warp_id == 0:  # <- unproven
        token = iket.range_start("a")
    iket.range_end(token)


@T.prim_func
def sentinel_and_guarded_end(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    token = iket.sentinel_token("a")
    for i in T.serial(n, unroll=False):  # <- unproven
        if i > 0:
            iket.range_end(token)
        token = iket.range_start("a")
    if n > 0:
        iket.range_end(token)


# -------------------------------------------------------------------------------------------- inlining


@T.inline
def opens(iket):
    iket.range_push("inlined")  # never popped


@T.inline
def opens_indirectly(iket):
    opens(iket)  # the inner call


@T.prim_func
def inlined(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    opens_indirectly(iket)  # the outer call


# --------------------------------------------------------------------------------------------- names


@T.prim_func
def names(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.mark("sixteen é: éééééééééé")
    iket.mark("m", n)
    iket.mark("m", lane)
    iket.mark("flag", lane == 0)
    iket.mark("flag", T.uint8(1))
    token = iket.range_start("t", T.float32(1))
    iket.range_end(token, T.float32(2))
    iket.mark("stage_14518")
    iket.mark("stage_1718024")


@T.prim_func
def refused_names(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.mark("")  # <- IK033
    iket.mark(n)  # <- IK033
    iket.mark("éééééééééééééééééé")  # <- IK033
    iket.mark("kind")
    iket.range_push("kind")  # <- IK033
    iket.range_pop()
    iket.mark("presence", n)
    iket.mark("presence")  # <- IK033
    iket.mark("type", n)
    iket.mark("type", T.float32(1))  # <- IK033
    iket.mark("half", T.float16(1))  # <- IK033
    token = iket.range_start("t", n)
    other = token
    iket.range_end(other)  # <- IK033
    iket.range_push("stage_14518")
    iket.range_push("stage_1718024")  # <- IK033
    iket.range_pop()
    iket.range_pop()


@T.prim_func
def other_kernel(n: T.int32):
    T.device_entry()
    iket = IketProfiler()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    iket.range_push("m")  # a mark in `names`
    iket.range_pop()


@T.prim_func
def without_events(n: T.int32, out: T.Buffer((N,), "int32")):
    T.device_entry()
    warp_id = T.warp_id([4])
    lane = T.lane_id([32])
    for i in T.serial(n):
        if i > 3:
            out[lane] = i
