"""The two teaching scripts without a GPU: options, refusals, and what the first one does with a recording torch."""

import contextlib
import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

APPENDIX = Path(__file__).parents[1] / "appendix"


def run_bare(script, *options):
    """The script in a process without site-packages, so with neither torch nor TVM."""
    command = [sys.executable, "-I", "-S", str(APPENDIX / script), *options]
    return subprocess.run(command, capture_output=True, text=True)


def load(name):
    spec = importlib.util.spec_from_file_location(name, APPENDIX / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nsys():
    return load("nsys_example")


class RecordingTorch:
    """Writes down every call that matters here; event i is at i * 0.1 ms."""

    def __init__(self, wrong=False, memory=True):
        self.log = []
        self.wrong = wrong
        self.memory = memory
        self.bfloat16 = "bfloat16"
        self.events = 0
        self.testing = types.SimpleNamespace(assert_close=self.assert_close)
        self.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace()))
        self.cuda = types.SimpleNamespace(
            OutOfMemoryError=MemoryError, is_available=lambda: True, Event=self.event,
            synchronize=lambda: self.log.append("synchronize"), nvtx=types.SimpleNamespace(range=self.range),
            cudart=lambda: types.SimpleNamespace(
                cudaProfilerStart=lambda: self.log.append("start"), cudaProfilerStop=lambda: self.log.append("stop")),
        )  # fmt: skip

    def Generator(self, device):
        return types.SimpleNamespace(manual_seed=lambda seed: self)

    def set_float32_matmul_precision(self, value):
        self.log.append(f"precision {value}")

    def randn(self, shape, **options):
        if not self.memory:
            raise MemoryError
        return Tensor(shape)

    def empty_like(self, other):
        return Tensor(other.shape)

    def mm(self, a, b, out=None):
        self.log.append("mm" if out else "reference")
        return Tensor(a.shape)

    def clamp_min(self, a, least, out):
        self.log.append("relu")

    def assert_close(self, actual, expected, rtol, atol):
        self.log.append(f"check {rtol:g} {atol:g}")
        if self.wrong:
            raise AssertionError("mismatch at (1, 2)")

    @contextlib.contextmanager
    def range(self, name):
        self.log.append(f"<{name}>")
        yield
        self.log.append(f"</{name}>")

    def event(self, enable_timing):
        event = types.SimpleNamespace()

        def record():
            self.events += 1
            event.at = self.events * 0.1 * (1 + self.events // 3)  # not evenly, so that min and max differ
            self.log.append("event")

        event.record = record
        event.elapsed_time = lambda end: end.at - event.at
        return event


class Tensor:
    dtype = "bfloat16"

    def __init__(self, shape):
        self.shape = shape

    def float(self):
        return self

    def clamp_min(self, least):
        return self

    def to(self, dtype):
        return self


OPERATION = ["<BF16 GEMM>", "mm", "</BF16 GEMM>", "<ReLU>", "relu", "</ReLU>"]
PREFLIGHT = ["precision highest", *OPERATION, "synchronize", "reference", "check 0.02 0.01"]


def test_profile_once_captures_one_operation_after_the_check_and_the_warm_up(nsys):
    nsys.torch = torch = RecordingTorch()
    assert nsys.main(["--size", "8", "--warmup-calls", "2", "--profile-once"]) == 0
    warm_up = [*OPERATION * 2, "synchronize"]
    captured = ["start", "<target operation>", *OPERATION, "synchronize", "</target operation>", "stop"]
    assert torch.log == PREFLIGHT + warm_up + captured


def test_event_samples_are_queued_before_the_host_waits(nsys, capsys):
    nsys.torch = torch = RecordingTorch()
    assert nsys.main(["--size", "8", "--warmup-calls", "0", "--event-samples", "3"]) == 0
    assert torch.log == [*PREFLIGHT, "synchronize", *["event", *OPERATION, "event"] * 3, "synchronize"]
    assert capsys.readouterr().out == "median=200.000 us, min=100.000 us, max=800.000 us\n"


def test_proton_writes_a_hatchet_file(nsys, monkeypatch, tmp_path, capsys):
    nsys.torch = torch = RecordingTorch()
    proton = types.ModuleType("triton.profiler")
    proton.start = lambda name, **options: torch.log.append(f"proton {Path(name).name}") or 7
    proton.scope = torch.range
    proton.finalize = lambda session: torch.log.append(f"finalize {session}")
    triton = types.ModuleType("triton")
    triton.profiler = proton
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.profiler", proton)
    monkeypatch.chdir(tmp_path)
    scope = ["<target_operation>", *OPERATION * 2, "</target_operation>", "synchronize", "finalize 7"]
    for name, file in (((), "operator"), (("--proton-output", "new/mine.hatchet"), "new/mine")):
        torch.log.clear()
        assert nsys.main(["--warmup-calls", "0", "--proton-calls", "2", *name]) == 0
        assert torch.log == [*PREFLIGHT, "synchronize", f"proton {Path(file).name}", *scope]
        assert capsys.readouterr().out == f"Proton report: {file}.hatchet\n"
    assert (tmp_path / "new").is_dir()
    (tmp_path / "file").write_text("")
    refused(nsys, ["--proton-calls", "2", "--proton-output", "file/x"], 2, "cannot write to file", capsys)


def refused(nsys, argv, code, message, capsys):
    with pytest.raises(SystemExit) as caught:
        nsys.main(argv)
    assert caught.value.code == code and message in capsys.readouterr().err


def test_a_wrong_result_stops_before_anything_is_measured(nsys, capsys):
    nsys.torch = torch = RecordingTorch(wrong=True)
    refused(nsys, [], 1, "nothing was measured\n  mismatch at (1, 2)", capsys)
    assert torch.log == PREFLIGHT


def test_what_is_missing_or_too_large_is_said(nsys, capsys, monkeypatch):
    nsys.torch = RecordingTorch(memory=False)
    refused(nsys, ["--size", "99999"], 2, "choose a smaller --size", capsys)
    monkeypatch.setitem(sys.modules, "triton", None)
    refused(nsys, ["--proton-calls", "1"], 3, "pip install triton pandas llnl-hatchet", capsys)
    nsys.torch.cuda.is_available = lambda: False
    refused(nsys, [], 3, "no CUDA device", capsys)
    nsys.torch = None
    refused(nsys, [], 3, "PyTorch is not installed", capsys)


@pytest.mark.parametrize(
    "argv",
    [
        ["--size", "0"], ["--size", "big"], ["--warmup-calls", "-1"], ["--event-samples", "0"],
        ["--proton-calls", "1.5"], ["--event-samples", "20", "--profile-once"],
        ["--proton-calls", "1", "--profile-once"], ["--proton-output", "x"],
    ],
)  # fmt: skip
def test_a_bad_option_is_a_usage_error(nsys, argv, capsys):
    nsys.torch = RecordingTorch()
    refused(nsys, argv, 2, "error: ", capsys)
    assert not nsys.torch.log


def test_help_needs_no_torch():
    done = run_bare("nsys_example.py", "--help")
    assert done.returncode == 0 and not done.stderr
    for option in ("size", "warmup-calls", "event-samples", "proton-calls", "profile-once", "proton-output"):
        assert f"--{option}" in done.stdout


@pytest.mark.parametrize("script", ["nsys_example.py", "iket_example.py"])
def test_without_packages_it_exits_3_with_the_next_step(script):
    done = run_bare(script)
    assert done.returncode == 3 and not done.stdout
    assert "install" in done.stderr and "Traceback" not in done.stderr


# ------------------------------------------------------------------------------------------------ IKET


@pytest.fixture(scope="module")
def iket_module():
    return load("iket_example")


@pytest.fixture
def device(iket_module, monkeypatch):
    """What the script believes about the first CUDA device."""
    device = types.SimpleNamespace(exist=True, compute_version="9.0")
    monkeypatch.setattr(iket_module.tvm, "cuda", lambda: device)
    monkeypatch.setattr(sys, "argv", ["iket_example.py"])
    return device


@pytest.mark.parametrize(("capability", "arch"), [("9.0", "sm_90a"), ("10.0", "sm_100a"), ("10.3", "sm_103a")])
def test_iket_arch_comes_from_the_device(iket_module, device, capability, arch):
    device.compute_version = capability
    assert iket_module.device_arch() == arch


def test_iket_prints_the_artifacts(iket_module, device, monkeypatch, capsys):
    def record(main, **options):
        assert main is iket_module.traced and options["output_dir"] == "reports/iket-warp-roles"
        assert options["postprocess"] == "all"
        return types.SimpleNamespace(output_dir="out", json_traces=["a"], perfetto_traces=["b"], html_reports=["c"])

    monkeypatch.setattr(iket_module.iket, "run", record)
    assert iket_module.main() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["IKET output directory: out", *(f"IKET artifact: {name}" for name in "abc")]


def test_iket_without_a_fit_device_or_packages(iket_module, device, monkeypatch, capsys):
    def refused(code, message):
        with pytest.raises(SystemExit) as caught:
            iket_module.main()
        assert caught.value.code == code and message in capsys.readouterr().err

    def fail(error):
        def run(*_, **__):
            raise error

        monkeypatch.setattr(iket_module.iket, "run", run)

    fail(iket_module.iket.IketProfileError("Official IKET profile validation failed: x is not installed."))
    refused(3, "python -m pip install 'nvidia-cutlass-dsl[cu13]==4.6.0'")
    fail(iket_module.iket.IketProfileError("Official IKET profiler exited with status 1"))
    refused(1, "the profile failed: Official IKET profiler exited with status 1")
    fail(PermissionError(13, "Permission denied"))
    refused(2, "choose another --output-dir")
    device.compute_version = "8.0"
    refused(3, "compute capability 8.0")
    device.exist = False
    refused(3, "no CUDA device")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_iket_kernel_generates_code_and_a_plain_compile_strips_the_ranges(iket_module, arch):
    target = iket_module.tvm.target.Target({"kind": "cuda", "arch": arch})
    plain = iket_module.tvm.compile(iket_module.warp_roles, target=target, tir_pipeline="tirx")
    traced = iket_module.iket.IketProfiler().compile(iket_module.warp_roles, target=target)
    sources = [executable.mod.imports[0].inspect_source("cuda") for executable in (plain, traced)]
    assert ["pmevent" in source for source in sources] == [False, True]
