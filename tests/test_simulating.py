"""`simulate`, `run` with it, and `assert_clean`: what a person sees."""

import importlib
import json
from pathlib import Path

import pytest

from tirx_bench import pipeline
from tirx_bench.cli import main
from tirx_bench.model import Finding, Place, Scheduled, Simulation, UsageError, Workload
from tirx_bench.render import simulation_page
from tirx_bench.testing import assert_clean

PLAN = importlib.import_module("tirx_bench.pipeline.plan")
WRONG = Path(__file__).parent / "wrong_kernels"
EARLY_RELEASE = str(WRONG / "sync_stage_released_early.py")
DEADLOCK = str(WRONG / "sync_producer_phase.py")


@pytest.fixture
def simulate(capsys, tmp_path):
    def act(*argv):
        code = main([*argv, "--out", str(tmp_path / "out")])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in argv and out else out, err

    return act


def line(path, text):
    return next(n for n, held in enumerate(Path(path).read_text().splitlines(), 1) if text in held)


def test_a_right_gemm_passes_on_a_small_shape_that_visits_every_place(simulate):
    code, found, _ = simulate("simulate", "gemm", "--schedules", "1", "--json")
    assert code == 0 and found["passed"] and found["findings"] == []
    assert [run["schedule"] for run in found["runs"]] == [
        "late", "early", "copies early, wgmma late", "copies late, wgmma early", "seed 1",
    ]  # fmt: skip
    assert found["unvisited"] == [] and found["unwrapped"] == []
    assert found["workload"]["params"]["m"] == 200 and found["tunables"]["sms"] == 2
    assert len(found["operations"]) > 15 and set(found["conformant"]) <= set(found["operations"])


def test_a_race_that_no_gpu_showed_is_found_under_every_schedule_with_both_lines(simulate):
    code, text, _ = simulate("simulate", EARLY_RELEASE, "--schedules", "0")
    assert code == 1
    assert f"sync_stage_released_early.py:{line(EARLY_RELEASE, 'multiply(acc, a_desc[0] + offset')}" in text
    assert "error[race] WAR: the copy overwrites what may still be read" in text
    assert "missing: a wgmma.wait_group of all four warps" in text and "under every schedule" in text
    assert simulate("simulate", EARLY_RELEASE, "--param", "faulty=false", "--schedules", "0")[0] == 0


def test_a_failing_seeded_schedule_is_replayed_by_its_shortest_choices(simulate):
    code, found, _ = simulate("simulate", DEADLOCK, "--schedules", "1", "--json")
    (seeded,) = [run for run in found["runs"] if run["schedule"] == "seed 1"]
    assert code == 1 and {f["rule"] for f in seeded["findings"]} == {"deadlock"}
    choices = ",".join(map(str, seeded["choices"])) or "0"
    code, again, _ = simulate("simulate", DEADLOCK, "--replay", choices, "--json")
    assert code == 1 and [run["schedule"] for run in again["runs"]] == ["the given choices"]
    assert {f["rule"] for f in again["findings"]} == {"deadlock"}


@pytest.mark.parametrize(
    "argv, said",
    [
        (("--schedules", "-1"), "-1 schedules are none"),
        (("--replay", "1,x"), "'1,x' are no choices"),
        (("--workload", "nonesuch"), "nonesuch"),
    ],
)
def test_what_makes_no_sense_is_refused(simulate, argv, said):
    code, _, err = simulate("simulate", "gemm", *argv)
    assert code == 2 and said in err


def test_another_architecture_is_missing_and_not_guessed(simulate):
    code, _, err = simulate("simulate", "warp_roles", "--arch", "sm_100a")
    assert code == 3 and "sm_90a, not sm_100a" in err


def test_explain_says_what_was_visited_and_used(simulate):
    code, text, _ = simulate("simulate", "warp_roles", "--explain")
    assert code == 0
    assert "1 cuda.cta_sync" in text and "seed 3: right numbers, 0 findings" in text


def test_elements_that_are_never_stored_are_told(simulate):
    code, found, _ = simulate("simulate", str(WRONG / "boundary_grid_rounds_down.py"), "--schedules", "0", "--json")
    assert code == 1 and found["findings"][0]["message"] == "232 of 1000 elements of out are never stored, the first at [768]"
    right = str(WRONG / "epilogue_residual_lost.py")
    code, found, _ = simulate("simulate", right, "--param", "faulty=false", "--schedules", "0", "--json")
    assert code == 0 and found["findings"] == [], "an argument that is changed in place may be"


# --------------------------------------------------------------------------------------------------- run


def test_a_run_without_a_gpu_verifies_in_the_simulator_and_says_so(simulate, monkeypatch):
    monkeypatch.setattr(PLAN, "absent", lambda: "there is no CUDA device: none")
    monkeypatch.setattr(PLAN, "present_arch", lambda index=0: "")
    code, record, _ = simulate("run", "warp_roles", "--json")
    assert code == 0 and len(record["simulation"]["runs"]) == 7
    assert record["left_out"][0].startswith("numerics and timing: there is no CUDA device")
    code, page, _ = simulate("run", "warp_roles")
    assert "simulation   passed: 256, 7 schedules in" in page and "ops used: 1 conformant on H200, 0 unverified" in page
    assert simulate("run", "warp_roles", "--no-simulate", "--json")[1]["simulation"] is None


def test_a_kernel_that_would_hang_is_not_launched(simulate, monkeypatch):
    from tirx_bench.pipeline import child

    monkeypatch.setattr(pipeline, "why_not_here", lambda arch, index: "")
    monkeypatch.setattr(child.GpuProcess, "__init__", lambda self, *_: None)
    monkeypatch.setattr(child.GpuProcess, "__enter__", lambda self: self)
    monkeypatch.setattr(child.GpuProcess, "__exit__", lambda self, *_: None)
    monkeypatch.setattr(child.GpuProcess, "perform", lambda *a: pytest.fail("it was launched"))
    code, record, err = simulate("run", DEADLOCK, "--json")
    assert code == 1, err
    assert "the simulator found a deadlock, waits for" in record["left_out"][0]
    assert "--no-simulate launches it all the same" in record["left_out"][0]


def test_a_run_of_a_kernel_without_a_reference_leaves_the_simulation_out(simulate, monkeypatch):
    def refuse(*_):
        raise UsageError("warp_roles follows another protocol, which has no reference")

    monkeypatch.setattr("tirx_bench.pipeline.simulating.prepare", refuse)
    code, record, _ = simulate("run", "warp_roles", "--json")
    assert code == 0 and record["simulation"] is None
    assert record["left_out"][0] == "simulation: warp_roles follows another protocol, which has no reference"
    assert simulate("simulate", "warp_roles")[0] == 2


def test_what_the_simulator_does_not_model_is_left_out_of_a_run(simulate, monkeypatch):
    from tirx_bench.simulate import UnsupportedError

    def refuse(*_):
        raise UnsupportedError("the intrinsic ptx.nonesuch")

    monkeypatch.setattr("tirx_bench.simulate.Simulator", refuse)
    code, record, _ = simulate("run", "warp_roles", "--json")
    assert record["simulation"] is None
    assert record["left_out"][0] == "simulation: the simulator does not model the intrinsic ptx.nonesuch"
    code, _, err = simulate("simulate", "warp_roles")
    assert code == 3 and "ptx.nonesuch" in err


# ------------------------------------------------------------------------------------------------ testing


def test_assert_clean_passes_a_right_kernel_and_fails_with_the_report(tmp_path):
    assert_clean("warp_roles", schedules=0)
    with pytest.raises(AssertionError, match="deadlock"):
        assert_clean(DEADLOCK, schedules=0)
    assert_clean(DEADLOCK, "m=512", schedules=0, faulty=False)
    with pytest.raises(UsageError):
        assert_clean(tmp_path / "nothing.py")


# ----------------------------------------------------------------------------------------------- findings


def found(rule, schedule, line=3, witness=("in block 0 warp 1",)):
    return Scheduled(schedule, (Finding(rule, "error", "said", Place("k.py", line), "", witness),), False, 0.1)


def test_a_finding_of_several_schedules_is_one_and_says_where_it_was_seen():
    side = "the other side: k.py:9 x = 1"
    runs = (
        found("race", "late", witness=("in block 0 warp 1", side)),
        found("race", "early", witness=("in block 3 warp 2", side)),
        found("race", "seed 1", line=4),
    )
    simulation = Simulation(Workload("w", {}), {}, runs, None)
    assert [f.witness[-1] for f in simulation.findings] == ["under late, early", "under seed 1"]
    assert not simulation.passed and "FAILED" in simulation_page("k", simulation)


def test_an_mbarrier_that_hardly_wrapped_is_told():
    simulation = Simulation(Workload("w", {}), {}, (), None, statements=5, unvisited=("k.py:7 if x:",), unwrapped=("full[0]",))
    page = simulation_page("k", simulation, explain=True)
    assert "4 of 5 places" in page and "not: k.py:7 if x:" in page and "fewer than three phases of full[0]" in page
