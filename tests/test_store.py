"""Records to files and back: nothing is lost, nothing is half-written, and what cannot be read says why."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from helpers_records import artifact, offline_record, record, timing, workload
from hypothesis import HealthCheck, given, settings
from strategies import ANSWERS, RECORDS, REQUESTS

from tirx_bench.model import Peak, Record, TimingPolicy, UsageError, Workload
from tirx_bench.pipeline.request import Answer, Request
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.store import (
    FORMAT,
    read_noise_floor,
    read_peak,
    read_record,
    records,
    write_noise_floor,
    write_peak,
    write_record,
)

# ---------------------------------------------------------------------------------------- any record


def examples(most: int) -> settings:
    return settings(max_examples=most, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(RECORDS)
@examples(60)
def test_any_record_comes_back_from_json_as_it_was(before):
    assert from_plain(Record, json.loads(json.dumps(to_plain(before)))) == before


@given(RECORDS)
@examples(20)
def test_any_record_comes_back_from_its_file_as_it_was(tmp_path_factory, before):
    path = write_record(before, tmp_path_factory.mktemp("out"))
    assert read_record(path) == before
    assert path.parent.name == "records" and path.suffix == ".json"


@given(ANSWERS)
@examples(20)
def test_what_the_gpu_process_answers_comes_back_as_it_was(before):
    assert from_plain(Answer, json.loads(json.dumps(to_plain(before)))) == before


@given(REQUESTS)
@examples(20)
def test_what_the_gpu_process_is_asked_comes_back_as_it_was(before):
    assert from_plain(Request, json.loads(json.dumps(to_plain(before)))) == before


@pytest.mark.parametrize("before", [record(), offline_record()], ids=["gpu", "offline"])
def test_a_whole_record_comes_back(tmp_path, before):
    assert read_record(write_record(before, tmp_path)) == before


def test_true_one_and_one_point_zero_stay_what_they_are(tmp_path):
    params = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    kept = read_record(write_record(offline_record(workload=Workload("x", params)), tmp_path)).workload.params
    assert [type(kept[n]) for n in "abcd"] == [bool, int, float, str]


def test_an_error_that_is_not_finite_is_null_in_the_file_which_is_strict_json(tmp_path):
    path = write_record(offline_record(environment={"power_limit_w": math.nan, "clock": math.inf}), tmp_path)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(path.read_text(), parse_constant=refuse)["environment"] == {"power_limit_w": None, "clock": None}


# -------------------------------------------------------------------------------------- what is refused


@pytest.fixture
def written(tmp_path) -> Path:
    return write_record(record(), tmp_path)


def edited(path: Path, edit) -> Path:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))
    return path


def refused(path: Path) -> UsageError:
    with pytest.raises(UsageError) as raised:
        read_record(path)
    assert raised.value.exit_code == 2
    assert path.name in raised.value.message, "the message names the file"
    return raised.value


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_record_that_is_cut_short_is_refused(written, part):
    whole = written.read_bytes().rstrip()
    written.write_bytes(whole[: int(len(whole) * part)])
    assert "cut short or not JSON" in refused(written).message


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\x00" + bytes(64), b"\xff\xfe" + bytes(100), b"[" * 100_000], ids=["elf", "utf-16", "deep"]
)
def test_a_file_that_is_no_text_or_no_json_is_refused(tmp_path, data):
    path = tmp_path / "binary.json"
    path.write_bytes(data)
    assert "cut short or not JSON" in refused(path).message


@pytest.mark.parametrize("data", ["[]", "{}", "3", "null", '"text"', '{"kernel": "add"}', '{"format": "1"}', '{"format": null}'])
def test_json_that_is_no_record_is_refused(tmp_path, data):
    path = tmp_path / "other.json"
    path.write_text(data)
    assert "is not a record of tirx-bench" in refused(path).message


def test_an_absent_file_and_a_folder_are_refused(tmp_path):
    assert "No such file" in refused(tmp_path / "absent.json").message
    assert "directory" in refused(tmp_path).message


@pytest.mark.parametrize("version, what_to_do", [(FORMAT + 1, "upgrade tirx-bench"), (1, "measure again")])
def test_a_record_of_another_format_says_which_formats_and_what_to_do(written, version, what_to_do):
    error = refused(edited(written, lambda data: data.update(format=version, something_else=1)))
    assert f"has record format {version}; this version reads {FORMAT}" in error.message
    assert error.hint == what_to_do


def test_a_record_that_an_earlier_version_wrote_is_refused_and_not_half_read(written):
    """Format 1 had the rounds' states under `rounds`, and samples without time and clock."""

    def older(data):
        data["format"] = 1
        data["timing"]["rounds"] = data["timing"].pop("states")
        del data["statuses"], data["operations"]

    assert "record format 1" in refused(edited(written, older)).message


@pytest.mark.parametrize("name", ["kernel", "workload", "artifact", "environment", "theoretical"])
def test_a_missing_field_is_named(written, name):
    assert f"lacks the field {name!r}" in refused(edited(written, lambda data: data.pop(name))).message


def test_a_missing_field_deep_inside_is_named_with_its_place(written):
    message = refused(edited(written, lambda data: data["timing"]["samples"][4].pop("us"))).message
    assert "timing.samples[4] lacks the field 'us'" in message


def test_a_field_that_is_not_known_is_named(written):
    assert "has a field 'colour'" in refused(edited(written, lambda data: data.update(colour="red"))).message


WRONG = {
    "kernel": (lambda d: d.update(kernel=3), ".kernel should be a str, not '3'"),
    "params": (lambda d: d["workload"]["params"].update(m=None), ".workload.params.m should be a int or float or str or bool"),
    "workload": (lambda d: d.update(workload=[]), ".workload should be a Workload"),
    "registers": (lambda d: d["artifact"]["resources"][0].update(registers="168"), ".resources[0].registers should be a int"),
    "grid": (lambda d: d["artifact"]["resources"][0].update(grid=[1, 2.5]), ".grid[1] should be a int, not '2.5'"),
    "severity": (lambda d: d["lint"][0].update(severity="fatal"), "severity should be a"),
    "us": (lambda d: d["timing"]["samples"][0].update(us="fast"), ".samples[0].us should be a float, not 'fast'"),
    "bool for a number": (lambda d: d["work"].update(flops=True), ".work.flops should be a float, not 'True'"),
    "timer": (lambda d: d["timing"]["policy"].update(timer="sundial"), "unknown timer 'sundial'"),
    "no samples": (lambda d: d["timing"].update(samples=[]), "nothing was timed"),
    "verified": (lambda d: d["timing"].update(verified=False), "passed verification"),
    "time of 0": (lambda d: d["timing"]["samples"][3].update(us=0.0), "a time of 0 us is none"),
    "negative time": (lambda d: d["timing"]["samples"][3].update(us=-2.0), "a time of -2 us is none"),
    "status": (lambda d: d.update(statuses=[{"name": "HOST_BOUNT", "evidence": ""}]), "unknown status 'HOST_BOUNT'"),
    "gate": (lambda d: d["timing"]["policy"].update(gate=True, timer="wall"), "a gate says something about the event timer only"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_type_is_named_with_its_place(written, name):
    edit, said = WRONG[name]
    assert said in refused(edited(written, edit)).message


# --------------------------------------------------------------------------------------------- writing


def nothing_left(folder: Path) -> bool:
    return [p for p in folder.rglob("*") if p.is_file()] == []


def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write .*file/records.*: Not a directory") as raised:
        write_record(record(), tmp_path / "file")
    assert "--out" in raised.value.hint


@pytest.mark.parametrize("broken", ["write_text", "replace"])
def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch, broken):
    def fail(self, *arguments, **options):
        if broken == "write_text":
            self.write_bytes(b'{"format": 1, "kern')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, broken, fail)
    with pytest.raises(UsageError, match="No space left on device"):
        write_record(record(), tmp_path)
    assert nothing_left(tmp_path)


def test_an_interrupt_while_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_record(record(), tmp_path)
    assert nothing_left(tmp_path)


def test_a_value_that_has_no_json_form_is_refused_before_a_file_is_opened(tmp_path):
    with pytest.raises(TypeError, match="set has no JSON form"):
        write_record(offline_record(environment={"gpus": {1, 2}}), tmp_path)
    assert nothing_left(tmp_path)


def test_a_failed_write_keeps_the_record_that_was_there(tmp_path, monkeypatch):
    path = write_record(record(us=10), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", lambda self, *a, **k: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(UsageError):
            write_record(record(us=20), tmp_path)
    assert read_record(path) == record(us=10)


def test_records_sort_by_the_time_they_were_made_also_within_a_second(tmp_path):
    created = [f"2026-{month:02}-01T00:00:{second:06.3f}+00:00" for month in (1, 2, 12) for second in (0.001, 0.5, 59.999)]
    made = {
        c: write_record(offline_record(created=c, kernel=kernel), tmp_path)
        for c, kernel in zip(reversed(created), "zyxwvutsr", strict=True)
    }
    assert records(tmp_path) == [made[c] for c in created]


def test_there_are_no_records_where_none_was_written_and_other_files_are_none(tmp_path):
    assert records(tmp_path) == []
    write_peak(tmp_path, "GPU-1", "bfloat16", Peak("here", 1, 1))
    path = write_record(record(), tmp_path)
    (path.parent / "notes.txt").write_text("")
    assert records(tmp_path) == [path]


@pytest.mark.parametrize("label", ["m=1,k=2", "a/b", "../../etc", "x y", "größe", "k=" + "9" * 400, "m=1.5"], ids=lambda s: s[:9])
def test_any_label_makes_a_file_name_inside_the_folder(tmp_path, label):
    path = write_record(offline_record(workload=Workload(label, {"m": 1})), tmp_path)
    assert path.parent == tmp_path / "records"
    assert read_record(path).workload.label == label
    assert path.name.isascii()


def test_a_relative_folder_is_taken_from_where_the_work_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_record(record(), Path("out")).is_relative_to(tmp_path)


# ----------------------------------------------------------------------------------------------- peaks


def test_a_peak_is_kept_by_card_and_dtype(tmp_path):
    peak = Peak("measured here", 812.5, 4.1)
    write_peak(tmp_path, "GPU-1", "bfloat16", peak)
    assert read_peak(tmp_path, "GPU-1", "bfloat16") == peak
    assert read_peak(tmp_path, "GPU-1", "float32") is None
    assert read_peak(tmp_path, "GPU-2", "bfloat16") is None


@pytest.mark.parametrize("data", ["", "{", "[]", '{"source": "x"}', '{"source": "x", "tflops": "fast", "tb_per_s": 1}', "\0" * 9])
def test_a_peak_that_cannot_be_read_is_none_so_that_it_is_measured_again(tmp_path, data):
    path = write_peak(tmp_path, "GPU-1", "bfloat16", Peak("x", 1, 1))
    path.write_text(data)
    assert read_peak(tmp_path, "GPU-1", "bfloat16") is None


def test_the_derived_answers_are_not_stored_so_that_they_cannot_disagree(tmp_path):
    data = json.loads(write_record(record(), tmp_path).read_text())
    assert not {"passed", "failed", "findings"} & {*data, *data["verification"], *data["verification"]["outputs"][0]}
    assert not {"median", "median_us", "spread"} & set(data["timing"])


def test_a_record_holds_the_artifact_and_every_sample(tmp_path):
    before = record(times={"add": [[1.5, 2.5], [3.5]]}, artifact=artifact(tunables={"bn": 64}), workload=workload(m=3))
    data = json.loads(write_record(before, tmp_path).read_text())
    assert [s["us"] for s in data["timing"]["samples"]] == [1.5, 2.5, 3.5]
    assert (data["artifact"]["tunables"], data["workload"]["params"]["m"]) == ({"bn": 64}, 3)
    assert replace(before, timing=timing({"add": [[1.5, 2.5], [3.5]]})) == before


def test_an_innermost_object_is_one_line_so_that_a_sample_is_one(tmp_path):
    before = record(times={"add": [[1.5, 2.5], [3.5, 4.5]]})
    lines = write_record(before, tmp_path).read_text().splitlines()
    samples = [json.loads(line.strip().rstrip(",")) for line in lines if '"us":' in line]
    assert samples == to_plain(before.timing.samples)
    assert sum('"sm_clock_mhz"' in line for line in lines) == len(before.timing.states)
    assert "{" in lines and len(lines) > 20, "what holds others is not"


@pytest.mark.parametrize("text", ["{", "}", "{ }", "a {b} [c]", "new\nline", '"', "\u2028", "{\n  }"])
def test_text_with_brackets_and_line_ends_is_kept_as_it_was(tmp_path, text):
    before = offline_record(environment={"git": {"message": text, text: 1}}, command=text)
    assert read_record(write_record(before, tmp_path)) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"noise_floor": "x"}', '{"noise_floor": -1}', '{"noise_floor": null}'])
def test_a_noise_floor_is_kept_by_card_and_policy_and_one_that_cannot_be_read_is_none(tmp_path, text):
    cold, warm = TimingPolicy(), TimingPolicy(cache="warm")
    path = write_noise_floor(tmp_path, "GPU-1", cold, 0.002)
    assert read_noise_floor(tmp_path, "GPU-1", cold) == 0.002
    assert read_noise_floor(tmp_path, "GPU-1", warm) is read_noise_floor(tmp_path, "GPU-2", cold) is None
    path.write_text(text)
    assert read_noise_floor(tmp_path, "GPU-1", cold) is None


def event(**changes):
    return TimingPolicy(**{"timer": "event", "cache": "warm", **changes})


def test_what_changes_a_time_parts_the_noise_floors(tmp_path):
    unlike = [
        TimingPolicy(), TimingPolicy(flush="discard"), TimingPolicy(timer="event"), TimingPolicy(timer="event", gate=True),
        event(), event(gate=True), event(calls=2), event(calls=20), event(calls=20, gate=True), event(calls=20, cache="rotate"),
        event(timer="graph", calls=20),
    ]  # fmt: skip
    paths = [write_noise_floor(tmp_path, "GPU-1", policy, n / 1000) for n, policy in enumerate(unlike)]
    assert len(set(paths)) == len(unlike) and {path.parent for path in paths} == {tmp_path / "peaks"}
    assert [read_noise_floor(tmp_path, "GPU-1", policy) for policy in unlike] == [n / 1000 for n in range(len(unlike))]


def test_a_floor_of_one_call_is_none_of_many_and_that_of_a_gate_none_without(tmp_path):
    for policy in (event(calls=20), event(gate=True), TimingPolicy(flush="discard")):
        write_noise_floor(tmp_path, "GPU-1", policy, 0.002)
    assert read_noise_floor(tmp_path, "GPU-1", event()) is read_noise_floor(tmp_path, "GPU-1", TimingPolicy()) is None


def test_budgets_and_a_flush_that_evicts_nothing_part_no_noise_floors(tmp_path):
    write_noise_floor(tmp_path, "GPU-1", event(), 0.002)
    for same in (event(flush="discard"), event(rounds=40), event(precision=0.1), event(seed=3), event(max_time_s=1)):
        assert read_noise_floor(tmp_path, "GPU-1", same) == 0.002
