"""What lies around a kernel's arrays, what is in them before it runs, and what it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_records import kernel
from helpers_verify import FLOATS, ONCE, TICKETS, add_one, around, case_of, check, counts_from_zero, sized, verified

from tirx_bench.device import BAND
from tirx_bench.device.fake import FakeDevice
from tirx_bench.model import VerifyPolicy
from tirx_bench.verify import compare, prepare, refill, restore_inputs, verify

CHANGED = "is an input that the launch changed, and not declared in place"


def inplace_kernel(**changes):
    return kernel(outputs=lambda m, k: {"x": ((m, k), "float32")}, reference=lambda x: {"x": x + 1}, inplace=("x",), **changes)


def with_all(**changes):
    """y = x + 1 with an input `x`, an argument in place `z` and a workspace `w`."""
    return kernel(
        inputs=lambda m, k, rng: {"x": rng.normal((m, k), "float32"), "z": rng.normal((k,), "float32")},
        workspace=lambda m: {"w": ((m,), "int32")}, inplace=("z",), **changes,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize("array", ["x", "y", "z", "w"])
@pytest.mark.parametrize("side", ["in front of it", "behind it"])
def test_a_write_one_element_beside_any_array_is_named_and_mended(array, side):
    def launch(b):
        add_one(b)
        memory, front = around(b[array])
        memory[front - 1 if side == "in front of it" else front + b[array].size] = 0

    case, device = case_of(with_all()), FakeDevice()
    found = verify(case, launch, device, ONCE)
    assert not found.passed
    (broken,) = [o for o in found.outputs if not o.passed]
    assert broken.name == {"z": "in place z"}.get(array, array)
    assert broken.problem == f"had 4 bytes {side} written over"
    assert (broken.shape, broken.dtype) == (case.buffers[array].shape, str(case.buffers[array].dtype))
    assert verify(case, add_one, device, ONCE).passed, "the next launch is not held responsible for it"


@pytest.mark.parametrize("far", [1, 1000, BAND // 2, BAND - 1])
def test_one_byte_is_seen_wherever_in_the_band_it_is(far):
    def launch(b):
        add_one(b)
        b["y"].base[-far] = 0
        b["y"].base[far] = 1

    (broken,) = [o for o in verified(kernel(), launch).outputs if not o.passed]
    assert broken.problem == "had 1 bytes in front of it and 1 bytes behind it written over"


def test_all_arrays_that_were_written_beside_are_named():
    def launch(b):
        add_one(b)
        for array in b.values():
            array.base[0] = 0

    found = verified(with_all(), launch)
    assert [o.name for o in found.outputs if not o.passed] == ["x", "in place z", "y", "w"], "z is a copy"


def test_a_write_beside_an_array_is_found_in_a_repeat_too():
    calls = []

    def launch(b):
        add_one(b)
        calls.append(1)
        if len(calls) == 4:
            b["x"].base[0] = 0

    found = verified(kernel(), launch, VerifyPolicy(repeats=5))
    assert not found.passed and found.outputs[-1].name == "x" and len(calls) == 4


def test_what_another_implementation_writes_beside_the_inputs_is_found():
    case, device = case_of(kernel()), FakeDevice()
    own = {"y": case.inputs["x"] + 1}
    assert compare(case, own, device).passed
    case.inputs["x"].base[BAND - 1] = 0
    assert [o.name for o in compare(case, own, device).outputs if not o.passed] == ["x"]
    assert compare(case, own, device).passed


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("array", ["x", "y", "w"])
def test_who_reads_beside_an_array_reads_nan(array, dtype):
    def launch(b):
        add_one(b)
        memory, front = around(b[array])
        assert np.isnan(memory[front - 1].astype("float32")) and np.isnan(memory[front + b[array].size].astype("float32"))
        b["y"][0, 0] = memory[front + b[array].size]

    found = verified(sized(6, 5, dtype, workspace=lambda m, dtype: {"w": ((m,), dtype)}), launch)
    assert (found.outputs[0].wrong_elements, found.outputs[0].worst_index) == (1, (0, 0))


def test_a_frame_is_as_it_was_after_it_was_looked_at():
    device = FakeDevice()
    array, frame = device.framed((3, 5), "float16")
    assert device.broken(frame) == (0, 0)
    frame[[0, 5, BAND - 1, -1]] = [1, 2, 3, 4]
    assert device.broken(frame) == (3, 1) and device.broken(frame) == (0, 0) and (frame[:BAND] == 255).all()


# ------------------------------------------------------------------------------------------- aliases


def aliases():
    base = np.arange(48, dtype="float32").reshape(6, 8)
    return {
        "same": base, "again": base, "transposed": base.T, "strided": base[::2, 1:7:3], "reversed": base[::-1],
        "expanded": np.broadcast_to(base[0], (4, 8)), "part": base.reshape(-1)[3:19],
    }  # fmt: skip


def test_inputs_that_are_one_memory_or_not_contiguous_are_copied():
    of = kernel(inputs=lambda m: aliases(), reference=lambda same: {"y": same[:6, :5] + 1})
    arrays = case_of(of).inputs
    for name, array in aliases().items():
        assert (arrays[name] == array).all() and arrays[name].shape == array.shape
        assert arrays[name].flags.c_contiguous and arrays[name].flags.writeable
    every = list(arrays.items())
    assert not [(a, b) for i, (a, x) in enumerate(every) for b, y in every[:i] if np.shares_memory(x, y)]


def test_a_launch_that_changes_one_of_two_inputs_that_were_one_is_told_so_of_that_one():
    def launch(b):
        b["y"][...] = b["same"][:6, :5] + 1
        b["again"][0, 0] = 7

    of = kernel(inputs=lambda m: aliases(), reference=lambda same: {"y": same[:6, :5] + 1})
    assert [(o.name, o.problem) for o in verified(of, launch).outputs if o.problem] == [("again", CHANGED)]


def test_no_two_arrays_of_a_case_are_one_memory():
    case = case_of(with_all())
    every = [*case.inputs.values(), *case.outputs.values(), *case.workspace.values(), *case.working.values(),
             *case.expected.values()]  # fmt: skip
    assert not any(np.shares_memory(a, b) for i, a in enumerate(every) for b in every[:i])


def test_a_twin_is_the_same_problem_in_memory_of_its_own_with_other_values():
    case, device = case_of(kernel(), seed=1), FakeDevice()
    same, other = case.twin(device, 1), case.twin(device, 2)
    assert (same.seed, other.seed, other.params) == (1, 2, case.params)
    assert (same.inputs["x"] == case.inputs["x"]).all() and (other.inputs["x"] != case.inputs["x"]).any()
    assert not any(
        np.shares_memory(a, b) for a in case.buffers.values() for b in (*same.buffers.values(), *other.buffers.values())
    )


def test_a_twin_is_of_the_same_kind_of_inputs():
    case, device = case_of(kernel(), kind="constant"), FakeDevice()
    assert (case.twin(device, 9).inputs["x"] == 1).all()


# -------------------------------------------------------------------------------------------- poison


def test_outputs_and_workspace_start_poisoned_and_the_kernel_gets_all_by_name():
    of = kernel(workspace=lambda m: {"counters": ((m,), "int32"), "partial": ((m, 2), "bfloat16")})
    case = case_of(of)
    assert set(case.buffers) == {"x", "y", "counters", "partial"}
    assert np.isnan(case.buffers["y"]).all()
    assert np.isnan(case.buffers["partial"].astype("float32")).all()
    assert (case.buffers["counters"] == -1).all()


def test_every_launch_finds_its_outputs_poisoned_and_its_workspace_as_the_launch_before_left_it():
    seen = []

    def launch(b):
        assert np.isnan(b["y"]).all()
        seen.append(list(b["counters"]))
        add_one(b)
        b["counters"] += 3

    of = kernel(workspace=lambda: {"counters": ((2,), "int32")})
    assert verified(of, launch, VerifyPolicy(seeds=2, repeats=2, fills=("normal", "constant"))).passed
    assert seen == [[-1] * 2, [2] * 2, [5] * 2, [8] * 2, [11] * 2, [-1] * 2, [2] * 2], "other memory for another kind of inputs"


def test_a_kernel_that_keeps_its_answer_in_the_workspace_fails_at_the_second_seed():
    def launch(b):
        b["kept"][...] = np.where(np.isnan(b["kept"]), b["x"] + 1, b["kept"])
        b["y"][...] = b["kept"]

    of = kernel(workspace=lambda m, k: {"kept": ((m, k), "float32")})
    assert verified(of, launch, ONCE).passed and not verified(of, launch, VerifyPolicy()).passed


def test_a_kernel_that_needs_a_workspace_of_zeros_fails_at_once():
    """As it would when somebody else's numbers lie there."""
    assert not verified(kernel(**TICKETS), counts_from_zero).passed


def test_a_launch_that_writes_nothing_has_nothing_of_the_one_before():
    calls = []

    def launch(b):
        calls.append(1)
        if len(calls) == 1:
            add_one(b)

    found = verified(kernel(), launch)
    assert not found.passed and found.outputs[0].wrong_elements == 30 and len(calls) == 2


# ------------------------------------------------------------------------------------------ in place


def test_an_argument_in_place_has_its_first_value_in_every_launch():
    of = kernel(
        inputs=lambda m, k, dtype, rng: {"y": rng.normal((m, k), dtype)}, reference=lambda y: {"y": y + 1}, inplace=("y",)
    )

    def launch(b):
        b["y"] += 1

    found = verified(of, launch, VerifyPolicy(seeds=3))
    assert found.passed and found.repeats


def test_an_in_place_argument_is_an_output_and_its_first_values_come_back_with_reset():
    case, device = case_of(inplace_kernel()), FakeDevice()
    before = case.inputs["x"].copy()

    def launch(b):
        b["x"] += 1

    launch(case.buffers)
    assert (case.inputs["x"] == before).all(), "the kernel changes a copy"
    assert compare(case, case.outputs, device).passed
    launch(case.buffers)
    assert not compare(case, case.outputs, device).passed, "without reset the second launch adds to the first"
    case.reset()
    assert (case.buffers["x"] == before).all()
    assert verify(case, launch, device, ONCE).passed and verify(case, launch, device, ONCE).passed


def test_an_in_place_argument_of_another_dtype_than_its_output_is_named():
    of = kernel(outputs=lambda m, k: {"x": ((m, k), "float16")}, reference=lambda x: {"x": x}, inplace=("x",))
    assert check(lambda b: None, of).problem == "is float32 (6, 5) instead of float16 (6, 5)"


def test_a_scratch_argument_may_be_changed_in_place_without_being_an_output():
    case = case_of(kernel(inplace=("x",)))

    def launch(b):
        add_one(b)
        b["x"].fill(0)

    assert verify(case, launch, FakeDevice()).passed
    assert case.inputs["x"].any()


# -------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_that_overwrites_its_input_cannot_change_what_is_expected(dtype):
    def launch(b):
        b["x"].fill(0)
        b["y"].fill(0)

    found = verified(sized(6, 5, dtype, reference=lambda x: {"y": x}), launch)
    assert found.outputs[0].name == "y" and not found.outputs[0].passed


def test_an_input_that_the_launch_changed_is_a_failed_check_of_its_own():
    def launch(b):
        add_one(b)
        b["x"][2, 3] = -b["x"][2, 3]

    found = verified(kernel(), launch)
    output, changed = found.outputs
    assert (output.name, output.passed) == ("y", True), "what was asked for is right"
    assert (changed.name, changed.shape, changed.dtype, changed.passed) == ("x", (6, 5), "float32", False)
    assert changed.problem == CHANGED
    assert not found.passed


def test_inputs_that_changed_are_named_and_have_their_values_again():
    of = kernel(inputs=lambda m, k, rng: {name: rng.normal((m, k), "float32") for name in ("x", "w", "b")})
    case, device = case_of(of), FakeDevice()
    arrays, before = dict(case.inputs), {name: array.copy() for name, array in case.inputs.items()}
    case.inputs["b"].fill(0)
    case.inputs["x"][0, 0] = np.nan
    assert restore_inputs(case, before, device) == ["x", "b"]
    assert all((case.inputs[name] == before[name]).all() and case.inputs[name] is arrays[name] for name in before)
    assert restore_inputs(case, before, device) == []


def test_after_a_verification_the_inputs_are_as_they_were_even_if_the_launch_changed_them():
    case = case_of(kernel())
    first = case.inputs["x"].copy()

    def scribbles(b):
        add_one(b)
        b["x"].fill(7)

    assert not verify(case, scribbles, FakeDevice()).passed
    assert (case.inputs["x"] == first).all()


def test_the_sign_of_a_zero_and_a_nan_are_bits_of_an_input_too():
    def zero_to_minus_zero(b):
        add_one(b)
        b["x"][0, 0] = -b["x"][0, 0]

    def same(b):
        b["y"].fill(1)
        b["x"][0, 0] = b["x"][0, 0]

    zero = kernel(inputs=lambda m, k: {"x": np.zeros((m, k), "float32")})
    assert not verified(zero, zero_to_minus_zero).passed
    nan = kernel(
        inputs=lambda m, k: {"x": np.full((m, k), np.nan, "float32")}, reference=lambda x: {"y": np.ones((6, 5), "float32")}
    )
    assert [o.name for o in verified(nan, same).outputs] == ["y"], "a NaN that stayed did not change"


# ------------------------------------------------------------------------------------------ other values


def test_other_values_in_the_same_memory_make_what_was_right_wrong():
    case, device = case_of(kernel(), seed=1), FakeDevice()
    buffers, before = case.buffers, case.inputs["x"].copy()
    add_one(buffers)
    assert compare(case, case.outputs, device).passed
    refill(case, device, 2)
    assert all(case.buffers[name] is array for name, array in buffers.items()), "a launch that is bound already sees them"
    assert (case.inputs["x"] != before).any() and (case.inputs["x"] == case_of(kernel(), seed=2).inputs["x"]).all()
    assert not compare(case, case.outputs, device).passed, "the old answer"
    add_one(buffers)
    assert compare(case, case.outputs, device).passed


def test_other_values_reach_in_place_arguments_too():
    case, device = case_of(inplace_kernel(), seed=1), FakeDevice()
    case.buffers["x"] += 1
    refill(case, device, 2)
    assert (case.buffers["x"] == case.inputs["x"]).all()
    case.buffers["x"][...] += 1
    assert compare(case, case.outputs, device).passed


def product(m, k, dtype="float32"):
    return sized(
        m, k, dtype, inputs=lambda m, k, rng: {"x": rng.normal((m, k), dtype), "w": rng.normal((m, k), dtype)},
        reference=lambda x, w: {"y": x * w}, magnitude=lambda x, w: {"y": abs(x) * abs(w)},
    )  # fmt: skip


def test_inputs_that_are_to_be_kept_stay_and_the_others_change_with_what_is_expected():
    of = product(6, 5)
    case, device = case_of(of, seed=1), FakeDevice()
    kept, other = case.inputs["x"].copy(), case_of(of, seed=2).inputs["w"]
    refill(case, device, 2, keep=("x",))
    assert (case.inputs["x"] == kept).all() and (case.inputs["w"] == other).all()
    assert (case.expected["y"] == kept * other).all() and (case.magnitude["y"] == abs(kept * other)).all()


def test_other_values_are_of_the_cases_own_kind():
    case, device = case_of(kernel(), kind="large"), FakeDevice()
    refill(case, device, 8)
    again = prepare(case.kernel, case.params, device, 8, "large")
    assert (case.inputs["x"] == again.inputs["x"]).all() and abs(case.inputs["x"]).max() > 2**31
