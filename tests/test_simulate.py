"""The simulator on small kernels: what it finds, where, and that it leaves right kernels alone."""

import base64
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import simulate_kernels as kernels
from conformance.suite import all_cases, simulated

from tirx_bench.compile import compile_module, load_tvm
from tirx_bench.tools import scoped_variable

ROOT = Path(__file__).parents[1]


def outcome(case, schedule=None, **options):
    """Arrays and findings by rule."""
    load_tvm()
    from tirx_bench.simulate import LATE, Simulator, snapshots

    instrument, modules = snapshots()
    with scoped_variable("TVM_COMPILE_FORCE_FALLBACK", "1"):
        compile_module({"main": case.build()}, "sm_90a", (instrument,))
    arrays = case.arrays()
    for name in ("out", "part"):
        if name in arrays:
            arrays[name][...] = 0
    found = Simulator(modules).run(arrays, schedule or LATE, **options)
    return arrays, {f.rule: f for f in found.findings}, found


def line(text):
    """The first line of the kernels' file that holds a text."""
    lines = (ROOT / "tests" / "simulate_kernels.py").read_text().splitlines()
    return next(number for number, held in enumerate(lines, 1) if text in held)


# ------------------------------------------------------------------------------------------------- races


def test_lanes_that_exchange_without_a_warp_barrier_race_and_both_lines_are_named():
    assert outcome(kernels.lanes_exchange(synced=True))[1] == {}
    arrays, found, _ = outcome(kernels.lanes_exchange(synced=False))
    assert arrays["out"][:32].tolist() == arrays["inp"][31::-1].tolist(), "the numbers are right all the same"
    race = found["race"]
    assert race.message.startswith("RAW: a load of float32") and "missing: a barrier" in race.message
    assert race.place.line == line("out[warp * 32 + lane] = word[warp * 32 + 31 - lane]")
    assert f"simulate_kernels.py:{line('word[warp * 32 + lane] = inp')}" in race.witness[-1]


def test_what_one_lane_waited_for_the_others_have_not_seen():
    assert outcome(kernels.one_lane_waits(all_wait=True))[1] == {}
    found = outcome(kernels.one_lane_waits(all_wait=False))[1]
    assert "wait on" in found["race"].message and "for that copy's phase" in found["race"].message


def test_a_thread_waits_for_its_own_copies_and_a_barrier_shows_them_to_others():
    arrays, found, _ = outcome(kernels.element_copies(waits=True, synced=True))
    assert found == {} and arrays["out"][:4].tolist() == [1, 0, 3, 2]
    unwaited = outcome(kernels.element_copies(waits=False, synced=True))[1]
    assert "missing: a cp.async.wait_group of the thread that issued it" in unwaited["race"].message
    assert "race" in outcome(kernels.element_copies(waits=True, synced=False))[1]


def test_blocks_of_one_launch_race_for_a_tensor_unless_by_atomics():
    arrays, found, _ = outcome(kernels.blocks_share(atomic=True))
    assert found == {} and arrays["out"][:32].tolist() == (2 * arrays["inp"][:32]).tolist()
    assert "nothing can order blocks of one launch" in outcome(kernels.blocks_share(atomic=False))[1]["race"].message


def test_a_ticket_orders_blocks_by_the_fence_before_it():
    arrays, found, _ = outcome(kernels.ticket(fenced=True))
    assert found == {} and arrays["out"][:32].tolist() == (arrays["inp"][:32] + arrays["inp"][32:]).tolist()
    assert "race" in outcome(kernels.ticket(fenced=False))[1]


def test_without_races_nothing_is_watched_and_the_numbers_are_the_same():
    arrays, found, _ = outcome(kernels.lanes_exchange(synced=False), races=False)
    assert found == {} and arrays["out"][0] == 31


def test_a_fence_for_others_counts_unless_fences_are_strict():
    arrays, found, _ = outcome(kernels.fenced_by_another())
    assert found == {} and arrays["out"].tolist() == arrays["inp"].tolist()
    strict = outcome(kernels.fenced_by_another(), strict=True)[1]
    assert "without fence.proxy.async" in strict["missing-proxy-fence"].message


# --------------------------------------------------------------------------------------- bounds, deadlocks


@pytest.mark.parametrize("by", [1, -1])
def test_an_access_outside_of_a_tensor_is_found_and_nothing_is_read(by):
    _, found, _ = outcome(kernels.outside(by))
    assert "inp, which has 256" in found["out-of-bounds"].message
    assert found["out-of-bounds"].place.line == line("inp[_warp * 32 + lane + by]")


def test_a_deadlock_says_who_waits_for_what_and_who_came():
    _, found, _ = outcome(kernels.waits_for_nobody())
    said = found["deadlock"]
    assert said.message.startswith("waits for gate[0], phase 0: 1 of 2 arrivals and 0 bytes are missing")
    assert f"arrived in this phase: block 0 warp 0, 1 at simulate_kernels.py:{line('arrive.shared.b64')}" in said.message
    assert said.place.line == line("T.cuda.mbarrier_wait(gate.ptr_to([0]), 0)")
    assert said.witness[0] == "in block 0 warp 1"


def test_an_instruction_that_is_not_modelled_is_refused_by_name():
    from tirx_bench.simulate import UnsupportedError

    with pytest.raises(UnsupportedError, match="discard.global.L2"):
        outcome(kernels.unknown())


# ------------------------------------------------------------------------------------------------ schedules


def test_a_seeded_schedule_is_replayed_from_its_choices():
    from tirx_bench.simulate import Schedule, seeded

    case = all_cases()["mbarrier of 33 arrivals, three phases"]
    _, _, first = outcome(case, seeded(3))
    assert len(first.choices) > 5 and len(set(first.choices)) > 1
    _, _, again = outcome(case, Schedule("again", choices=first.choices))
    assert again.choices == first.choices
    assert outcome(case, seeded(4))[2].choices != first.choices


def test_arms_of_a_branch_that_wait_for_each_other_make_progress():
    arrays, found, _ = outcome(all_cases()["named warps keep their registers"])
    assert found == {} and arrays["out"][[0, 16, 31]].tolist() == [100, 216, 231]


# ---------------------------------------------------------------------------------------------- conformance

STORED = json.loads((ROOT / "docs" / "measurements" / "h200-conformance.json").read_text())
SAMPLE = [
    "shfl.up 3 clamp 0x1800", "cvt.rz.relu.bf16x2.f32", "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
    "mma.sync m16n8k16 bf16", "tensor load, 64-byte swizzle", "tensor store, 128-byte swizzle, clipped",
    "multicast to both blocks",
    "wgmma B along N, 64-byte swizzle", "wgmma A in registers, e4m3", "wgmma f16 into f16, accumulating",
    "branches and loops of lanes", "redux.add.s32",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_the_conformance_suite_has_the_bits_of_the_gpu(name):
    """All of it runs in .ci/run."""
    arrays, found, operations = simulated(all_cases()[name])
    assert found.findings == () and operations is not None
    for output, bits in STORED["cases"][name].items():
        assert arrays[output].tobytes() == zlib.decompress(base64.b64decode(bits))


def test_what_traps_on_the_gpu_is_found():
    name = "tensor load, rank 2, from 4 bytes"
    assert STORED["failed"][name] == "illegal instruction"
    _, found, _ = simulated(all_cases()[name])
    assert found.findings[0].rule == "misaligned"


def test_a_smaller_accumulator_is_not_what_a_gpu_gives():
    """The comparison itself can fail."""
    name = "wgmma bf16" if "wgmma bf16" in STORED["cases"] else "wgmma n64"
    arrays, _, _ = simulated(all_cases()[name])
    arrays["out"][5] += np.float32(1)
    assert arrays["out"].tobytes() != zlib.decompress(base64.b64decode(STORED["cases"][name]["out"]))
