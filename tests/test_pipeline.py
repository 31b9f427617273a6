"""What is asked of GPU processes and made of their answers, and what such a process does, on a device made of numpy."""

from __future__ import annotations

import copy
import itertools
import sys
import textwrap
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers_records import artifact, kernel, offline_record, record, steady, timing, verification
from helpers_trial import Card, policy, request

from tirx_bench.compare import against
from tirx_bench.model import (
    Baseline,
    FailedError,
    Kernel,
    MissingError,
    NothingRanError,
    Operation,
    Peak,
    Status,
    TimingPolicy,
    UsageError,
    VerifyPolicy,
    Work,
    Workload,
)
from tirx_bench.pipeline import Job, first_call, gpu_bench, loading, stages, versus, worker
from tirx_bench.pipeline.loading import Loaded, load_version
from tirx_bench.pipeline.request import SAME_CODE, Answer, Version
from tirx_bench.pipeline.stages import Clock
from tirx_bench.pipeline.trial import UNSEEN, Trial
from tirx_bench.store import read_record
from tirx_bench.tools import PROFILER_VARIABLES
from tirx_bench.verify import prepare, verify

PLAN = sys.modules["tirx_bench.pipeline.plan"]  # pipeline.plan is its function
EVENT = TimingPolicy(timer="event")

# ------------------------------------------------------------------------------ launches on that device


def add_one(card, b):
    b["y"][...] = b["x"] + 1


def remembers():
    """A kernel that keeps its answer by the address of its input, and gives it again when that address comes again."""
    answers = {}

    def effect(card, b):
        address = b["x"].ctypes.data
        b["y"][...] = answers.setdefault(address, b["x"] + 1)

    return effect


def breaks(after):
    """A kernel that is right `after` times and leaves the last row out from then on."""
    count = itertools.count()

    def effect(card, b):
        rows = 6 if next(count) < after else 5
        b["y"][:rows] = b["x"][:rows] + 1

    return effect


def half_in_a_graph(card, b):
    rows = 3 if card.replaying else 6
    b["y"][:rows] = b["x"][:rows] + 1


def hides(card, b):
    add_one(card, b)
    card.hides = 50.0


def waits(card, b):
    add_one(card, b)
    card.waits = True


def binding(card, effect=add_one, us=10.0):
    return lambda buffers: card.kernel(us, lambda: effect(card, buffers))


def baseline(card, effect=add_one, us=20.0, tuning="none"):
    return Baseline(lambda x, y: card.kernel(us, lambda: effect(card, {"x": x, "y": y})), tuning)


def loaded(card, of, effect=add_one, us=10.0, **changes):
    params = of.params(of.workloads[0])
    return Loaded(of, params, artifact(**changes), binding(card, effect, us))


@pytest.fixture
def card(monkeypatch):
    monkeypatch.setattr(gpu_bench, "profiler", lambda: "")
    return Card()


def benched(card, effect=add_one, baselines=None, how=None, of=None, step=lambda text: None, us=10.0, **changes) -> Answer:
    of = of or kernel(baselines=baselines or {})
    have = loaded(card, of, effect, us)
    case = prepare(of, have.params, card, 0)
    verified = verify(case, lambda buffers: have.bind(buffers)(), card, VerifyPolicy(seeds=1))
    assert verified.passed, "what follows is about kernels that pass at first"
    return gpu_bench.bench(request(how, **changes), case, have, verified, card, step)


# ------------------------------------------------------------------------------------- right before and after


@pytest.mark.parametrize("timer", ["kernel", "event", "proton", "wall", "graph"])
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_a_kernel_and_its_baselines_are_timed_and_described(card, timer, cache):
    how = policy(timer=timer, cache=cache)
    answer = benched(card, baselines={"numpy": baseline(card, tuning="a search of 5 s")}, how=how)
    assert answer.verification.passed and answer.left_out == ()
    assert answer.timing.implementations == ("add", "numpy")
    assert (answer.timing.median_us("add"), answer.timing.median_us("numpy")) == (10, 20)
    own, other = answer.operations
    assert (
        own.implementation == "add" and own.library.startswith("TIRx by nvcc 13.0.88, code cccc") and own.workspace_bytes is None
    )
    assert (other.library, other.workspace_bytes, other.tuning) == ("numpy", 4096, "a search of 5 s")
    assert answer.environment == card.describe()


@pytest.mark.parametrize("timer", ["kernel", "event", "wall"])
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_a_kernel_that_remembers_its_answer_is_caught_after_the_timing(card, timer, cache):
    answer = benched(card, remembers(), how=policy(timer=timer, cache=cache))
    assert answer.timing is None and not answer.verification.passed
    (left_out,) = answer.left_out
    assert "wrong after the timed calls, on values that it had not seen" in left_out


def test_a_kernel_that_is_wrong_only_after_many_calls_is_caught(card):
    answer = benched(card, breaks(after=12))
    assert answer.timing is None and answer.verification.outputs[0].wrong_elements == 5


@pytest.mark.parametrize("cache", ["cold", "rotate"])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_check_after_the_timing_says_with_which_seed_its_values_can_be_had_again(card, cache, seed):
    of = kernel()
    have = loaded(card, of, remembers())
    case = prepare(of, have.params, card, seed)
    before = verify(case, lambda buffers: have.bind(buffers)(), card, VerifyPolicy(seeds=1))
    answer = gpu_bench.bench(request(policy(cache=cache)), case, have, before, card, lambda text: None)
    assert (before.seed, answer.verification.seed) == (seed, UNSEEN + seed) and not answer.verification.passed
    again = prepare(of, have.params, card, answer.verification.seed)
    assert (case.inputs["x"] == again.inputs["x"]).all()


def test_the_outputs_are_poisoned_before_the_check_so_that_those_of_an_earlier_call_do_not_count(card):
    def once(card, b, written=[]):  # noqa: B006
        if len(written) < 20:
            written.append(add_one(card, b))

    assert benched(card, once).verification.outputs[0].wrong_elements == 30


def test_a_kernel_that_is_wrong_on_one_copy_only_is_caught(card):
    addresses = []

    def wrong_on_the_third(card, b):
        if b["x"].ctypes.data not in addresses:
            addresses.append(b["x"].ctypes.data)
        add_one(card, b)
        if b["x"].ctypes.data in addresses[2:3]:
            b["y"][1, 1] = 0

    answer = benched(card, wrong_on_the_third, how=policy(cache="rotate"))
    assert answer.timing is None and answer.verification.outputs[0].wrong_elements == 1


@pytest.mark.parametrize("cache", ["cold", "rotate"])
def test_a_graph_whose_replay_leaves_half_of_the_operation_out_is_caught(card, cache):
    answer = benched(card, half_in_a_graph, how=policy(timer="graph", cache=cache))
    assert answer.timing is None and answer.verification.outputs[0].wrong_elements == 15
    assert benched(card, half_in_a_graph, how=policy(timer="event", cache=cache)).timing, "eager it is right"


@pytest.mark.parametrize("cache", ["cold", "rotate"])
def test_a_baseline_that_remembers_is_taken_out_unless_it_says_what_it_prepares(card, cache):
    found = {
        name: Baseline(baseline(card, remembers()).prepare, prepared=prepared)
        for name, prepared in (("says", ("x",)), ("not", ()))
    }
    answer = benched(card, baselines=found, how=policy(cache=cache))
    assert answer.timing.implementations == ("add", "says")
    assert answer.left_out == ("not: its outputs were wrong after the timed calls, on values that it had not seen",)


def test_what_was_prepared_is_there_again_for_each_baseline_and_the_rest_is_new(card):
    of = kernel(
        inputs=lambda m, k, rng: {name: rng.normal((m, k), "float32") for name in ("x", "w")},
        reference=lambda x, w: {"y": x + w},
    )  # fmt: skip

    def packs(of_which):
        def prepare(x, w, y):
            kept = {"x": x, "w": w}[of_which].copy()
            other = {"x": w, "w": x}[of_which]
            return card.kernel(20.0, lambda: y.__setitem__(..., kept + other))

        return prepare

    def adds(card, b):
        b["y"][...] = b["x"] + b["w"]

    for w_claims in (("w",), ("x",)):
        packed = {"x": Baseline(packs("x"), prepared=("x",)), "w": Baseline(packs("w"), prepared=w_claims)}
        answer = benched(card, adds, of=replace(of, baselines=packed))
        assert answer.timing.implementations == (("add", "x", "w") if w_claims == ("w",) else ("add", "x"))


def test_a_baseline_that_prepares_what_is_no_input_is_refused(card):
    with pytest.raises(UsageError, match="baseline numpy prepares weights, which is no input of add"):
        benched(card, baselines={"numpy": replace(baseline(card), prepared=("weights",))})


def test_f61_what_the_timed_calls_left_counts_and_not_only_a_call_afterwards(card):
    first = []

    def sometimes(card, b):
        first.append(float(b["x"][0, 0]))
        add_one(card, b)
        if card.timers_used and first[-1] == first[0]:  # right again on the values of the check
            b["y"][0, 0] += 1

    answer = benched(card, baselines={"sometimes": baseline(card, sometimes)})
    assert answer.timing.implementations == ("add",)
    assert answer.left_out == ("sometimes: its outputs were wrong as the timed calls left them",)


@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_f61_what_was_written_before_the_rounds_does_not_count_as_what_the_timed_calls_left(card, cache):
    """It works whenever it is not timed, on the same values, so that its outputs were right before."""
    rounds = []

    def rests(card, b):
        if not rounds:
            add_one(card, b)

    def step(text):
        if text == "checking the outputs of the timed calls":
            rounds.clear()
        elif text.startswith("round"):
            rounds.append(text)

    answer = benched(card, baselines={"rests": baseline(card, rests)}, how=policy(cache=cache), step=step)
    assert answer.left_out == ("rests: its outputs were wrong as the timed calls left them",)
    assert answer.timing.implementations == ("add",)


def test_f61_a_call_that_follows_another_without_a_pause_is_checked_too(card):
    """Where nothing of it is timed, since every timed call is alone."""
    waited = []
    card.synchronize = lambda: waited.append(1)

    def lazy(card, b):
        if waited:
            add_one(card, b)
        waited.clear()

    trial = trial_of(card, policy())
    trial.add_kernel("lazy", binding(card, lazy), trial.cases, "")
    waited.append(1)
    assert trial._again(trial.implementations[0], turns=1).passed
    waited.append(1)
    assert not trial.check(trial.implementations[0]).passed


@pytest.mark.parametrize("copies", [4, 100])
def test_copies_that_the_timed_calls_did_not_come_by_are_not_held_against_anybody(card, monkeypatch, copies):
    monkeypatch.setattr(Card, "l2_bytes", 120 * (copies - 1))
    slow = {name: baseline(card, us=5000.0) for name in ("a", "b")}
    assert len(trial_of(card, policy(cache="rotate")).cases) == copies
    answer = benched(card, baselines=slow, how=policy(cache="rotate"), us=5000.0)
    assert answer.left_out == () and answer.timing.implementations == ("add", "a", "b")
    assert copies == 4 or len(answer.timing.samples) < copies


def test_a_call_that_missed_a_copy_which_it_came_by_is_wrong(card):
    trial = trial_of(card, policy(cache="rotate"))
    trial.add_kernel("add", binding(card), trial.cases, "")
    (added,) = trial.implementations
    trial.poison()
    added.timed()
    assert trial.left(added).passed and added.ran == {0}
    trial.cases[0].buffers["y"][0, 0] = 0
    assert not trial.left(added).passed


def test_a_replay_runs_on_every_copy_of_its_graph(card):
    trial = trial_of(card, policy(cache="rotate", timer="graph"))
    trial.add_kernel("add", binding(card), trial.cases, "")
    (added,) = trial.implementations
    trial.poison()
    assert not trial.left(added).passed
    added.timed()
    assert trial.left(added).passed and added.ran == set(range(len(trial.cases)))


@pytest.mark.parametrize("which", ["event", "graph"])
def test_a_baseline_that_is_wrong_after_the_timed_calls_is_taken_out_of_the_timing(card, which):
    effect = breaks(after=12) if which == "event" else half_in_a_graph
    card.neighbours = ["process 7"]
    answer = benched(card, baselines={"breaks": baseline(card, effect), "fine": baseline(card)}, how=policy(timer=which))
    assert answer.verification.passed and answer.timing.implementations == ("add", "fine")
    (left_out,) = answer.left_out
    assert left_out.startswith("breaks: its outputs were wrong")
    assert {s.implementation for s in answer.statuses} <= {None, "add", "fine"} and answer.statuses
    assert [o.implementation for o in answer.operations] == ["add", "fine"]


def test_untraced_samples_of_a_baseline_that_is_wrong_are_taken_out_too(card):
    answer = benched(card, baselines={"breaks": baseline(card, breaks(after=12))}, how=policy(timer="kernel"))
    assert {s.implementation for s in (*answer.timing.samples, *answer.timing.untraced)} == {"add"}


def test_a_baseline_that_is_wrong_is_left_out_with_the_reason(card):
    wrong = baseline(card, lambda card, b: b["y"].fill(0))
    answer = benched(card, baselines={"wrong": wrong, "fine": baseline(card)})
    assert answer.timing.implementations == ("add", "fine")
    assert answer.left_out == ("baseline wrong: its output does not match the reference",)


@pytest.mark.parametrize("where", ["prepare", "call"])
@pytest.mark.parametrize(
    "error, said",
    [
        (ValueError("no such algorithm\nmore"), "it raised ValueError: no such algorithm"),
        (ImportError(), "it raised ImportError: ImportError"),
        (MissingError("triton is not installed", "install it"), "it raised MissingError: triton is not installed"),
    ],
)
def test_a_baseline_that_raises_is_left_out_with_the_reason(card, where, error, said):
    def fails(*_):
        raise error

    raises = baseline(card, fails) if where == "call" else Baseline(lambda x, y: fails())
    answer = benched(card, baselines={"raises": raises, "fine": baseline(card)})
    assert answer.timing.implementations == ("add", "fine")
    assert answer.left_out == (f"baseline raises: {said}",)


def scribbles(card, b):
    add_one(card, b)
    b["x"][1, 1] = 0


@pytest.mark.parametrize("cache", ["cold", "rotate"])
def test_a_baseline_that_changes_an_input_is_left_out_and_nobody_else_sees_what_it_wrote(card, cache):
    seen = set()

    def noting(card, b):
        seen.add(b["x"].tobytes())
        add_one(card, b)

    def run(baselines):
        seen.clear()
        return benched(card, noting, {**baselines, "fine": baseline(card, noting)}, policy(cache=cache)), set(seen)

    alone, values = run({})
    answer, beside = run({"thief": baseline(card, scribbles)})
    assert alone.left_out == () and beside == values, "neither the kernel nor a later baseline"
    assert answer.left_out == ("baseline thief: it changes the input x, which the kernel gets too",)
    assert answer.timing.implementations == ("add", "fine") and answer.verification.passed


def test_a_baseline_that_changes_an_input_of_one_copy_only_is_left_out(card):
    count = itertools.count()

    def on_the_third(card, b):
        (scribbles if next(count) == 2 else add_one)(card, b)

    how = policy(cache="rotate")
    answer = benched(card, baselines={"thief": baseline(card, on_the_third), "fine": baseline(card)}, how=how)
    assert answer.left_out == ("baseline thief: it changes the input x, which the kernel gets too",)
    assert answer.timing.implementations == ("add", "fine")


@pytest.mark.parametrize("where", ["prepare", "call"])
def test_a_baseline_that_changes_an_input_and_then_raises_leaves_no_trace_either(card, where):
    def fails(card, b):
        b["x"].fill(3)
        raise ValueError("too late")

    broken = baseline(card, fails) if where == "call" else Baseline(lambda x, y: fails(card, {"x": x}))
    trial = trial_of(card, policy())
    first = trial.cases[0].inputs["x"].copy()
    trial.add_baseline("broken", broken)
    assert trial.left_out == ["baseline broken: it raised ValueError: too late"]
    assert (trial.cases[0].inputs["x"] == first).all()


def test_a_baseline_must_be_right_on_every_copy(card):
    def of_the_first_copy(x, y):
        first.setdefault("x", x)
        return card.kernel(20, lambda: add_one(card, {"x": first["x"], "y": y}))

    first = {}
    cold = benched(card, baselines={"b": Baseline(of_the_first_copy)})
    first.clear()
    rotated = benched(card, baselines={"b": Baseline(of_the_first_copy)}, how=policy(cache="rotate"))
    assert cold.timing.implementations == ("add", "b")
    assert rotated.timing.implementations == ("add",)
    assert rotated.left_out == ("baseline b: its output does not match the reference",)


def test_only_the_baseline_that_the_verdict_is_about_is_timed(card):
    three = {name: baseline(card) for name in ("a", "b", "c")}
    assert benched(card, baselines=three, vs="b").timing.implementations == ("add", "b")
    assert benched(card, baselines=three, vs="").timing.implementations == ("add",)
    assert set(benched(card, baselines=three).timing.implementations) == {"add", "a", "b", "c"}


# ------------------------------------------------------------------------------------ what cannot be timed


@pytest.mark.parametrize("timer", ["event", "kernel"])
def test_hidden_work_of_the_kernel_is_the_answer(card, timer):
    answer = benched(card, hides, baselines={"fine": baseline(card)}, how=policy(timer=timer))
    assert answer.timing is None and answer.verification.passed
    assert [(s.name, s.implementation) for s in answer.statuses] == [("HIDDEN_WORK", "add")]
    (left_out,) = answer.left_out
    assert "HIDDEN_WORK" in left_out and "busy for 50.0 us after the stop event" in left_out


@pytest.mark.parametrize("timer", ["event", "kernel"])
def test_hidden_work_of_a_baseline_leaves_it_out_and_nobody_traces_it(card, timer):
    answer = benched(card, baselines={"hides": baseline(card, hides), "fine": baseline(card)}, how=policy(timer=timer))
    assert answer.timing.implementations == ("add", "fine")
    (left_out,) = answer.left_out
    assert "hides" in left_out and "HIDDEN_WORK" in left_out
    assert [o.implementation for o in answer.operations] == ["add", "fine"]


def test_a_baseline_that_waits_is_left_out_behind_a_gate_with_the_reason(card):
    gated = benched(card, baselines={"waits": baseline(card, waits)}, how=policy(gate=True))
    assert gated.timing.implementations == ("add",)
    (left_out,) = gated.left_out
    assert "waits" in left_out and "SYNCS" in left_out
    free = benched(card, baselines={"waits": baseline(card, waits)})
    assert free.timing.implementations == ("add", "waits") and free.left_out == ()
    assert ("SYNCS", "waits") in {(s.name, s.implementation) for s in free.statuses}


def test_a_kernel_that_waits_is_not_timed_behind_a_gate(card):
    answer = benched(card, waits, how=policy(gate=True))
    assert answer.timing is None and "SYNCS" in answer.left_out[0]


def test_an_instrumented_artifact_is_not_timed(card):
    of = kernel()
    have = loaded(card, of, instrumented=True)
    case = prepare(of, have.params, card, 0)
    with pytest.raises(UsageError, match="instrumented for IKET"):
        gpu_bench.bench(request(), case, have, verification(), card, lambda text: None)
    assert card.timers_used == []


@pytest.mark.parametrize("variable", PROFILER_VARIABLES)
def test_under_a_profiler_nothing_is_timed(monkeypatch, variable):
    for name in PROFILER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "x")
    with pytest.raises(UsageError, match=r"^PROFILED: this process runs under .*, which changes every time") as raised:
        gpu_bench._refuse(SimpleNamespace(artifact=artifact()))
    assert variable in raised.value.message and "`tirx-bench launch` is for profilers" in raised.value.hint
    assert raised.value.exit_code == 2


def test_the_floor_of_the_card_makes_the_impossible_known(card, monkeypatch):
    work = Work(flops=1.0, bytes=4.8e12 * 20e-6, dtype="float32")  # 20 us on an H200
    monkeypatch.setattr(Card, "name", "NVIDIA H200")
    monkeypatch.setattr(gpu_bench, "read_peak", lambda *_: Peak("kept", 1.0, 1.0))
    answer = benched(card, of=kernel(work=lambda: work))
    assert [(s.implementation, "needs 20 us" in s.evidence) for s in answer.statuses if s.name == "IMPOSSIBLE"] == [("add", True)]


def test_the_peak_is_measured_once_for_a_card_and_dtype(card, tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(
        gpu_bench, "measure_peak", lambda device, dtype: measured.append(dtype) or Peak("here", len(measured), 1.0)
    )
    of = kernel(work=lambda: Work(1.0, 1.0, "float32"))
    first, again = (benched(card, of=of, peaks=str(tmp_path)).measured for _ in range(2))
    assert first == again == Peak("here", 1, 1.0) and measured == ["float32"]
    assert benched(card, of=kernel(), peaks=str(tmp_path)).measured is None, "without work there is none"
    assert benched(card, of=of, action="self-test").measured is None, "an A/A run holds nothing against it"


def test_progress_tells_what_is_done(card):
    steps = []
    benched(card, step=steps.append)
    assert steps[0] == "verifying what it is held against" and steps[-1] == "checking the outputs of the timed calls"
    assert "round 1 of 2 to 2" in steps


# -------------------------------------------------------------------------------------- copies and places


def trial_of(card, how, of=None) -> Trial:
    of = of or kernel()
    return Trial(prepare(of, of.params(of.workloads[0]), card, 7), how, card)


def test_rotating_takes_copies_with_other_values_until_l2_is_filled_twice_between_two_uses(card):
    trial = trial_of(card, policy(cache="rotate"))
    size = card.bytes_of(trial.cases[0].buffers.values())
    assert (len(trial.cases) - 1) * size >= 2 * card.l2_bytes > (len(trial.cases) - 2) * size
    values = [case.inputs["x"].tobytes() for case in trial.cases]
    assert len(set(values)) == len(trial.cases)
    assert [case.seed for case in trial.cases] == list(range(7, 7 + len(trial.cases)))
    assert len(trial_of(card, policy(cache="cold")).cases) == len(trial_of(card, policy(cache="warm")).cases) == 1


def test_every_timed_call_of_every_implementation_is_on_the_next_copy(card):
    used = []

    def noting(who):
        def effect(card, b):
            used.append((who, b["x"].ctypes.data))
            add_one(card, b)

        return effect

    began = {}
    benched(
        card, noting("k"), {"b": baseline(card, noting("b"))}, policy(cache="rotate", block_ms=0.5),
        step=lambda text: began.setdefault(text, len(used)),
    )  # fmt: skip
    timed = used[began["warming up"] : began["checking the outputs of the timed calls"]]
    addresses = [address for _, address in timed]
    copies = len(set(addresses))
    assert copies > 3 and len(addresses) > 10 * copies and {who for who, _ in timed} == {"k", "b"}
    assert all(len(set(addresses[n : n + copies])) == copies for n in range(len(addresses) - copies + 1))


def test_a_graph_of_rotated_copies_holds_whole_turns_and_says_how_many_calls(card):
    trial = trial_of(card, policy(timer="graph", cache="rotate"))
    assert trial.policy.calls == len(trial.cases) > 1
    assert trial_of(card, policy(timer="graph", cache="rotate", calls=100)).policy.calls % len(trial.cases) == 0
    answer = benched(card, how=policy(timer="graph", cache="rotate"))
    assert answer.timing.policy.calls == len(trial.cases) and answer.timing.median_us("add") == 10


def in_place():
    return kernel(outputs=lambda m, k: {"x": ((m, k), "float32")}, reference=lambda x: {"x": x + 1}, inplace=("x",))


@pytest.mark.parametrize(
    "how",
    [
        {"timer": "event", "cache": "warm", "calls": 2},
        {"timer": "event", "cache": "rotate", "calls": 2},
        {"timer": "graph", "cache": "warm", "calls": 3},
        {"timer": "graph", "cache": "rotate"},  # which holds a call on every copy
    ],
    ids=str,
)
def test_arguments_in_place_cannot_be_restored_between_calls_back_to_back(card, how):
    with pytest.raises(UsageError, match="in-place arguments cannot be restored") as raised:
        trial_of(card, policy(**how), in_place())
    assert "--calls 1" in raised.value.hint


@pytest.mark.parametrize("action", ["bench", "self-test"])
@pytest.mark.parametrize("cache", ["cold", "warm", "rotate"])
def test_every_timed_call_finds_its_arguments_in_place_as_they_were(card, cache, action):
    seen = []

    def effect(card, b):
        seen.append(float(abs(b["x"]).max()))
        b["x"] += 1

    of = in_place()
    answer = benched(card, effect, of=of, how=policy(cache=cache), action=action)
    assert answer.timing.implementations == (("add", SAME_CODE) if action == "self-test" else ("add",))
    assert max(seen[-len(answer.timing.samples) :]) < 6, "a normal number and not a sum of ones"


class Found:
    """Calls that add one in place, and the bytes that they found, by name and array."""

    def __init__(self, card, us=20.0):
        self.card, self.us, self.values = card, us, {}

    def call(self, name, x):
        def effect():
            self.values.setdefault((name, x.ctypes.data), set()).add(x.tobytes())
            x[...] += 1

        return self.card.kernel(self.us, effect)

    def effect(self, card, b):
        self.call("kernel", b["x"]).effect()

    def baseline(self, name):
        return Baseline(lambda x: self.call(name, x))


@pytest.mark.parametrize(
    "cache, timer",
    [(c, t) for c in ("cold", "warm", "rotate") for t in ("event", "kernel", "wall", "graph") if (c, t) != ("rotate", "graph")],
)
def test_every_call_of_a_baseline_finds_the_first_values_in_arguments_of_its_own(card, cache, timer):
    """Its first call, what is tried, captured and timed: as every call of the kernel does."""
    found = Found(card)
    of = replace(in_place(), baselines={name: found.baseline(name) for name in ("one", "other")})
    values = {}

    def step(text):
        if text == "checking the outputs of the timed calls":  # with which the kernel gets others
            values.update(copy.deepcopy(found.values))

    answer = benched(card, found.effect, of=of, how=policy(cache=cache, timer=timer), step=step)
    assert answer.left_out == () and answer.timing.implementations == ("add", "one", "other")
    assert {len(found) for found in values.values()} == {1}, "every array is found as it was, by every call"
    places = [{place for who, place in values if who == name} for name in ("kernel", "one", "other")]
    assert not places[0] & places[1] and not places[1] & places[2] and not places[0] & places[2], "nobody writes into another's"
    assert len(places[0]) == len(places[1]) == len(places[2]) and (len(places[0]) > 3) == (cache == "rotate")
    by_name = [sorted(min(found) for (who, _), found in values.items() if who == name) for name in ("kernel", "one", "other")]
    assert by_name[0] == by_name[1] == by_name[2], "the same values for all"


def test_a_baseline_of_a_kernel_in_place_that_is_wrong_is_left_out(card):
    wrong = Baseline(lambda x: card.kernel(5.0, lambda: x.fill(0)))
    answer = benched(card, lambda card, b: b["x"].__iadd__(1), of=replace(in_place(), baselines={"wrong": wrong}))
    assert answer.left_out == ("baseline wrong: its output does not match the reference",)


def test_a_scratch_argument_is_the_baselines_own_too(card):
    """Changed in place without being an output: what a baseline does to it is no input that the kernel gets too."""
    of = kernel(inplace=("x",), baselines={"b": baseline(card, scribbles)})
    answer = benched(card, scribbles, of=of)
    assert answer.left_out == () and answer.timing.implementations == ("add", "b")


def test_what_a_baseline_in_place_left_is_no_answer_to_the_check_afterwards(card):
    """It is right until it is timed and does nothing from then on: without a reset its old result would pass."""
    started = []

    def gives_up(card, x):
        if not started:
            x[...] += 1

    of = replace(in_place(), baselines={"lazy": Baseline(lambda x: card.kernel(5.0, lambda: gives_up(card, x)))})
    answer = benched(
        card, lambda card, b: b["x"].__iadd__(1), of=of,
        step=lambda text: started.append(text) if text == "round 1 of 2 to 2" else None,
    )  # fmt: skip
    assert answer.left_out == ("lazy: its outputs were wrong after the timed calls, on values that it had not seen",)
    assert answer.timing.implementations == ("add",)


def test_before_a_call_every_implementation_with_memory_of_its_own_is_reset_on_the_copy_that_comes_next(card):
    of = in_place()
    trial = trial_of(card, policy(cache="rotate"), of)
    found = Found(card)
    trial.add_kernel("add", lambda b: found.call("add", b["x"]), trial.cases, "by hand")
    assert len(trial.resets) == 1, "the copies of the trial itself"
    twins = [case.twin(card, case.seed) for case in trial.cases]
    trial.add_kernel("again", lambda b: found.call("again", b["x"]), twins, "by hand")
    trial.add_baseline("b", found.baseline("b"))
    trial.add_baseline("wrong", Baseline(lambda x: lambda: None))
    assert [len(resets) for resets in trial.resets] == [len(trial.cases)] * 3, "none for what was left out"
    own = [trial.cases[1].working["x"], twins[1].working["x"], trial.implementations[2].outputs[1]["x"]]
    for array in own:
        array.fill(9)
    trial.rotation.at = 0
    trial.before()
    assert all((array == trial.cases[1].inputs["x"]).all() for array in own)
    own[0].fill(9)
    trial.rotation.at = 1
    trial.before()
    assert (own[0] == 9).all(), "that copy is not the next"


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_capture_calls_on_first_values(card, cache):
    found = Found(card)
    trial = trial_of(card, policy(timer="graph", cache=cache), in_place())
    case = trial.cases[0]
    case.working["x"].fill(9)
    trial.add_kernel("add", lambda b: found.call("add", b["x"]), trial.cases, "by hand")
    assert found.values == {("add", case.working["x"].ctypes.data): {case.inputs["x"].tobytes()}}


# ----------------------------------------------------------------------------------------- A/A and versus


def test_a_self_test_times_the_same_code_in_memory_of_its_own(card):
    used = set()

    def noting(card, b):
        used.add((b["x"].ctypes.data, b["y"].ctypes.data))
        add_one(card, b)

    answer = benched(card, noting, baselines={"b": baseline(card)}, action="self-test")
    assert answer.timing.implementations == ("add", SAME_CODE) and answer.measured is None
    assert len(used) == 2
    assert answer.timing.median_us("add") == answer.timing.median_us(SAME_CODE)


def test_a_self_test_of_a_kernel_that_remembers_is_caught_under_either_name(card):
    assert benched(card, remembers(), action="self-test").timing is None


def older(monkeypatch, card, effect=add_one, us=30.0):
    """Let the process find the older version too. What it was asked for is returned."""
    asked = []

    def load(version, workload, device):
        asked.append((version, workload))
        return loaded(card, kernel(), effect, us, code_hash="0" * 64)

    monkeypatch.setattr(gpu_bench, "load_version", load)
    return asked


OLD = Version("old.py:add", {"bn": 64}, "/build/old")


def test_in_one_process_the_older_version_is_timed_under_its_name_on_the_same_problem(card, monkeypatch):
    asked = older(monkeypatch, card)
    answer = benched(card, baselines={"b": baseline(card)}, action="versus", old=OLD, old_name="old.py (old)")
    assert asked == [(OLD, Workload("small", {}))]
    assert answer.timing.implementations == ("add", "old.py (old)")
    assert answer.timing.median_us("old.py (old)") == 30
    assert [o.library for o in answer.operations] == [f"TIRx by nvcc 13.0.88, code {c * 12}" for c in "c0"]


def test_an_older_version_that_solves_another_problem_gives_no_ratio(card, monkeypatch):
    older(monkeypatch, card, lambda card, b: b["y"].fill(0))
    with pytest.raises(FailedError, match="old.py .old. does not give what add's reference does"):
        benched(card, action="versus", old=OLD, old_name="old.py (old)")


def test_an_older_version_that_remembers_its_answer_is_taken_out(card, monkeypatch):
    older(monkeypatch, card, remembers())
    answer = benched(card, action="versus", old=OLD, old_name="old.py (old)")
    assert answer.timing.implementations == ("add",)
    (left_out,) = answer.left_out
    assert left_out.startswith("old.py (old): its outputs were wrong after the timed calls")


# ------------------------------------------------------------------------------------------- the process


@pytest.fixture
def process(card, monkeypatch):
    """`worker.perform` on the card, and the steps it told."""
    told = []
    of = kernel()

    def perform(action, effect=add_one):
        monkeypatch.setattr(worker, "load_version", lambda version, workload, device: loaded(card, of, effect))
        return worker.perform(request(action=action), told.append, Clock())

    monkeypatch.setattr(worker, "CudaDevice", lambda: card)
    return perform, told


def test_verify_launches_once_and_times_nothing(process, card):
    perform, told = process
    answer = perform("verify")
    assert answer.verification.passed and answer.timing is None
    assert told == ["loading the kernel", "making inputs and the reference", "launching"] and card.timers_used == []


@pytest.mark.parametrize("action", ["bench", "self-test", "versus"])
def test_what_fails_its_verification_is_never_timed(process, card, action):
    perform, told = process

    def changes_its_input(card, b):
        add_one(card, b)
        b["x"] += 1

    for wrong in (lambda card, b: b["y"].fill(0), changes_its_input):
        answer = perform(action, wrong)
        assert not answer.verification.passed and answer.timing is None
    assert card.timers_used == [] and told[-1] == "launching"


def test_bench_verifies_and_then_times(process):
    perform, told = process
    answer = perform("bench")
    assert answer.verification.passed and answer.timing.implementations == ("add",)
    assert told.index("launching") < told.index("verifying what it is held against")


def test_first_call_does_not_load_an_artifact(process, monkeypatch):
    perform, _ = process
    monkeypatch.setattr(worker, "first_call", lambda request, device, clock: {"build": 0.5})
    monkeypatch.setattr(loading, "read", None)
    assert perform("first-call").stages == {"build": 0.5}


def test_an_artifact_for_another_device_is_refused(card, monkeypatch):
    monkeypatch.setattr(loading, "find", lambda spec: SimpleNamespace(kernel=kernel()))
    monkeypatch.setattr(loading, "read", lambda folder: artifact(arch="sm_100a"))
    with pytest.raises(MissingError, match="the artifact is for sm_100a and this device, no card of the table, is sm_90"):
        load_version(OLD, Workload("small", {}), card)


def test_every_stage_of_the_first_call_has_its_time_in_order(card, monkeypatch):
    of = kernel(baselines={"numpy": baseline(card)})
    monkeypatch.setattr(stages, "find", lambda spec: SimpleNamespace(kernel=of))
    monkeypatch.setattr(stages, "build_functions", lambda kernel, params: {})
    asked = {}
    monkeypatch.setattr(stages, "compile_functions", lambda *_, **options: asked.update(options) or artifact())
    monkeypatch.setattr(stages, "load", lambda kernel, functions, artifact: binding(card))
    params = Workload("small", {"m": 6, "k": 5, "dtype": "float32"})
    clock = Clock()
    with clock.stage("import torch"):
        pass
    asking = replace(request(action="first-call"), version=Version("add", {}, "sm_90a"), workload=params)
    found = stages.first_call(asking, card, clock)
    assert list(found) == [
        "import torch", "build", "compile", "load", "add: first call", "add: second call", "numpy: prepare, autotune",
        "numpy: first call", "numpy: second call",
    ]  # fmt: skip
    assert all(seconds >= 0 for seconds in found.values())
    assert asked["arch"] == "sm_90a" and not asked["out"].exists(), "compiled from nothing, and nothing stays"


# ------------------------------------------------------------------------------------ the parent: versus


class Asked:
    """The requests of GPU processes, each with the device of its process, which `answer` answers."""

    def __init__(self, answer):
        self.answer, self.requests, self.processes, self.open = answer, [], [], 0

    def __call__(self, device=0):
        self.processes.append(device)
        return self

    def __enter__(self):
        self.open += 1
        assert self.open == 1, "one at a time"
        return self

    def __exit__(self, *_):
        self.open -= 1

    def perform(self, request, timeout_s, progress):
        self.requests.append(request)
        return self.answer(request)


FILE = """
from tirx_bench import Kernel, Tolerance, Workload

def build(n, NAMES):
    return None

KERNEL = Kernel(
    name="mine", archs=("sm_90a",), workloads=(Workload("one", {"n": 4}), Workload("two", {"n": 8})), build=build,
    inputs=lambda n, rng: {}, outputs=lambda n: {}, reference=lambda: {}, tolerance=Tolerance(0, 0), work=None, tunables=TUNABLES,
)
"""


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """An older and a newer file of one kernel, on a machine with a device; `installed` answers for its processes."""
    for name, tunables in (("old", {"bn": 64}), ("new", {"bn": 128, "stages": 3})):
        text = FILE.replace("NAMES", ", ".join(tunables)).replace("TUNABLES", repr(tunables))
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "90")
    compiled = []

    def launchable(planned, progress):
        compiled.append(planned)
        folder = f"/build/{len(compiled)}"
        return replace(
            offline_record(left_out=()), kernel=planned.kernel.name, workload=planned.workload, artifact=artifact(folder=folder)
        )

    monkeypatch.setattr(versus, "launchable", launchable)

    def run(answer, fresh=False, **job):
        asked = Asked(answer)
        monkeypatch.setattr(versus, "GpuProcess", asked)
        job = Job(str(tmp_path / "new.py"), out=tmp_path / "out", **job)
        record, path = versus.versus_job(str(tmp_path / "old.py"), job, fresh, lambda text: None)
        assert read_record(path) == record
        return record, asked

    old = str(tmp_path / "old.py")
    return SimpleNamespace(run=run, compiled=compiled, old=old, new=str(tmp_path / "new.py"), old_name=versus.old_name(old))


def both(request):
    times = {"mine": steady(9, rounds=16), request.old_name: steady(10, rounds=16)}
    return Answer({"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}, verification(), timing(times, EVENT))


def test_two_files_in_one_process_are_one_request_with_the_older_version_beside_the_newer(pair):
    record, asked = pair.run(both, device=1)
    old_name = pair.old_name
    assert old_name == f"{pair.old} (old)" and asked.processes == [1]
    (request,) = asked.requests
    assert (request.action, request.old_name, request.vs) == ("versus", old_name, None)
    assert (request.version.spec.partition(":")[0], request.version.artifact) == (pair.new, "/build/2")
    assert (request.old.spec.partition(":")[0], request.old.artifact) == (pair.old, "/build/1")
    assert record.timing.implementations == ("mine", old_name) and against(record, old_name).verdict == "faster"


def test_tunables_reach_each_version_that_knows_them_and_the_problem_is_the_newer_ones(pair):
    _, asked = pair.run(both, tunables=("bn=256", "stages=4"), workload="n=12")
    (request,) = asked.requests
    assert (request.version.tunables, request.old.tunables) == ({"bn": 256, "stages": 4}, {"bn": 256})
    assert request.workload.params == {"n": 12}
    assert [planned.workload.params for planned in pair.compiled] == [{"n": 12}] * 2


def test_without_a_workload_both_get_the_newer_ones_first(pair, tmp_path):
    (tmp_path / "old.py").write_text((tmp_path / "old.py").read_text().replace('{"n": 4}', '{"n": 400}'))
    _, asked = pair.run(both)
    assert asked.requests[0].workload == Workload("one", {"n": 4})
    assert [planned.params["n"] for planned in pair.compiled] == [4, 4]


def test_kernels_whose_problems_have_other_parameters_are_refused_before_anything_is_compiled(pair, tmp_path):
    text = FILE.replace("NAMES", "bn").replace("TUNABLES", '{"bn": 1}')
    (tmp_path / "old.py").write_text(text.replace('"n"', '"m"').replace("lambda n", "lambda m").replace("build(n,", "build(m,"))
    with pytest.raises(UsageError, match=r"solve problems of other parameters: \['m'\] and \['n'\]"):
        pair.run(both)
    assert pair.compiled == []


def alone(times, **changes):
    """Answers of processes that have one version: `times` gives the microseconds for a spec and how often it ran already."""
    count = {}

    def answer(request):
        spec = request.version.spec.partition(":")[0]
        count[spec] = count.get(spec, 0) + 1
        us = times(spec, count[spec] - 1)
        found = timing({"mine": [[us] * 3, [us] * 3]}, replace(request.policy))
        untraced = tuple(replace(s, us=s.us + 2) for s in found.samples)
        found = replace(found, untraced=untraced, session_s=0.5)
        made = {name: change(spec, count[spec] - 1) for name, change in changes.items()}
        return Answer({"gpu": "NVIDIA H200", "gpu_uuid": "GPU-1"}, verification(), **{"timing": found, **made})

    return answer


def test_fresh_processes_take_turns_in_balanced_order_each_with_one_version_and_no_baseline(pair):
    _, asked = pair.run(alone(lambda spec, n: 10.0), fresh=True, device=2)
    specs = ["A" if r.version.spec.startswith(pair.old) else "B" for r in asked.requests]
    assert "".join(specs) == "ABBABAAB" * 4, "16 rounds, the least that a verdict takes"
    assert asked.processes == [2] * 32 and len({id(r) for r in asked.requests}) == 32
    assert {(r.action, r.vs, r.old, r.policy.rounds, r.policy.max_rounds) for r in asked.requests} == {("bench", "", None, 2, 2)}
    assert len(pair.compiled) == 2, "each is compiled once"
    assert {r.version.artifact for r in asked.requests} == {"/build/1", "/build/2"}


def test_the_samples_of_a_fresh_process_are_one_block_of_its_round(pair):
    record, _ = pair.run(alone(lambda spec, n: (10.0 if spec == pair.old else 8.0) + n / 100), fresh=True)
    found, old_name = record.timing, pair.old_name
    assert found.rounds == 16 and set(found.implementations) == {"mine", old_name}
    assert found.round_medians_us("mine") == pytest.approx([8 + n / 100 for n in range(16)])
    assert found.round_medians_us(old_name) == pytest.approx([10 + n / 100 for n in range(16)])
    assert {len([s for s in found.of("mine") if s.round == n]) for n in range(16)} == {6}
    assert len(found.untraced) == len(found.samples) and {s.round for s in found.untraced} == set(range(16))
    assert {s.round for s in found.states} == set(range(16))
    assert found.session_s == pytest.approx(32 * 0.5)
    assert (found.policy.rounds, found.policy.max_rounds) == (16, 80), "what was asked for, not what each process was"
    verdict = against(record, old_name)
    assert verdict.verdict == "faster" and "8 units" in verdict.reason


def test_a_fresh_process_that_times_nothing_ends_it_with_its_round_name_and_reason(pair):
    fine = timing({"mine": steady(9)}, EVENT)
    broken = alone(lambda spec, n: 10.0, timing=lambda spec, n: None if (spec, n) == (pair.old, 3) else fine)
    with pytest.raises(NothingRanError, match=r"round 4: .*old.py \(old\) was not timed: it did not pass verification"):
        pair.run(broken, fresh=True)
    hidden = alone(lambda spec, n: 10.0, timing=lambda spec, n: None, left_out=lambda spec, n: ("timing: HIDDEN_WORK: busy",))
    with pytest.raises(NothingRanError, match="round 1: .* was not timed: timing: HIDDEN_WORK: busy"):
        pair.run(hidden, fresh=True)


def test_what_any_fresh_process_said_counts_under_the_name_of_its_version(pair):
    def said(spec, n):
        old = spec == pair.old
        shared = (Status("SHARED", f"process {n}"),) if n == 5 and old else ()
        return (*shared, Status("HOST_BOUND", "+20 us", "mine") if old else Status("SYNCS", "it waits", "mine"))

    record, _ = pair.run(alone(lambda spec, n: 10.0, statuses=said), fresh=True)
    old_name = pair.old_name
    assert {(s.name, s.implementation) for s in record.statuses} == {
        ("SHARED", None),
        ("HOST_BOUND", old_name),
        ("SYNCS", "mine"),
    }
    assert len(record.statuses) == 3, "each once"
    verdict = against(record, old_name)
    assert (verdict.verdict, verdict.reason) == ("inconclusive", "SHARED: process 5")


ROUNDS_SAY = [Status(name, "in my two rounds", "mine") for name in ("DRIFT", "COARSE", "IMPRECISE")]


def test_what_takes_all_rounds_to_tell_is_not_asked_of_a_fresh_process_which_has_two(pair):
    said = (*ROUNDS_SAY, Status("THROTTLED", "in my two rounds"), Status("NOT_SETTLED", "A moved"))
    record, _ = pair.run(alone(lambda spec, n: 10.0, statuses=lambda spec, n: said), fresh=True)
    assert [(s.name, s.implementation) for s in record.statuses] == [("NOT_SETTLED", None)]


def test_what_takes_all_rounds_to_tell_is_told_from_the_rounds_of_all_fresh_processes(pair):
    def drifting(spec, n):
        return 10.0 * (1 + n / 100) if spec == pair.old else 10.0

    record, _ = pair.run(alone(drifting), fresh=True)
    said = {(s.name, s.implementation): s.evidence for s in record.statuses}
    assert set(said) == {("DRIFT", pair.old_name), ("COARSE", pair.old_name), ("IMPRECISE", pair.old_name)}
    assert said["DRIFT", pair.old_name].startswith("+14.0% from the first round to the last")
    assert "after 16 rounds" in said["IMPRECISE", pair.old_name]


def test_a_clock_that_moves_from_one_fresh_process_to_the_next_is_said(pair):
    def clocked(spec, n):
        found = timing({"mine": [[10.0] * 3] * 2}, EVENT)
        return replace(found, samples=tuple(replace(s, clock_mhz=1980.0 - 20 * n) for s in found.samples))

    record, _ = pair.run(alone(lambda spec, n: 10.0, timing=clocked), fresh=True)
    (status,) = record.statuses
    assert (status.name, status.implementation) == ("THROTTLED", None) and "1680 to 1980 MHz" in status.evidence


def test_what_a_slow_host_is_said_of_by_the_processes_is_not_said_a_second_time_of_their_sum(pair):
    """Each process has seen its host beside its device; the joined samples would show it again."""
    bound = (Status("HOST_BOUND", "+20 us", "mine"),)
    record, _ = pair.run(alone(lambda spec, n: 10.0, statuses=lambda spec, n: bound), fresh=True)
    assert [(s.name, s.implementation) for s in record.statuses] == [("HOST_BOUND", n) for n in (pair.old_name, "mine")]


def test_what_each_version_launches_is_in_the_record_of_fresh_processes_once_under_its_name(pair):
    def operations(spec, n):
        return (Operation("mine", (f"{'old' if spec == pair.old else 'new'}_kernel",), 1, f"TIRx {n}", None, "none"),)

    record, _ = pair.run(alone(lambda spec, n: 10.0, operations=operations), fresh=True)
    assert [(o.implementation, o.kernels, o.library) for o in record.operations] == [
        ("mine", ("new_kernel",), "TIRx 0"),
        (pair.old_name, ("old_kernel",), "TIRx 0"),
    ]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_record_of_two_files_is_the_newer_ones_with_the_verification_and_the_card_of_the_processes(pair, fresh):
    record, asked = pair.run(alone(lambda spec, n: 10.0) if fresh else both, fresh=fresh)
    assert record.kernel == "mine" and set(record.timing.implementations) == {"mine", pair.old_name}
    assert record.environment["gpu_uuid"] == "GPU-1" and record.verification == verification()
    assert record.artifact.folder == "/build/2" and len(asked.requests) == (32 if fresh else 1)


# -------------------------------------------------------------------------------- the parent: first call


def test_the_first_call_is_measured_in_five_fresh_processes(monkeypatch, tmp_path):
    monkeypatch.setattr(PLAN, "absent", lambda: "")
    monkeypatch.setattr(PLAN, "present_arch", lambda index: "90")
    seconds = itertools.count(1)
    asked = Asked(lambda request: Answer({"gpu": "NVIDIA H200"}, stages={"build": float(next(seconds)), "load": 0.5}))
    monkeypatch.setattr(first_call, "GpuProcess", asked)
    told = []
    found = first_call.first_call_job(Job("warp_roles", workload="1M", out=tmp_path, device=1), told.append)
    assert asked.processes == [1] * 5 and told == [f"fresh process {n} of 5" for n in range(1, 6)]
    assert {(r.action, r.version.artifact, r.workload.label) for r in asked.requests} == {("first-call", "sm_90a", "1M")}
    assert (found.kernel, found.workload, found.arch, found.gpu) == ("warp_roles", "1M", "sm_90a", "NVIDIA H200")
    assert found.stages_s == {"build": (1.0, 2.0, 3.0, 4.0, 5.0), "load": (0.5,) * 5}


# ---------------------------------------------------------------------------------------------- baselines


def test_a_plain_callable_becomes_a_baseline_whose_tuning_is_not_declared():
    def prepare_it(x, y):
        return lambda: None

    declared = Baseline(prepare_it, tuning="a search of 5 s")
    found = kernel(baselines={"plain": prepare_it, "declared": declared}).baselines
    assert found == {"plain": Baseline(prepare_it), "declared": declared}
    assert found["plain"].tuning == "not declared"
    assert isinstance(kernel(), Kernel) and kernel().baselines == {}
    assert record().operations == ()
