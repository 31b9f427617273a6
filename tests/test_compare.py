"""Two records: a refusal that names what differs, or a verdict with its reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from helpers_records import artifact, offline_record, record, steady, timing, verification, workload

from tirx_bench.cli import main
from tirx_bench.compare import SESSION_FLOOR, Comparison, against, compare, limits, together
from tirx_bench.model import STATUSES, NothingRanError, Record, Status, TimingPolicy, UsageError, Workload
from tirx_bench.render import comparison
from tirx_bench.serial import to_plain
from tirx_bench.store import write_record


def with_policy(**changes):
    return record(timing=timing({"add": steady(10.0)}, TimingPolicy(**{"timer": "event", **changes})))


def with_environment(**changes):
    return record(environment={**record().environment, **changes})


UNLIKE = {
    "GPU": (with_environment(gpu="NVIDIA H100"), "GPU NVIDIA H200 and NVIDIA H100"),
    "GPU UUID": (with_environment(gpu_uuid="GPU-2"), "GPU UUID GPU-1 and GPU-2"),
    "no GPU": (with_environment(gpu=None), "GPU NVIDIA H200 and None"),
    "kernel": (record(kernel="sub", times={"sub": steady(10.0)}), "kernel add and sub"),
    "timer": (with_policy(timer="wall"), "timer event and wall"),
    "cache": (with_policy(cache="warm"), "cache policy cold and warm; flush read and None"),
    "flush": (with_policy(flush="discard"), "flush read and discard"),
    "gate": (with_policy(gate=True), "gate False and True"),
    "seed": (with_policy(seed=1), "input seed 0 and 1"),
    "fill": (record(verification=replace(verification(), fill="uniform(0, 1)")), "input fill normal(0, 1) and uniform(0, 1)"),
    "m": (record(workload=workload(m=513)), "workload m 512 and 513"),
    "dtype": (record(workload=workload(dtype="float16")), "workload dtype bfloat16 and float16"),
    "one parameter more": (record(workload=workload(epilogue="relu")), "workload epilogue None and relu"),
    "one parameter less": (record(workload=Workload("big", {"m": 512, "k": 256})), "workload dtype bfloat16 and None"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_records_that_differ_in_a_condition_are_refused_and_the_field_is_named(name):
    other, said = UNLIKE[name]
    with pytest.raises(UsageError, match="not comparable") as raised:
        compare(record(), other)
    assert said in raised.value.message
    assert raised.value.message == f"the records are not comparable: {said}", "and nothing else differs"


def test_how_l2_was_evicted_is_a_condition_of_a_cold_cache_only():
    one, other = (with_policy(cache="warm", flush=flush) for flush in ("read", "discard"))
    assert compare(one, other).verdict == "same"


def test_how_many_calls_an_interval_holds_is_a_condition():
    one, other = (with_policy(cache="warm", calls=calls) for calls in (1, 100))
    with pytest.raises(UsageError, match="calls in one interval 1 and 100"):
        compare(one, other)
    assert compare(other, other).verdict == "same"


def test_budgets_are_no_condition():
    one, other = (with_policy(precision=p, max_rounds=m, settle_s=s) for p, m, s in ((0.005, 80, 5), (0.01, 40, 0)))
    assert compare(one, other).verdict == "same"


def test_every_field_that_differs_is_named_at_once():
    with pytest.raises(UsageError) as raised:
        compare(record(), record(kernel="sub", workload=workload(m=1, k=2), times={"sub": steady(1.0)}))
    assert all(said in raised.value.message for said in ("kernel add and sub", "workload m 512 and 1", "workload k 256 and 2"))


def test_the_same_problem_under_another_label_is_comparable():
    assert compare(record(), record(workload=replace(workload(), label="512x256"))).verdict == "same"


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_record_without_a_timing_is_refused_and_which_one_is_said(which):
    pair = (offline_record(), record()) if which == "first" else (record(), offline_record())
    with pytest.raises(UsageError, match=f"the {which} record holds no timing"):
        compare(*pair)


def test_code_tunables_and_software_may_differ_and_are_listed():
    tuned = artifact(tunables={"bn": 256, "stages": 4}, code_hash="d" * 64, compiler="nvrtc 13.2.78")
    found = compare(record(), record(artifact=tuned, environment={**record().environment, "driver": "590.2"}))
    assert set(found.changed) == {
        "code cccccccccccc and dddddddddddd",
        "compiler nvcc 13.0.88 and nvrtc 13.2.78",
        "tunable bn 128 and 256",
        "tunable stages None and 4",
        "driver 580.1 and 590.2",
    }


def test_a_tunable_that_has_the_name_of_another_field_hides_nothing():
    one, other = (record(artifact=artifact(tunables={"code": 1, "driver": 2}, code_hash=h * 64)) for h in "ab")
    assert any("aaaaaaaaaaaa and bbbbbbbbbbbb" in text for text in compare(one, other).changed)


def test_nothing_changed_is_an_empty_list():
    assert compare(record(), record()).changed == ()


# -------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    "old, new, verdict",
    [
        (steady(10), steady(8), "faster"),
        (steady(10), steady(12.5), "slower"),
        (steady(10), steady(10), "same"),
        (steady(10), steady(10.05), "same"),
        (steady(10), steady(9.7), "faster"),
        (steady(10), steady(10.1), "inconclusive"),
        (steady(10, jitter=0.2), steady(10, jitter=0.2), "inconclusive"),
        (steady(10, jitter=0.2), steady(9, jitter=0.2), "inconclusive"),
        (steady(10, jitter=0), steady(10, jitter=0), "same"),
        (steady(10, jitter=0), steady(5, jitter=0), "faster"),
        (steady(10, jitter=0), steady(20, jitter=0), "slower"),
        (steady(10, rounds=2), steady(5, rounds=2), "faster"),
        (steady(10, rounds=3), steady(5, rounds=10), "faster"),
    ],
)
def test_the_verdict_of_made_up_times(recwarn, old, new, verdict):
    found = compare(record(times={"add": old}), record(times={"add": new}))
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high
    assert not [str(w.message) for w in recwarn], "no warning reaches the terminal"


def test_the_ratio_is_new_over_old_and_the_times_are_medians():
    found = compare(record(us=10), record(us=8))
    assert found.ratio == pytest.approx(0.8, rel=1e-3)
    assert (found.old_us, found.new_us) == (pytest.approx(10, rel=2e-3), pytest.approx(8, rel=2e-3))
    back = compare(record(us=8), record(us=10))
    assert (back.ratio, back.low, back.high) == pytest.approx((1 / found.ratio, 1 / found.high, 1 / found.low))


def test_the_interval_is_welchs_on_the_logarithms_of_the_rounds():
    found = compare(record(times={"add": [[10], [11], [12]]}), record(times={"add": [[8], [9], [8.5]]}))
    # exp of scipy.stats.ttest_ind(log([8, 9, 8.5]), log([10, 11, 12]), equal_var=False).confidence_interval(0.95), scipy 1.17
    assert (found.low, found.high) == pytest.approx((0.6424390606585335, 0.9324374804767412))


def test_a_difference_that_two_sessions_show_with_nothing_changed_is_no_verdict():
    found = compare(
        record(times={"add": steady(10, jitter=1e-6)}), record(times={"add": steady(10 * (1 - 0.9 * SESSION_FLOOR), jitter=1e-6)})
    )
    assert found.verdict == "same"
    assert f"{SESSION_FLOOR:.0%}" in found.reason


@pytest.mark.parametrize("rounds", [(1, 1), (1, 10), (10, 1)], ids=str)
def test_one_round_gives_no_interval_so_the_verdict_is_inconclusive_however_large_the_difference(rounds):
    old, new = (steady(us, rounds=n) for us, n in zip((10, 1), rounds, strict=True))
    found = compare(record(times={"add": old}), record(times={"add": new}))
    assert (found.verdict, found.low, found.high) == ("inconclusive", 0, math.inf)
    assert "rounds" in found.reason


def test_the_baselines_do_not_decide_the_verdict():
    found = compare(
        record(times={"add": steady(10), "torch.add": steady(20)}), record(times={"add": steady(10), "torch.add": steady(5)})
    )
    assert found.verdict == "same"


def test_the_text_of_a_comparison_has_verdict_times_interval_reason_and_changes():
    text = comparison(compare(record(us=10), record(us=8, artifact=artifact(code_hash="d" * 64))))
    for part in (
        "faster: 8.00 us after 10.0",
        "ratio 0.8",
        "95 % interval",
        "below 0.99",
        "changed: code cccccccccccc and dddddddddddd",
    ):
        assert part in text


# -------------------------------------------------------------------------------------------- statuses

KERNELS = [None, "add"]  # the whole timing, or the kernel
NO_VERDICT = ["IMPOSSIBLE", "COLD_UNPROVEN", "SHARED"]
NO_ABSOLUTE_TIME = ["THROTTLED", "DRIFT", "NOT_SETTLED"]
ONLY_SAID = ["COARSE", "IMPRECISE", "SYNCS"]


def doubted(name, about=None, us=8.0, timer="event", **changes) -> Record:
    """A kernel of 8 us against a baseline of 10, and a status."""
    times = {"add": steady(us, rounds=16), "torch.add": steady(10, rounds=16), "other": steady(10, rounds=16)}
    found = timing(times, TimingPolicy(timer=timer))
    return record(timing=found, statuses=(Status(name, "seen", about),) if name else (), **changes)


def test_every_status_is_tried_here():
    assert {*NO_VERDICT, *NO_ABSOLUTE_TIME, *ONLY_SAID, "HOST_BOUND", "HIDDEN_WORK"} == set(STATUSES)


def test_without_a_status_there_is_a_verdict_and_nothing_limits_it():
    found = against(doubted(None), "torch.add")
    assert (found.verdict, found.sound, found.limits) == ("faster", True, ())


@pytest.mark.parametrize("about", [None, "add", "torch.add"])
@pytest.mark.parametrize("name", NO_VERDICT)
def test_a_status_that_forbids_the_verdict_makes_it_inconclusive_with_its_name(name, about):
    found = against(doubted(name, about), "torch.add")
    assert (found.verdict, found.sound, found.reason) == ("inconclusive", False, f"{name}: seen")
    assert found.ratio == pytest.approx(0.8, rel=1e-3), "the numbers stay"
    assert found.limits == (f"{name}: seen" if about is None else f"{name} {about}: seen",)


@pytest.mark.parametrize("name", NO_VERDICT)
def test_a_status_of_another_implementation_forbids_nothing(name):
    found = against(doubted(name, "other"), "torch.add")
    assert (found.verdict, found.sound, found.limits) == ("faster", True, ())


@pytest.mark.parametrize("timer, verdict", [("event", "inconclusive"), ("kernel", "faster"), ("wall", "faster")])
def test_a_slow_host_forbids_the_verdict_of_the_event_timer_only(timer, verdict):
    for about in ("add", "torch.add"):
        found = against(doubted("HOST_BOUND", about, timer=timer), "torch.add")
        assert (found.verdict, found.sound) == (verdict, verdict == "faster")
        assert found.limits == (f"HOST_BOUND {about}: seen",), "it is said in any case"
    assert against(doubted("HOST_BOUND", "other", timer=timer), "torch.add").verdict == "faster"


@pytest.mark.parametrize("about", [None, "add", "torch.add"])
@pytest.mark.parametrize("name", NO_ABSOLUTE_TIME + ONLY_SAID)
def test_what_falls_on_both_alike_is_said_and_forbids_no_ratio_of_one_session(name, about):
    found = against(doubted(name, about), "torch.add")
    assert (found.verdict, found.sound, len(found.limits)) == ("faster", True, 1)


@pytest.mark.parametrize("which", ["first", "second"])
@pytest.mark.parametrize("about", KERNELS)
@pytest.mark.parametrize("name", NO_ABSOLUTE_TIME + NO_VERDICT)
def test_a_time_that_is_not_sure_says_nothing_beside_another_sessions(name, about, which):
    pair = (doubted(None, us=10), doubted(name, about)) if which == "second" else (doubted(name, about, us=10), doubted(None))
    found = compare(*pair)
    assert found.verdict == "inconclusive"
    assert found.reason == f"the {which} record's time is not sure: {name}: seen"
    assert [text.partition(":")[0] for text in found.limits] == [name if about is None else f"{name} add"]


@pytest.mark.parametrize("name", NO_ABSOLUTE_TIME + NO_VERDICT)
def test_what_is_not_sure_about_a_baseline_is_no_matter_of_two_records(name):
    found = compare(doubted(None, us=10), doubted(name, "torch.add"))
    assert (found.verdict, found.limits) == ("faster", ())


@pytest.mark.parametrize("name", ONLY_SAID)
def test_what_only_widens_the_interval_is_said_beside_the_verdict_of_two_records(name):
    found = compare(doubted(None, us=10), doubted(name, "add"))
    assert (found.verdict, found.limits) == ("faster", (f"{name} add: seen",))


@pytest.mark.parametrize("timer, verdict", [("event", "inconclusive"), ("kernel", "faster")])
def test_a_slow_host_forbids_the_verdict_of_two_records_by_events_only(timer, verdict):
    assert compare(doubted(None, us=10, timer=timer), doubted("HOST_BOUND", "add", timer=timer)).verdict == verdict


def test_hidden_work_of_the_kernel_is_a_failed_record():
    hides = replace(doubted("HIDDEN_WORK", "add"), timing=None)
    assert hides.failed() and not doubted("HIDDEN_WORK", "torch.add").failed()
    assert not any(doubted(name, about).failed() for name in STATUSES if name != "HIDDEN_WORK" for about in KERNELS)
    with pytest.raises(NothingRanError, match="torch.add was not timed"):
        against(hides, "torch.add")


def test_the_limits_are_those_of_the_kernel_of_the_card_and_of_whom_one_asks_for():
    statuses = tuple(Status("COARSE", f"{who}'s", who) for who in ("add", "torch.add", "other")) + (Status("SHARED", "seen"),)
    found = record(statuses=statuses)
    assert limits(found) == ["COARSE add: add's", "SHARED: seen"]
    assert limits(found, "other") == ["COARSE add: add's", "COARSE other: other's", "SHARED: seen"]


def test_the_first_status_that_forbids_is_the_reason():
    statuses = (Status("DRIFT", "1", "add"), Status("SHARED", "2"), Status("IMPOSSIBLE", "3", "add"))
    assert against(replace(doubted(None), statuses=statuses), "torch.add").reason == "SHARED: 2"


# ---------------------------------------------------------------------------------- cycles, many problems


def held_back(slow_mhz: float) -> Record:
    """The kernel takes 20 % longer than the baseline and has run at `slow_mhz`, the baseline at 2000 MHz."""
    found = timing({"add": steady(12, rounds=16), "torch.add": steady(10, rounds=16)})
    clocks = {"add": slow_mhz, "torch.add": 2000.0}
    return record(timing=replace(found, samples=tuple(replace(s, clock_mhz=clocks[s.implementation]) for s in found.samples)))


def test_a_difference_that_only_the_clock_makes_is_said_to_be_one():
    effect = against(held_back(2000 / 1.2), "torch.add")
    assert effect.verdict == "slower" and effect.reason.endswith("; clock effect: by cycles it is same")
    assert effect.cycle_ratio == pytest.approx(1.0) and effect.ratio == pytest.approx(1.2)
    real = against(held_back(2000), "torch.add")
    assert real.verdict == "slower" and "clock effect" not in real.reason and real.cycle_ratio == pytest.approx(1.2)


def test_beside_the_mean_there_are_the_ranks_and_a_p_value():
    found = against(doubted(None), "torch.add")
    assert found.rank_ratio == pytest.approx(found.ratio, rel=1e-3) and 0 <= found.p < 1e-6
    assert against(record(times={"add": [[10.0]], "torch.add": [[20.0]]}), "torch.add").p is None


def no_number(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_ratio_without_an_interval_is_that_of_the_medians_and_no_nan(rounds):
    found = against(record(times={"add": [[9.0, 8.0, 1.0]] * rounds, "torch.add": [[10.0]] * rounds}), "torch.add")
    assert found.ratio == pytest.approx(0.8) and (found.low, found.high) == (0.0, math.inf)
    assert found.verdict == "inconclusive" and found.sound == (rounds > 1), "two rounds are a unit"
    values = [v for v in vars(found).values() if isinstance(v, float)]
    assert not any(math.isnan(v) for v in values)
    text = comparison(found)
    assert "ratio 0.8000, no interval" in text and "nan" not in text and "inf" not in text
    plain = json.loads(json.dumps(to_plain(found), allow_nan=False), parse_constant=no_number)
    assert (plain["low"], plain["high"], plain["ratio"]) == (0.0, None, pytest.approx(0.8))


def verdict_of(verdict, p) -> Comparison:
    return Comparison(verdict, "alone", 10, 9, 0.9, 0.88, 0.92, p=p)


def test_a_verdict_that_only_one_of_many_equal_problems_gives_is_withdrawn():
    equals = {f"{n}": verdict_of("same", 0.2 + n / 100) for n in range(19)}
    found = together({**equals, "lucky": verdict_of("faster", 0.01)})
    assert (found["lucky"].verdict, found["lucky"].p) == ("inconclusive", pytest.approx(0.2))
    assert found["lucky"].reason == "faster alone; with all problems together p = 0.2"
    assert [c.verdict for n, c in found.items() if n != "lucky"] == ["same"] * 19
    assert together({"lucky": verdict_of("faster", 0.01)})["lucky"].verdict == "faster", "alone it stands"


def test_a_verdict_that_is_sure_stays_also_among_many():
    equals = {f"{n}": verdict_of("same", 0.5) for n in range(19)}
    found = together({**equals, "sure": verdict_of("slower", 1e-6)})["sure"]
    assert (found.verdict, found.reason, found.p) == ("slower", "alone", pytest.approx(2e-5))


def test_two_that_are_both_sure_step_down():
    found = together({"a": verdict_of("faster", 0.02), "b": verdict_of("slower", 0.04)})
    assert [(c.verdict, c.p) for c in found.values()] == [("faster", 0.04), ("slower", 0.04)], "0.04 is not doubled"
    assert [c.verdict for c in together({"a": verdict_of("faster", 0.03), "b": verdict_of("slower", 0.04)}).values()] == [
        "inconclusive", "inconclusive",
    ]  # fmt: skip


def test_a_p_value_of_zero_is_a_number_and_one_that_is_missing_counts_for_nothing():
    found = together(
        {"sure": verdict_of("faster", 0.0), "one round": verdict_of("inconclusive", None), "b": verdict_of("same", 0.4)}
    )
    assert [(c.verdict, c.p) for c in found.values()] == [("faster", 0.0), ("inconclusive", None), ("same", 0.4)]


def test_no_problem_at_all_has_no_verdict():
    assert together({}) == {}


# ---------------------------------------------------------------------------------------- command line


def files(tmp_path, *pair):
    return [str(write_record(r, tmp_path / str(n))) for n, r in enumerate(pair)]


@pytest.mark.parametrize(
    "new, code, verdict",
    [
        (record(us=8), 0, "faster"),
        (record(us=10), 0, "same"),
        (record(us=12), 1, "slower"),
        (record(times={"add": steady(10, jitter=0.3)}), 4, "inconclusive"),
        (record(times={"add": steady(8, rounds=1)}), 4, "inconclusive"),
    ],
    ids=["faster", "same", "slower", "inconclusive", "one round"],
)
def test_the_exit_code_is_the_verdicts(tmp_path, capsys, new, code, verdict):
    pair = files(tmp_path, record(us=10), new)
    assert main(["compare", *pair]) == code
    assert capsys.readouterr().out.startswith(f"{verdict}: ")
    assert main(["compare", "--json", *pair]) == code
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


def test_two_records_have_a_ratio_in_cycles_that_a_slower_clock_does_not_move():
    def at(mhz, us):
        found = timing({"add": steady(us)})
        return record(timing=replace(found, samples=tuple(replace(s, clock_mhz=mhz) for s in found.samples)))

    found = compare(at(2000.0, 10.0), at(1000.0, 20.0))
    assert found.ratio == pytest.approx(2.0) and found.cycle_ratio == pytest.approx(1.0)
    assert compare(at(None, 10.0), at(1000.0, 20.0)).cycle_ratio is None


@pytest.mark.parametrize("name", UNLIKE)
def test_what_cannot_be_compared_is_exit_code_2_with_the_field_on_stderr(tmp_path, capsys, name):
    other, said = UNLIKE[name]
    assert main(["compare", *files(tmp_path, record(), other)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err and "next: measure both under the same conditions" in err


def test_a_refusal_as_json_is_an_error_with_the_exit_code(tmp_path, capsys):
    assert main(["compare", "--json", *files(tmp_path, offline_record(), record())]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["exit_code"]) == ("UsageError", 2)
    assert "the first record holds no timing" in error["message"]


def test_a_file_that_is_no_record_is_exit_code_2(tmp_path, capsys):
    (path,) = files(tmp_path, record())
    (tmp_path / "notes.txt").write_text("hello")
    assert main(["compare", path, str(tmp_path / "notes.txt")]) == 2
    assert main(["compare", path, str(tmp_path / "absent.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("swapped", [False, True])
def test_a_record_and_a_kernel_are_not_of_one_kind(tmp_path, capsys, swapped):
    (path,) = files(tmp_path, record())
    pair = [path, "gemm"][:: -1 if swapped else 1]
    assert main(["compare", *pair]) == 2
    out, err = capsys.readouterr()
    assert out == "" and f"error: {pair[0]} and {pair[1]} are not of one kind\nnext: two records (.json), or two kernels" in err
