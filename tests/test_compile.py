"""Compile to a complete artifact folder, or to nothing: with the real compilers, and with an nvcc that goes wrong."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tirx_bench import tools
from tirx_bench.compile import build_functions, check_request, compile_functions, cubin, folder
from tirx_bench.compile.lower import Launch, lower
from tirx_bench.model import FailedError, Kernel, MissingError, Params, Tolerance, UsageError, WorkbenchError, Workload


def make(kernel, out, workload=None, arch="sm_90a", tunables: Params | None = None, **options):
    workload = workload or kernel.workloads[0]
    functions = build_functions(kernel, kernel.params(workload, tunables))
    return compile_functions(functions, kernel, workload, arch=arch, out=Path(out), tunables=tunables or {}, **options)


def kernel_of(build, **changes):
    return Kernel(**{
        "name": "small", "archs": ("sm_90a", "sm_90"), "workloads": (Workload("256", {"n": 256}),), "build": build,
        "inputs": lambda n, rng: {}, "outputs": lambda n: {}, "reference": dict, "tolerance": Tolerance(0, 0), "work": None,
        **changes,
    })  # fmt: skip


def left(out):
    """Everything under a folder of artifacts but the kernels' folders themselves."""
    return sorted(p.name for p in Path(out).glob("*/*")) if Path(out).is_dir() else []


def copied(artifact, out):
    """The artifact's folder again, where a compile into `out` looks for it."""
    place = Path(out, artifact.kernel, Path(artifact.folder).name)
    shutil.copytree(artifact.folder, place)
    return place


def line_table_files(path):
    """Every file that .debug_line names. The parser is called on the section itself: a cubin has no .debug_info."""
    with Path(path).open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        header = dwarf._parse_line_program_at_offset(0, dwarf.structs).header
    folders = [f.decode() for f in header.include_directory]
    return {Path(folders[f.dir_index - 1], f.name.decode()) for f in header.file_entry}


@pytest.fixture(scope="module")
def by_nvrtc(roles, tmp_path_factory):
    return make(roles, tmp_path_factory.mktemp("nvrtc"), compiler="nvrtc")


@pytest.fixture(params=["nvcc", "nvrtc"])
def either(request):
    """An artifact by each compiler."""
    return request.getfixturevalue({"nvcc": "artifact", "nvrtc": "by_nvrtc"}[request.param])


@pytest.fixture
def no_tools(tmp_path, monkeypatch):
    """A machine without CUDA: nothing on PATH, no CUDA_HOME, no wheels."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "nvidia" else find_spec(name, *rest))
    for name in ("CUDA_HOME", "CUDA_PATH", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


# ------------------------------------------------------------------------------------- a whole artifact


def test_an_artifact_is_six_files_and_a_value_that_reads_back(either):
    assert sorted(p.name for p in Path(either.folder).iterdir()) == [
        "kernel.cu", "kernel.cubin", "kernel.ptx", "kernel.sass", "manifest.json", "ptxas.txt",
    ]  # fmt: skip
    assert folder.read(Path(either.folder)) == either
    assert left(Path(either.folder).parents[1]) == [Path(either.folder).name]


def test_an_artifact_says_what_was_compiled_and_what_it_takes(either):
    assert (either.kernel, either.workload, either.arch) == ("warp_roles", Workload("256", {"n": 256}), "sm_90a")
    (taken,) = either.resources
    assert (taken.function, taken.threads, taken.grid, taken.cluster) == ("warp_roles_kernel", 64, (1, 1, 1), (1, 1, 1))
    assert (taken.static_smem_bytes, taken.dynamic_smem_bytes, taken.barriers) == (1024, 0, 1)
    assert 0 < taken.registers < 32 and not taken.spill_store_bytes and not taken.stack_bytes
    assert either.findings == () and not either.instrumented and either.environment == {}


def test_an_artifact_names_its_compiler(artifact, by_nvrtc):
    assert re.fullmatch(r"nvcc \d+\.\d+\.\d+", artifact.compiler)
    assert re.fullmatch(r"nvrtc \d+\.\d+", by_nvrtc.compiler)


def test_the_notes_of_the_compiler_are_ptxas_alone(either):
    lines = Path(either.folder, "ptxas.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith(("ptxas", "    "))] == []


def test_every_file_in_the_line_table_exists(either):
    files = line_table_files(Path(either.folder, "kernel.cubin"))
    assert Path(either.folder, "kernel.cu") in files
    assert [str(f) for f in files if not f.is_file()] == []
    markers = set(re.findall(r'//## File "([^"]+)"', Path(either.folder, "kernel.sass").read_text()))
    assert str(Path(either.folder, "kernel.cu")) in markers
    assert [f for f in markers if not Path(f).is_file()] == []


def test_the_ptx_names_the_final_folder_and_no_file_names_the_staging_folder(either):
    place = Path(either.folder)
    named = re.findall(r'^\t\.file\t\d+ "([^"]+)"', (place / "kernel.ptx").read_text(), re.MULTILINE)
    assert str(place / "kernel.cu") in named
    for file in place.iterdir():
        assert f"/.{place.name}.".encode() not in file.read_bytes(), file.name


def test_the_command_of_the_manifest_builds_the_same_code(either, tmp_path):
    shutil.copy(Path(either.folder, "kernel.cu"), tmp_path)
    done = tools.run(either.command, cwd=tmp_path)
    assert done.returncode == 0, done.output
    assert cubin.code_hash((tmp_path / "kernel.cubin").read_bytes()) == either.code_hash


def test_another_folder_gives_other_bytes_and_the_same_code(roles, artifact, tmp_path):
    """Through a link, too: nvcc names the real folder, and the line tables must name the artifact's."""
    (tmp_path / "a real folder").mkdir()
    (tmp_path / "link").symlink_to("a real folder")
    other = make(roles, tmp_path / "link")
    assert other.code_hash == artifact.code_hash and Path(other.folder).name == Path(artifact.folder).name
    assert Path(other.folder, "kernel.cubin").read_bytes() != Path(artifact.folder, "kernel.cubin").read_bytes()
    assert Path(other.folder, "kernel.cu") in line_table_files(Path(other.folder, "kernel.cubin"))
    test_every_file_in_the_line_table_exists(other)
    test_the_ptx_names_the_final_folder_and_no_file_names_the_staging_folder(other)


def test_blackwell_compiles_too(roles, tmp_path):
    made = make(roles, tmp_path, arch="sm_100a")
    assert made.resources[0].function == "warp_roles_kernel" and made.findings == ()
    assert ".target sm_100a" in Path(made.folder, "kernel.ptx").read_text()
    assert "\t.target\tsm_100a" in Path(made.folder, "kernel.sass").read_text()


def build_pair(n):
    from tvm.script import tirx as T

    @T.prim_func
    def add(x: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([n // 128])
        thread = T.thread_id([128])
        x[block * 128 + thread] = x[block * 128 + thread] + T.float32(1)

    @T.prim_func
    def scale(x: T.Buffer((n,), "float32")):
        T.device_entry()
        block = T.cta_id([n // 64])
        thread = T.thread_id([64])
        x[block * 64 + thread] = x[block * 64 + thread] * T.float32(2)

    return {"add": add, "scale": scale}


def test_two_functions_become_one_cubin_with_the_resources_of_both_in_launch_order(tmp_path):
    made = make(kernel_of(build_pair, name="pair", launch=("scale", "add")), tmp_path)
    assert [(r.function, r.grid, r.threads) for r in made.resources] == [
        ("scale_kernel", (4, 1, 1), 64),
        ("add_kernel", (2, 1, 1), 128),
    ]
    assert all(r.registers for r in made.resources)
    with Path(made.folder, "kernel.cubin").open("rb") as file:
        names = {s.name for s in ELFFile(file).iter_sections() if s.name.startswith(".text.")}
    assert names == {".text.scale_kernel", ".text.add_kernel"}


def build_setmaxnreg(n):
    from tvm.script import tirx as T

    @T.prim_func
    def take(x: T.Buffer((n,), "float32")):
        T.device_entry()
        T.cta_id([1])
        thread = T.thread_id([128])
        T.ptx["setmaxnreg.inc.sync.aligned.u32"](232)
        x[thread] = T.float32(2)

    return take


def test_code_that_the_target_lacks_is_refused_with_the_words_of_ptxas_and_leaves_nothing(tmp_path):
    with pytest.raises(FailedError) as caught:
        make(kernel_of(build_setmaxnreg), tmp_path, arch="sm_90")
    first, second, *_ = caught.value.message.splitlines()
    assert first.startswith("nvcc ") and first.endswith("refused the generated CUDA:")
    assert "setmaxnreg.inc' not supported on .target 'sm_90'" in second
    assert "sm_90a" in caught.value.hint
    assert left(tmp_path) == []


# -------------------------------------------------------------------------------------- its identity


def test_a_second_compile_takes_the_folder_and_runs_no_compiler(roles, tmp_path, fake_nvcc, replay):
    log = fake_nvcc(replay)
    first = make(roles, tmp_path / "out")
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["-ptx", "-cubin"]
    stamps = {p: p.stat().st_mtime_ns for p in Path(first.folder).iterdir()}
    assert make(roles, tmp_path / "out") == first
    assert len(log.read_text().splitlines()) == 2
    assert {p: p.stat().st_mtime_ns for p in Path(first.folder).iterdir()} == stamps


def test_the_folder_is_named_by_everything_that_makes_the_code(roles, artifact, by_nvrtc, tmp_path, fake_nvcc, replay):
    fake_nvcc(replay)
    names = [Path(a.folder).name for a in (
        artifact, by_nvrtc, make(roles, tmp_path), make(roles, tmp_path, flags=("-G",)),
        make(roles, tmp_path, flags=("-G", "-g")), make(roles, tmp_path, arch="sm_100a"), make(roles, tmp_path / "other"),
    )]  # fmt: skip
    nvcc, nvrtc, again, one_flag, two_flags, blackwell, elsewhere = names
    assert nvcc == again == elsewhere
    assert len({nvcc, nvrtc, one_flag, two_flags, blackwell}) == 5


def test_a_flag_reaches_the_compiler_and_the_manifest(roles, tmp_path, fake_nvcc, replay):
    log = fake_nvcc(replay)
    made = make(roles, tmp_path / "out", flags=("-maxrregcount=32",))
    assert all("-maxrregcount=32" in line for line in log.read_text().splitlines())
    assert "-maxrregcount=32" in made.command


def test_problems_with_the_same_text_do_not_share_a_folder(roles, tmp_path, fake_nvcc, replay):
    """The text of warp_roles is the same for two sizes, and the grid is not."""
    fake_nvcc(replay)
    small, large = (Workload(str(n), {"n": n}) for n in (512, 1024))
    texts = {lower(build_functions(roles, w.params), "sm_90a").cuda for w in (small, large)}
    assert len(texts) == 1
    first, second = make(roles, tmp_path, small), make(roles, tmp_path, large)
    assert (first.resources[0].grid, second.resources[0].grid) == ((2, 1, 1), (4, 1, 1))
    assert (first.workload, second.workload) == (small, large)
    assert first.source_sha256 == second.source_sha256


def test_tunables_are_recorded_with_their_defaults_also_where_they_do_not_change_the_text(roles, tmp_path, fake_nvcc, replay):
    fake_nvcc(replay)
    tunable = replace(roles, tunables={"depth": 2, "width": 1})
    assert make(tunable, tmp_path).tunables == {"depth": 2, "width": 1}
    assert make(tunable, tmp_path, tunables={"depth": 3}).tunables == {"depth": 3, "width": 1}


def test_variables_that_change_code_are_recorded_and_change_the_folder(roles, artifact, tmp_path, fake_nvcc, replay, monkeypatch):
    log = fake_nvcc(replay)
    monkeypatch.setenv("TVM_CUDA_PTXAS_REG_LEVEL", "5")
    made = make(roles, tmp_path / "out")
    assert made.environment == {"TVM_CUDA_PTXAS_REG_LEVEL": "5"}
    assert "--register-usage-level=5" in log.read_text()
    assert Path(made.folder).name != Path(artifact.folder).name


def test_variables_that_only_say_where_to_look_or_log_are_not_recorded(roles, artifact, tmp_path, fake_nvcc, replay, monkeypatch):
    fake_nvcc(replay)
    for name in ("TVM_KERNEL_DUMP", "TVM_NUM_THREADS", "TVM_LOG_DEBUG", "TVM_FFI_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    made = make(roles, tmp_path / "out")
    assert made.environment == {} and Path(made.folder).name == Path(artifact.folder).name


def test_a_variable_that_nobody_knows_is_refused(roles, tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_NEW_CODEGEN", "1")
    with pytest.raises(UsageError, match="TVM_NEW_CODEGEN may change the code"):
        make(roles, tmp_path)
    with pytest.raises(UsageError, match="TVM_NEW_CODEGEN"):
        check_request(roles, roles.workloads[0], {}, "sm_90a", "nvcc")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": "hopper"}, "'hopper' is not an architecture"),
        ({"arch": "sm_80"}, "unknown architecture for warp_roles 'sm_80'"),
        ({"compiler": "clang"}, "unknown compiler 'clang'"),
        ({"tunables": {"bn": 1}}, "unknown tunable of warp_roles 'bn'"),
        ({"workload": Workload("wrong", {"n": 3})}, "a block takes 256 elements"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_early(roles, change, message):
    request = {"workload": roles.workloads[0], "tunables": {}, "arch": "sm_90a", "compiler": "nvcc", **change}
    with pytest.raises(UsageError, match=re.escape(message)):
        check_request(roles, **request)


# -------------------------------------------------------------------------------------------- damage


def cut_manifest(place):
    text = (place / "manifest.json").read_text()
    (place / "manifest.json").write_text(text[: len(text) // 2])


def change_manifest(**changes):
    def change(place):
        data = json.loads((place / "manifest.json").read_text())
        (place / "manifest.json").write_text(json.dumps({**data, **changes}))

    return change


def foreign_cubin(place):
    """One bit of an instruction is another: another kernel's code in a file of the same size."""
    data = bytearray((place / "kernel.cubin").read_bytes())
    with (place / "kernel.cubin").open("rb") as file:
        at = ELFFile(file).get_section_by_name(".text.warp_roles_kernel")["sh_offset"]
    data[at + 3] ^= 1
    (place / "kernel.cubin").write_bytes(data)


DAMAGE = {
    "the manifest is cut short": (cut_manifest, "cut short or not JSON"),
    "the manifest is empty": (lambda p: (p / "manifest.json").write_text(""), "cut short or not JSON"),
    "the manifest is not text": (lambda p: (p / "manifest.json").write_bytes(b"\xff\xfe"), "cut short or not JSON"),
    "the manifest is a list": (lambda p: (p / "manifest.json").write_text("[]"), "not of format 1"),
    "the format is newer": (change_manifest(format=2), "not of format 1"),
    "a field is unknown": (change_manifest(author="me"), "'author'"),
    "a field has another type": (change_manifest(arch=90), "arch should be a str"),
    "the cubin is foreign": (foreign_cubin, "not the one that its manifest describes"),
    "the cubin is cut short": (lambda p: os.truncate(p / "kernel.cubin", 100), "not a cubin"),
    "the cubin is empty": (lambda p: (p / "kernel.cubin").write_bytes(b""), "not a cubin"),
    "the cubin is text": (lambda p: (p / "kernel.cubin").write_text("!<arch>"), "not a cubin"),
    "the source was edited": (lambda p: (p / "kernel.cu").write_text("int x;"), "not the text that was compiled"),
    "the folder is empty": (lambda p: [f.unlink() for f in p.iterdir()], "kernel.cu, kernel.ptx"),
    **{f"{name} is missing": (lambda p, name=name: (p / name).unlink(), f"{name} missing") for name in folder.FILES},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_named_with_its_fault_and_mended_by_the_next_compile(
    name, roles, artifact, tmp_path, fake_nvcc, replay
):
    damage, message = DAMAGE[name]
    place = copied(artifact, tmp_path / "out")
    damage(place)
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        folder.read(place)
    assert str(place) in caught.value.message and "compile it again" in caught.value.hint
    fake_nvcc(replay)
    mended = make(roles, tmp_path / "out")
    assert mended == replace(artifact, folder=str(place), command=mended.command)
    assert left(tmp_path / "out") == [place.name]


def test_what_is_no_artifact_folder_at_all_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not a complete artifact"):
        folder.read(tmp_path / "nowhere")


def test_an_artifact_that_was_moved_says_where_it_is_now(artifact, tmp_path):
    place = copied(artifact, tmp_path)
    assert folder.read(place) == replace(artifact, folder=str(place))


def test_whatever_is_wrong_with_a_cubin_it_is_refused_or_has_another_code(artifact):
    """Cut at many lengths, and with a byte of its headers changed: never another error, and never the same hash cut."""
    data = Path(artifact.folder, "kernel.cubin").read_bytes()
    for size in range(0, len(data), 97):
        with suppress(UsageError):
            assert cubin.code_hash(data[:size]) != artifact.code_hash
    for at in [*range(64), *range(len(data) - 1200, len(data), 5)]:
        changed = bytearray(data)
        changed[at] ^= 0xFF
        with suppress(UsageError):
            cubin.code_hash(bytes(changed))


def test_two_processes_that_mend_one_folder_do_not_take_away_what_the_other_made(roles, artifact, tmp_path, fake_nvcc, replay):
    """The other one publishes while this one is still building its own."""
    place = copied(artifact, tmp_path / "out")
    cut_manifest(place)
    fake_nvcc(replay)
    with folder.staged(place) as ours:
        shutil.copytree(artifact.folder, ours, dirs_exist_ok=True)
        make(roles, tmp_path / "out")
        before = place.stat().st_ino
    assert place.stat().st_ino == before  # the first complete folder stays
    assert left(tmp_path / "out") == [place.name]


def test_many_that_mend_one_folder_at_once_all_end_well(artifact, tmp_path):
    place = copied(artifact, tmp_path)
    cut_manifest(place)
    start, wrong = threading.Barrier(8), []

    def mend():
        try:
            with folder.staged(place) as staging:
                shutil.copytree(artifact.folder, staging, dirs_exist_ok=True)
                start.wait()
            folder.read(place)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=mend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and left(tmp_path) == [place.name]


# ------------------------------------------------------------------------------ several, and killed ones


def command(out, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "tirx_bench", "compile", "warp_roles", "--arch", "sm_90a", "--out", str(out)],
        env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)
    return path.read_text()


def test_two_processes_that_compile_the_same_at_once_end_well_with_one_folder(tmp_path, artifact, fake_nvcc, replay):
    """Each nvcc waits until the other one runs."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    log = fake_nvcc(f"touch {meeting}/$$; until [ $(ls {meeting} | wc -l) -ge 2 ]; do sleep 0.02; done\n{replay}")
    both = [command(tmp_path / "out") for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(log.read_text().splitlines()) == 4  # both did build
    assert left(tmp_path / "out") == [Path(artifact.folder).name]
    assert folder.read(tmp_path / "out" / "warp_roles" / Path(artifact.folder).name).code_hash == artifact.code_hash


def test_a_terminated_compile_leaves_nothing_and_what_a_killed_one_leaves_is_swept(
    roles, artifact, tmp_path, fake_nvcc, replay, monkeypatch
):
    fake_nvcc('echo half > kernel.ptx; echo $$ > "$STARTED.new"; mv "$STARTED.new" "$STARTED"; exec sleep 100')
    ends = {signal.SIGTERM: tmp_path / "terminated", signal.SIGKILL: tmp_path / "killed"}
    running = {end: command(out, STARTED=f"{out}.pid") for end, out in ends.items()}
    compilers = {end: int(wait_for(Path(f"{out}.pid"), running[end])) for end, out in ends.items()}
    for end, process in running.items():
        process.send_signal(end)
    outputs = {end: process.communicate()[0] for end, process in running.items() if end == signal.SIGTERM}
    running[signal.SIGKILL].wait()

    assert running[signal.SIGTERM].returncode == 130 and outputs[signal.SIGTERM].strip().endswith("interrupted")
    assert left(ends[signal.SIGTERM]) == []
    with pytest.raises(ProcessLookupError):
        os.kill(compilers[signal.SIGTERM], 0)  # its compiler ended with it

    os.kill(compilers[signal.SIGKILL], signal.SIGKILL)
    (leftover,) = left(ends[signal.SIGKILL])
    assert leftover.startswith(".")
    fake_nvcc(replay)
    made = make(roles, ends[signal.SIGKILL])
    assert left(ends[signal.SIGKILL]) == [Path(made.folder).name]


def test_the_sweep_spares_what_a_living_process_builds(roles, tmp_path, fake_nvcc, replay):
    living = tmp_path / "out" / "warp_roles" / f".0123456789abcdef.{os.getpid()}.abcdefgh"
    living.mkdir(parents=True)
    fake_nvcc(replay)
    make(roles, tmp_path / "out")
    assert living.is_dir()


# --------------------------------------------------------------------------------- what is missing or broken


def test_without_nvcc_the_message_says_how_to_get_one(roles, tmp_path, no_tools):
    with pytest.raises(MissingError, match="nvcc was not found") as caught:
        make(roles, tmp_path)
    assert caught.value.exit_code == 3 and "pip install 'cuda-toolkit[nvcc,cccl]'" in caught.value.hint
    assert left(tmp_path) == []


def test_without_a_host_compiler_the_message_says_so(roles, tmp_path, no_tools, fake_nvcc):
    fake_nvcc("exit 1")
    with pytest.raises(MissingError, match="C\\+\\+ host compiler") as caught:
        make(roles, tmp_path / "out")
    assert "g++" in caught.value.hint


def test_without_nvrtc_the_message_names_the_other_compiler(roles, tmp_path, no_tools):
    with pytest.raises(MissingError, match="NVRTC is not installed") as caught:
        make(roles, tmp_path, compiler="nvrtc")
    assert caught.value.exit_code == 3 and "--compiler nvcc" in caught.value.hint


def test_without_the_cuda_headers_nvrtc_says_so(roles, tmp_path, no_tools, monkeypatch):
    library = tmp_path / "cuda" / "lib64" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    with pytest.raises(MissingError, match="CUDA headers"):
        make(roles, tmp_path, compiler="nvrtc")


def test_without_nvdisasm_nothing_is_left(roles, tmp_path, fake_nvcc, no_tools, monkeypatch):
    fake_nvcc("echo text > kernel.ptx; echo text > kernel.cubin")
    monkeypatch.setenv("NVCC_CCBIN", "g++")
    with pytest.raises(MissingError, match="nvdisasm was not found"):
        make(roles, tmp_path / "out")
    assert left(tmp_path / "out") == []


def refused(roles, out) -> WorkbenchError:
    with pytest.raises(FailedError) as caught:
        make(roles, out)
    assert left(out) == []
    return caught.value


def test_a_refusal_shows_the_message_of_the_compiler_first_and_not_the_source(roles, tmp_path, fake_nvcc):
    fake_nvcc("cat kernel.cu; cat kernel.cu >&2; echo 'kernel.cu(12): error: expected a \";\"' >&2; exit 2")
    error = refused(roles, tmp_path / "out")
    assert error.message == 'nvcc 13.0.88 refused the generated CUDA:\nkernel.cu(12): error: expected a ";"'


def test_a_refusal_without_the_word_error_shows_what_there_is(roles, tmp_path, fake_nvcc):
    fake_nvcc("echo 'gcc: not found' >&2; exit 1")
    assert refused(roles, tmp_path / "out").message.endswith("\ngcc: not found")


def test_an_architecture_that_the_compiler_is_too_old_for_is_explained(roles, tmp_path, fake_nvcc):
    fake_nvcc("echo \"nvcc fatal   : Unsupported gpu architecture 'compute_90a'\" >&2; exit 1")
    assert "newer CUDA toolkit" in refused(roles, tmp_path / "out").hint


@pytest.mark.parametrize("step", ["-ptx", "-cubin"])
def test_a_compiler_that_is_killed_half_way_leaves_nothing(step, roles, tmp_path, fake_nvcc, replay):
    fake_nvcc(f'if [ "$1" = {step} ]; then echo half > kernel.ptx; echo half > kernel.cubin; kill -9 $$; fi\n{replay}')
    assert "nvcc 13.0.88 was killed by signal 9" in refused(roles, tmp_path / "out").message


@pytest.mark.parametrize("step", ["-ptx", "-cubin"])
def test_a_compiler_that_writes_nothing_is_named(step, roles, tmp_path, fake_nvcc, replay):
    fake_nvcc(f'if [ "$1" = {step} ]; then exit 0; fi\n{replay}')
    assert f"wrote no kernel.{step[1:]}" in refused(roles, tmp_path / "out").message


def test_a_compiler_that_writes_what_is_no_cubin_leaves_nothing(roles, tmp_path, fake_nvcc):
    fake_nvcc("echo text > kernel.ptx; echo text > kernel.cubin")
    assert "nvdisasm cannot read the cubin" in refused(roles, tmp_path / "out").message


def unwritable(out, roles, reason):
    with pytest.raises(UsageError, match=f"cannot write .*: {reason}") as caught:
        make(roles, out)
    assert caught.value.exit_code == 2 and "--out" in caught.value.hint
    assert left(out) == []


def test_a_file_where_the_folder_should_be_is_a_usage_error(roles, tmp_path, fake_nvcc, replay):
    fake_nvcc(replay)
    (tmp_path / "file").write_text("")
    unwritable(tmp_path / "file" / "out", roles, "Not a directory")
    assert (tmp_path / "file").read_text() == ""


def test_a_read_only_folder_is_a_usage_error(roles, tmp_path, fake_nvcc, replay, monkeypatch):
    fake_nvcc(replay)

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    unwritable(tmp_path / "out", roles, "Read-only file system")


@pytest.mark.parametrize("file", ["kernel.sass", "ptxas.txt", "manifest.json"])
def test_a_full_disk_is_a_usage_error_and_leaves_nothing(file, roles, tmp_path, fake_nvcc, replay):
    fake_nvcc(f"{replay}; ln -sf /dev/full {file}")  # every write to that device says that the disk is full
    unwritable(tmp_path / "out", roles, "No space left on device")


# ------------------------------------------------------------------------------------------- the build


def build_that_raises(n):
    pitch = {}
    return pitch["m"] + n  # the line that the message names


def test_a_build_that_raises_is_named_with_its_file_and_line():
    with pytest.raises(FailedError) as caught:
        build_functions(kernel_of(build_that_raises), {"n": 256})
    line = build_that_raises.__code__.co_firstlineno + 2
    assert caught.value.message == f"the build of small raised KeyError: 'm' at {Path(__file__)}:{line}"


def test_a_build_that_raises_in_a_helper_is_named_with_the_kernels_own_line():
    def build(n):
        return json.loads("{" * n)

    with pytest.raises(FailedError, match=rf"JSONDecodeError.* at {re.escape(__file__)}:{build.__code__.co_firstlineno + 1}$"):
        build_functions(kernel_of(build), {"n": 1})


def test_a_build_that_refuses_its_parameters_keeps_its_own_error():
    def build(n):
        raise UsageError("n is odd")

    with pytest.raises(UsageError, match="^n is odd$"):
        build_functions(kernel_of(build), {"n": 3})


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "build gives a NoneType for 'main', not a PrimFunc"),
        (3, "build gives a int for 'main', not a PrimFunc"),
        ({"a": "text"}, "build gives a str for 'a', not a PrimFunc"),
    ],
)
def test_a_build_that_returns_something_else_is_refused(result, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        build_functions(kernel_of(lambda n: result), {"n": 256})


def test_a_launch_order_that_names_other_functions_is_refused():
    with pytest.raises(UsageError, match=r"build returns \['add', 'scale'\] and launch names \['scale'\]"):
        build_functions(kernel_of(build_pair, launch=("scale",)), {"n": 256})


def test_what_tvm_cannot_lower_fails_with_its_message():
    def build(n):
        from tvm.script import tirx as T

        @T.prim_func
        def twice(x: T.Buffer((n,), "float32")):
            T.device_entry()
            T.device_entry()
            thread = T.thread_id([32])
            x[thread] = T.float32(0)

        return twice

    with pytest.raises(FailedError, match=r"^TVM cannot lower the kernel for sm_90a: .*In PrimFunc twice variables"):
        lower(build_functions(kernel_of(build), {"n": 256}), "sm_90a")


def test_a_function_that_never_steps_onto_the_device_fails_and_says_how_to():
    def build(n):
        from tvm.script import tirx as T

        @T.prim_func
        def host(x: T.Buffer((n,), "float32")):
            for i in T.serial(n):
                x[i] = T.float32(0)

        return host

    with pytest.raises(FailedError, match="no code for the device from main") as caught:
        lower(build_functions(kernel_of(build), {"n": 256}), "sm_90a")
    assert "T.device_entry()" in caught.value.hint


def test_lowering_reads_every_launch_of_the_host_code():
    lowered = lower(build_functions(kernel_of(build_pair), {"n": 512}), "sm_90a")
    assert lowered.launches == (
        Launch("add_kernel", (4, 1, 1), (1, 1, 1), 128, 0),
        Launch("scale_kernel", (8, 1, 1), (1, 1, 1), 64, 0),
    )
    assert not lowered.instrumented and "TVM_COMPILE_FORCE_FALLBACK" not in os.environ


def test_the_source_hash_is_that_of_the_file(either):
    text = Path(either.folder, "kernel.cu").read_bytes()
    assert hashlib.sha256(text).hexdigest() == either.source_sha256
