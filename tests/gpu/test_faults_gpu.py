"""Published faults of GPU timing, built on a real card. Names carry the fault's number in docs/faults.md."""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from tirx_bench.compare import against  # noqa: E402
from tirx_bench.device import Loop  # noqa: E402
from tirx_bench.device.cuda import CudaDevice  # noqa: E402
from tirx_bench.model import FailedError, TimingPolicy  # noqa: E402
from tirx_bench.timing import measure  # noqa: E402
from tirx_bench.timing.probe import unproven  # noqa: E402

sys.path.insert(0, str(__import__("pathlib").Path(__file__).parents[1]))
from helpers_records import record, verification  # noqa: E402

SHORT = TimingPolicy(block_ms=5, warmup_ms=50, settle_s=1, rounds=8, max_rounds=8)


@pytest.fixture(scope="module")
def device():
    return CudaDevice()


@pytest.fixture(scope="module")
def matrices(device):
    rng = device.rng(0)
    a, b = (rng.normal((2048, 2048), "bfloat16") for _ in range(2))
    return a, b, torch.empty_like(a)


@pytest.fixture
def mm(matrices):
    a, b, c = matrices
    return lambda: torch.mm(a, b, out=c)


def median(device, timer, call, count=20, **loop):
    return statistics.median(r.us for r in device.time_calls(timer, [call] * count, Loop(lambda: None, **loop)))


def busy_wait(us):
    end = time.perf_counter() + us / 1e6
    while time.perf_counter() < end:
        pass


def measured(device, implementations, **policy):
    return measure(implementations, TimingPolicy(**{**SHORT.__dict__, **policy}), device, verification())


def statuses(found, name=None):
    return {s.name for s in found.statuses if name is None or s.implementation == name}


def lagging(call, us=50):
    """The call, behind a host that is slow to launch it: the start event has long passed."""

    def run():
        busy_wait(us)
        call()

    return run


# ------------------------------------------------------------------------------- host, streams, graphs


def test_f01_an_empty_queue_shows_the_host_and_a_full_one_hides_it(device, mm):
    alone = median(device, "event", lagging(mm))
    behind_a_flush = median(device, "event", mm, flush="read")
    gated = median(device, "event", lagging(mm), gate=True)
    assert alone > gated + 40
    assert abs(behind_a_flush - gated) < 0.3 * gated


def test_f02_a_slow_host_is_flagged_and_does_not_change_the_kernel_time(device, mm):
    found = measured(device, {"plain": mm, "slow host": lagging(mm)}, cache="warm")
    timing = found.timing
    assert timing.median_us("slow host") == pytest.approx(timing.median_us("plain"), rel=0.05)
    assert "HOST_BOUND" in statuses(found, "slow host")
    assert timing.host_gap_us("slow host") > 40


def test_f02_by_events_a_slow_host_allows_no_verdict(device, mm):
    found = measured(
        device, {"plain": lagging(mm), "slow host": lagging(mm, 90)}, cache="warm", timer="event", rounds=16, max_rounds=16
    )
    assert "HOST_BOUND" in statuses(found, "slow host")
    verdict = against(record(timing=found.timing, statuses=found.statuses, kernel="plain"), "slow host")
    assert verdict.verdict == "inconclusive" and "HOST_BOUND" in verdict.reason


def test_f05_a_call_that_synchronises_is_said_to_and_hangs_nothing(device, mm):
    def syncs():
        mm()
        torch.cuda.synchronize()

    start = time.perf_counter()
    found = measured(device, {"syncs": syncs})
    assert "SYNCS" in statuses(found, "syncs") and found.timing
    assert measured(device, {"syncs": syncs}, timer="event", gate=True).timing is None
    assert time.perf_counter() - start < 30


def test_f06_f09_work_on_a_side_stream_is_refused(device, mm):
    side = torch.cuda.Stream()

    def hidden():
        with torch.cuda.stream(side):
            for _ in range(10):
                mm()

    found = measured(device, {"hidden": hidden})
    assert found.timing is None and "HIDDEN_WORK" in statuses(found, "hidden")


def test_a_fork_that_is_joined_is_one_operation_on_two_streams(device, matrices):
    a, b, c = matrices
    side, d = torch.cuda.Stream(), torch.empty_like(c)

    def fork_join():
        here = torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            torch.mm(a, b, out=d)
        torch.mm(a, b, out=c)
        here.wait_stream(side)

    found = measured(device, {"fork and join": fork_join})
    kernels, streams = found.kernels["fork and join"]
    assert len(kernels) == 2 and streams == 2
    assert "HIDDEN_WORK" not in statuses(found)
    sample = found.timing.samples[0]
    assert sample.busy_us <= sample.us


def test_programmatic_dependent_launch_is_one_operation_whose_kernels_may_overlap(device):
    from cuda.bindings import driver

    helpers, out = device.helpers, torch.zeros(2, dtype=torch.int64, device="cuda")

    def dependent(name, blocks, threads, *values):
        config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.hStream = helpers.stream
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [attribute], 1
        kinds = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64)
        function = driver.CUfunction(helpers._function(name).function)
        (code,) = driver.cuLaunchKernelEx(config, function, (values, kinds), 0)
        assert int(code) == 0, code

    def operation():
        for _ in range(2):
            dependent("chase", 1, 1, helpers._chain.data_ptr(), 0, 64, out.data_ptr())

    found = measured(device, {"dependent": operation})
    assert found.kernels["dependent"][0] == ("chase", "chase")
    assert all(s.busy_us <= s.us for s in found.timing.samples)


def test_f07_an_empty_graph_is_refused(device, matrices):
    a, b, c = matrices
    stale = torch.cuda.Stream()
    with pytest.raises(FailedError, match="holds no work"):
        device.capture(lambda: None, 1)
    del stale


def test_f08_a_graph_that_left_half_of_the_operation_out_gives_stale_outputs(device, matrices):
    a, b, c = matrices
    d = torch.empty_like(c)

    def half():
        torch.mm(a, b, out=c)
        if not torch.cuda.is_current_stream_capturing():
            torch.mm(a, b, out=d)

    replay = device.capture(half, 1)
    device.poison([c, d])
    replay()
    device.synchronize()
    assert not torch.isnan(c).any() and torch.isnan(d).all()
    eager = device.launched(half, lambda: None)[0]
    assert len(eager) == 2 and len(device.launched(replay, lambda: None)[0]) == 1


def test_f10_a_kernel_that_a_helper_thread_launches_is_counted(device, mm):
    def helped():
        thread = threading.Thread(target=mm)
        thread.start()
        thread.join()

    assert len(device.launched(helped, lambda: None)[0]) == 1


def test_f11_the_clock_of_every_sample_is_known(device, mm):
    readings = device.time_calls("event", [mm] * 20, Loop(lambda: None, "read"))
    assert all(300 < r.clock_mhz < 3000 for r in readings)


# ------------------------------------------------------------------------------------------------ cache


def copy_of(size):
    source, target = (torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2))
    return lambda: target.copy_(source)


def test_f12_warm_and_cold_differ_for_what_fits_in_l2(device):
    copy = copy_of(16 << 20)
    assert median(device, "event", copy, gate=True) < 0.85 * median(device, "event", copy, gate=True, flush="read")


def test_f15_what_is_written_just_before_is_evicted_too(device):
    """The flush comes after everything that `before` writes."""
    source, target = (torch.empty(16 << 20, dtype=torch.uint8, device="cuda") for _ in range(2))
    readings = device.time_calls("event", [lambda: target.copy_(source)] * 20, Loop(lambda: source.fill_(1), "read"))
    written = statistics.median(r.us for r in readings)
    cold = median(device, "event", lambda: target.copy_(source), flush="read")
    assert written == pytest.approx(cold, rel=0.1)


def test_f16_persisting_lines_do_not_survive(device):
    from cuda.bindings import driver

    def persist(on):
        window = driver.CUaccessPolicyWindow()
        window.base_ptr, window.num_bytes, window.hitRatio = source.data_ptr(), source.numel() if on else 0, 1.0
        kind = driver.CUaccessProperty
        window.hitProp = kind.CU_ACCESS_PROPERTY_PERSISTING if on else kind.CU_ACCESS_PROPERTY_NORMAL
        window.missProp = kind.CU_ACCESS_PROPERTY_STREAMING if on else kind.CU_ACCESS_PROPERTY_NORMAL
        value = driver.CUstreamAttrValue()
        value.accessPolicyWindow = window
        name = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        (code,) = driver.cuStreamSetAttribute(torch.cuda.current_stream().cuda_stream, name, value)
        assert int(code) == 0, code

    source, target = (torch.empty(16 << 20, dtype=torch.uint8, device="cuda") for _ in range(2))
    copy = lambda: target.copy_(source)  # noqa: E731
    control = median(device, "event", copy, flush="read")
    with torch.cuda.stream(torch.cuda.Stream()):
        driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 32 << 20)
        persist(True)
        try:
            for _ in range(5):
                copy()
            torch.cuda.synchronize()
            assert median(device, "event", copy, flush="read") == pytest.approx(control, rel=0.1)
        finally:
            persist(False)
            device.helpers.forget_persisting()


def test_f17_a_fill_that_l2_absorbs_is_faster_than_memory_allows(device):
    target = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
    found = measure({"fill": lambda: target.fill_(1)}, SHORT, device, verification(), floor_us=target.numel() / 4.8e6)
    impossible = [s for s in found.statuses if s.name == "IMPOSSIBLE"]
    if found.timing.median_us("fill") < 0.98 * target.numel() / 4.8e6:
        assert "L2" in impossible[0].evidence
    else:
        assert not impossible


def test_f18_a_flush_that_leaves_dirty_lines_makes_the_next_kernel_pay(device):
    """Why L2 is evicted by reading, or by writing and discarding."""
    from tirx_bench.device.helpers import FLUSH_FACTOR

    other = torch.zeros(FLUSH_FACTOR * device.l2_bytes, dtype=torch.uint8, device="cuda")
    source = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda").view(torch.int32)
    read = lambda: source.max()  # noqa: E731
    dirty = statistics.median(r.us for r in device.time_calls("event", [read] * 20, Loop(lambda: other.fill_(1))))
    clean = {flush: median(device, "event", read, flush=flush) for flush in ("read", "discard")}
    assert dirty > 1.05 * max(clean.values())


@pytest.mark.parametrize("flush", ["read", "discard"])
def test_a_cold_cache_is_cold(device, flush):
    assert unproven(flush, device) == ""
    assert device.load_cycles(flush) > 1.5 * device.load_cycles(None)


def test_f20_the_wall_timer_does_not_time_the_flush(device):
    assert median(device, "wall", lambda: None, flush="read") < 25


# --------------------------------------------------------------------------------------- clock, sharing


def test_f26_zeros_are_faster_than_random_numbers(device, matrices):
    """The same kernel on the same shape: what the inputs hold moves the clock of a card at its power limit."""
    size = 8192
    a, b = (device.rng(0).normal((size, size), "bfloat16") for _ in range(2))
    zeros, c = torch.zeros_like(a), torch.empty_like(a)
    times = {}
    for name, (x, y) in {"random": (a, b), "zeros": (zeros, zeros)}.items():  # in turns they would share one clock
        times[name] = statistics.median(
            [r.us for r in device.time_calls("event", [lambda: torch.mm(x, y, out=c)] * 400, Loop(lambda: None))][200:]
        )
    assert times["zeros"] < 0.97 * times["random"]


def test_f29_another_mode_in_between_does_not_change_cold_times(device, mm):
    def cold():
        return measured(device, {"mm": mm}, timer="event").timing.median_us("mm")

    first = cold()
    measured(device, {"mm": mm}, timer="event", cache="warm", calls=50)
    assert cold() == pytest.approx(first, rel=0.02)


def test_f31_another_process_on_the_card_is_noticed(device, mm):
    code = (
        "import torch,sys; x=torch.zeros(1<<20,device='cuda'); torch.cuda.synchronize(); print('up',flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline().strip() == b"up"
        found = measured(device, {"mm": mm, "mm again": mm})
        other.stdin.close()
    assert "SHARED" in statuses(found)
    verdict = against(record(timing=found.timing, statuses=found.statuses, kernel="mm"), "mm again")
    assert verdict.verdict == "inconclusive" and "SHARED" in verdict.reason


def test_a_card_of_ones_own_is_not_called_shared(device, mm):
    assert "SHARED" not in statuses(measured(device, {"mm": mm}))


# --------------------------------------------------------------------------------- profiler attribution


def test_f33_the_kernel_time_does_not_depend_on_the_length_of_the_session(device, mm):
    short = median(device, "kernel", mm, 5, flush="read")
    assert median(device, "kernel", mm, 200, flush="read") == pytest.approx(short, rel=0.02)


def test_f36_a_torch_matmul_has_kernel_activities(device, mm):
    assert len(device.launched(mm, lambda: None)[0]) == 1


def test_f38_a_graph_that_is_older_than_the_session_is_attributed(device, mm):
    replay = device.capture(mm, 3)
    readings = device.time_calls("kernel", [replay] * 5, Loop(lambda: None, "read"))
    assert all(len(r.kernels) == 3 for r in readings)


def test_a_kernel_span_is_shorter_than_its_event_interval(device, mm):
    readings = device.time_calls("kernel", [mm] * 20, Loop(lambda: None, "read"))
    assert all(r.us == r.busy_us <= r.event_us for r in readings)
