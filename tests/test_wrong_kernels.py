"""The kernels with a planted fault: each says what is wrong with it, and differs from its right twin in that alone."""

from __future__ import annotations

import collections
import difflib
import functools
import importlib.util
import re
from pathlib import Path

import pytest

from tirx_bench.catalog import find
from tirx_bench.compile import build_functions
from tirx_bench.compile.lower import load_tvm, lower
from tirx_bench.model import STATUSES

FOLDER = Path(__file__).parent / "wrong_kernels"
FILES = sorted(file for file in FOLDER.glob("*.py") if not file.stem.startswith("parts_"))
CLASSES = {
    "synchronisation": "sync", "tma": "tma", "boundary": "boundary", "numeric": "numeric", "epilogue": "epilogue",
    "cheat": "cheat",
}  # fmt: skip
DETECTORS = {"numeric", "repeat", "fault", "time-out", "sanitizer", "static", "simulator", "baseline", *STATUSES}
LEAST = {"synchronisation": 10, "tma": 6, "boundary": 6, "numeric": 6, "epilogue": 4, "cheat": 8}
each = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@functools.cache
def kernel(file: Path):
    load_tvm()  # without torch, which some files' helpers would otherwise bring in
    return find(str(file)).kernel


@functools.cache
def loaded(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def constants(file: Path) -> dict:
    return script_of_them().constants(file)


def script_of_them():
    return loaded("run_wrong_kernels", FOLDER.parent / "bench" / "wrong_kernels.py")


@functools.cache
def text(file: Path, faulty: bool) -> str:
    """What both sides of the launch do: the device code, and the tensor maps, which only the host code has."""
    wrong = kernel(file)
    workload = wrong.workloads[0]
    wrong.refuse(workload, {"faulty": faulty})
    functions = build_functions(wrong, wrong.params(workload, {"faulty": faulty}))
    device = lower(functions, wrong.archs[0]).cuda.split('extern "C" __global__')[1:]  # the helpers before it change their order
    maps = re.findall(r".*tensormap_encode_tiled.*", "\n".join(f.script() for f in functions.values()))
    return "\n".join([*device, *maps])


@functools.cache
def change(file: Path) -> tuple[str, ...]:
    """How the faulty kernel differs from the right one: the changed lines, each with its neighbours, which say where.

    Of a launch closure that cheats, what it does in the place of the honest one.
    """
    if kernel(file).baselines:
        _, body = file.read_text().split("def cheat(")
        return tuple(body.split("KERNEL =")[0].splitlines())
    lines = difflib.unified_diff(text(file, False).splitlines(), text(file, True).splitlines(), n=2, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))


def test_there_are_enough_of_them():
    observable = [found for found in map(constants, FILES) if found.get("OBSERVABLE", True)]
    classes = collections.Counter(found["CLASS"] for found in observable)
    assert all(classes[name] >= least for name, least in LEAST.items())


@each
def test_a_wrong_kernel_says_what_is_wrong_and_who_sees_it(file):
    found = constants(file)
    assert kernel(file).name == file.stem
    assert file.stem.startswith(CLASSES[found["CLASS"]] + "_")
    assert found["FAULT"] and "\n" not in found["FAULT"]
    assert found["DETECTORS"] and set(found["DETECTORS"]) <= DETECTORS
    assert len(set(found["DETECTORS"])) == len(found["DETECTORS"])
    assert kernel(file).tunables["faulty"] is True


@each
def test_the_fault_changes_the_code(file):
    assert change(file)


def test_no_two_faults_are_the_same_change():
    changes: dict[tuple[str, ...], str] = {}
    for file in FILES:
        assert changes.setdefault(change(file), file.stem) == file.stem


# ------------------------------------------------------------------------------------- the script that runs them


@pytest.fixture(scope="module")
def script():
    return script_of_them()


def answer(wrong=0, problem="", repeats=True):
    outputs = [{"wrong_elements": wrong, "problem": problem}]
    return {"verification": {"outputs": outputs, "repeats": repeats, "controls": []}}


def benched(left_out=(), statuses=(), **changes):
    found = [{"name": name, "implementation": "cheat"} for name in statuses]
    return {**answer(**changes), "left_out": list(left_out), "statuses": found}


@pytest.mark.parametrize(
    "given, seen",
    [
        (answer(), []),
        (answer(wrong=3), ["numeric"]),
        (answer(problem="is an input that the launch changed"), ["numeric"]),
        (answer(repeats=None, wrong=1), ["numeric"]),
        (answer(repeats=False), ["repeat"]),
        ({"error": {"message": "x: the kernel did not return within 20 s and was killed"}}, ["time-out"]),
        ({"error": {"message": "a kernel faulted: CUDA error"}}, ["fault"]),
        ({"error": {"message": "x cannot be launched: 300 KiB of shared memory"}}, ["static"]),
        ({"error": {"message": "nvcc was not found"}}, ["error: nvcc was not found"]),
    ],
)
def test_what_an_answer_shows_is_put_down_to_its_detector(script, given, seen):
    assert script.seen_in(given) == seen


@pytest.mark.parametrize(
    "given, seen",
    [
        (benched(), []),
        (benched(statuses=["HOST_BOUND"]), []),
        (benched(["baseline cheat: its outputs do not follow its inputs"]), ["baseline"]),
        (benched(["timing of cheat: HIDDEN_WORK: 90 us"], ["HIDDEN_WORK", "SYNCS"]), ["HIDDEN_WORK"]),
        (benched(["baseline torch.mm: it raised"]), []),
        (benched(wrong=3), ["numeric"]),
    ],
)
def test_what_a_bench_shows_of_a_cheat_is_put_down_to_its_detector(script, given, seen):
    assert script.seen_in_bench(given) == seen


@pytest.mark.parametrize(
    "faulty, named, observable, said",
    [
        (["numeric"], ["numeric"], True, "caught"),
        (["fault"], ["numeric"], True, "caught by another detector"),
        ([], ["numeric"], True, "missed"),
        (["error: nvcc was not found"], ["numeric"], True, "missed"),
        ([], ["simulator"], False, "unobservable"),
    ],
)
def test_a_kernel_counts_as_caught_by_a_detector_that_was_named_before(script, faulty, named, observable, said):
    assert script.verdict({"faulty": faulty, "named": named, "observable": observable}) == said


def test_the_script_takes_every_file_of_the_corpus_and_no_helper(script):
    assert script.kernels([]) == FILES
    assert [path.stem for path in script.kernels(["sync_producer_phase"])] == ["sync_producer_phase"]
