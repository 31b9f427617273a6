"""Two records: a refusal that names what differs, or a verdict with its reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from helpers_records import artifact, offline_record, record, steady, timing, verification, workload

from tirx_bench.cli import main
from tirx_bench.compare import SESSION_FLOOR, compare
from tirx_bench.model import TimingPolicy, UsageError, Workload
from tirx_bench.render import comparison
from tirx_bench.store import write_record


def with_policy(**changes):
    return record(timing=timing({"add": steady(10.0)}, TimingPolicy(**changes)))


def with_environment(**changes):
    return record(environment={**record().environment, **changes})


UNLIKE = {
    "GPU": (with_environment(gpu="NVIDIA H100"), "GPU NVIDIA H200 and NVIDIA H100"),
    "GPU UUID": (with_environment(gpu_uuid="GPU-2"), "GPU UUID GPU-1 and GPU-2"),
    "no GPU": (with_environment(gpu=None), "GPU NVIDIA H200 and None"),
    "kernel": (record(kernel="sub", times={"sub": steady(10.0)}), "kernel add and sub"),
    "timer": (with_policy(timer="wall"), "timer event and wall"),
    "cache": (with_policy(cache="warm"), "cache policy cold and warm"),
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
