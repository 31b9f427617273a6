"""Our times against those of tvm.tirx.bench and nvbench (cuda-bench) for the same kernels, and our verdicts on known truths.

    python tests/bench/crosscheck.py docs/measurements/h200-crosscheck.json

Every tool has processes of its own, because CUPTI has one client; they take turns, twice. Ours is asked with its own protocol and
with a named condition of the others made equal: their flush, a gate, calls back to back. Clocks are the card's own over our
intervals and nvbench's, and the driver's every 50 ms for tvm.tirx.bench. Rows named short and long change a session's length.
"""

from __future__ import annotations

import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

TURNS = 2
SHAPES = ("4096", "1024")
FILL_BYTES = 256 << 20  # what tvm.tirx.bench and Triton fill; nvbench fills the L2's size
ROUNDS = {"rounds": 16, "max_rounds": 16, "settle_s": 2.0}
LONG_MS = 500.0
SHORT = {"warmup_ms": 25.0, "settle_s": 0.0, "rounds": 6, "max_rounds": 6}  # the budgets of tvm.tirx.bench: 25 and 100 ms
PAIRS = 30


def gemm(device, label):
    """The TIRx GEMM and torch.mm as calls. Artifacts stay in the working folder for the next process."""
    from tirx_bench.catalog import find
    from tirx_bench.compile import build_functions, compile_functions, load_tvm
    from tirx_bench.pipeline import parse_workload
    from tirx_bench.pipeline.loading import load
    from tirx_bench.verify import prepare

    load_tvm()
    kernel = find("gemm").kernel
    workload = parse_workload(kernel, label)
    params = kernel.params(workload)
    functions = build_functions(kernel, params)
    artifact = compile_functions(functions, kernel, workload, arch="sm_90a", out=Path("crosscheck-artifacts"), tunables={})
    case = prepare(kernel, params, device, 0)
    mm = kernel.baselines["torch.mm"].prepare(**case.inputs, **case.outputs)
    return {"gemm": load(kernel, functions, artifact)(case.buffers), "torch.mm": mm}


def implementations(device):
    """Both on every shape, by name."""
    return {f"{name} {label}": call for label in SHAPES for name, call in gemm(device, label).items()}


def our_times(timer, **policy):
    def run():
        from helpers_records import verification

        from tirx_bench.device.cuda import CudaDevice
        from tirx_bench.model import TimingPolicy
        from tirx_bench.timing import measure

        device = CudaDevice()
        found = {}
        for name, call in implementations(device).items():
            timing = measure({name: call}, TimingPolicy(timer=timer, **{**ROUNDS, **policy}), device, verification()).timing
            found[name] = {"us": timing.median_us(name), "mhz": timing.clock_mhz(name)}
        return found

    return run


def ours_after_a_fill(timer, warm_up=100, count=400):
    """Our timer in the loop of the others: a fill as the flush, which leaves dirty lines, little warm-up, and a mean."""

    def run():
        import torch

        from tirx_bench.device import Loop
        from tirx_bench.device.cuda import CudaDevice

        device, found = CudaDevice(), {}
        other = torch.empty(FILL_BYTES, dtype=torch.uint8, device="cuda")
        loop = Loop(lambda: other.zero_())
        for name, call in implementations(device).items():
            device.time_calls("event", [call] * warm_up, loop)
            readings = device.time_calls(timer, [call] * count, loop)
            clock = statistics.mean(r.clock_mhz for r in readings)
            found[name] = {"us": statistics.mean(r.us for r in readings), "mhz": clock}
        return found

    return run


def tvm_times(timer, **budgets):
    def run():
        from tirx_bench.device.cuda import CudaDevice

        device, found = CudaDevice(), {}
        calls = implementations(device)
        from tvm.tirx.bench import bench

        for name, call in calls.items():
            with device.watch() as watch:
                us = bench({name: call}, timer=timer, cooldown_s=0, **budgets)["impls"][name]
            clocks = [state.sm_clock_mhz for state in watch.states]
            found[name] = {"us": us, "mhz": statistics.mean(clocks) if clocks else None}
        return found

    return run


def nvbench_times(kind, *arguments):
    def run():
        import cuda.bench as nvbench
        import torch

        from tirx_bench.device.cuda import CudaDevice

        for name, call in implementations(CudaDevice()).items():

            def measured(state, call=call):
                stream = torch.cuda.ExternalStream(state.get_stream().addressof())
                with torch.cuda.stream(stream):
                    call()
                    torch.cuda.synchronize()

                def launch(what):
                    with torch.cuda.stream(stream):
                        call()

                state.exec(launch, batched=True)

            measured.__name__ = name
            nvbench.register(measured)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "nvbench.json")
            nvbench.run_all_benchmarks(["crosscheck", "--json", str(path), *arguments])
            data = json.loads(path.read_text())
        return {b["name"]: figures(b["states"][0], kind) for b in data["benchmarks"]}

    return run


def figures(state, kind):
    """A mean in microseconds, and the mean SM clock, which nvbench has for cold calls only."""

    def value(tag):
        found = [s for s in state["summaries"] if s["tag"] == tag]
        return float(next(d["value"] for d in found[0]["data"] if d["name"] == "value")) if found else None

    hertz = value(f"nv/{kind}/sm_clock_rate/mean")
    return {"us": 1e6 * value(f"nv/{kind}/time/gpu/mean"), "mhz": hertz and hertz / 1e6}


TOOLS = {
    "ours, event": our_times("event"),
    "ours, event, gate": our_times("event", gate=True),
    "ours, proton": our_times("proton"),
    "ours, kernel": our_times("kernel"),
    "ours, event, short": our_times("event", **SHORT),
    "ours, proton, short": our_times("proton", **SHORT),
    "ours, event, after a fill": ours_after_a_fill("event"),
    "ours, proton, after a fill": ours_after_a_fill("proton"),
    "tvm.tirx.bench, event": tvm_times("event"),
    "tvm.tirx.bench, proton": tvm_times("proton"),
    "tvm.tirx.bench, event, long": tvm_times("event", warmup=LONG_MS, repeat=LONG_MS),
    "tvm.tirx.bench, proton, long": tvm_times("proton", warmup=LONG_MS, repeat=LONG_MS),
    "nvbench, cold": nvbench_times("cold", "--timeout", "4"),
    "nvbench, batch": nvbench_times("batch", "--timeout", "4"),
    "ours, event, 200 calls warm": our_times("event", cache="warm", calls=200),
}


def verdicts():
    """30 A/A pairs, and a GEMM with one step of K more in 100."""
    from helpers_records import record, verification

    from tirx_bench.compare import against, noise_floor
    from tirx_bench.device.cuda import CudaDevice
    from tirx_bench.model import TimingPolicy
    from tirx_bench.timing import measure

    device = CudaDevice()

    def held(calls, number):
        policy = TimingPolicy(rounds=16, max_rounds=40, block_ms=4, settle_s=0.5, seed=number)
        measured = measure(calls, policy, device, verification())
        new, old = calls
        whole = record(timing=measured.timing, statuses=measured.statuses, kernel=new)
        c = against(whole, old)
        return {
            "verdict": c.verdict,
            "reason": c.reason,
            "ratio": c.ratio,
            "low": c.low,
            "high": c.high,
            "floor": noise_floor(whole, old),
        }

    mm = implementations(device)
    steps = {k: gemm(device, f"m=4096,n=4096,k={k}")["gemm"] for k in (6400, 6464)}
    return {
        "A/A torch.mm 1024": [held({"a": mm["torch.mm 1024"], "b": mm["torch.mm 1024"]}, n) for n in range(PAIRS // 2)],
        "A/A gemm 4096": [held({"a": mm["gemm 4096"], "b": mm["gemm 4096"]}, n) for n in range(PAIRS // 2)],
        "101 steps of K, not 100": [held({"101": steps[6464], "100": steps[6400]}, n) for n in range(5)],
    }


def in_a_process(name):
    done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, timeout=300)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["it died"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def main(argv):
    if argv[0] == "--one":
        print(json.dumps(verdicts() if argv[1] == "verdicts" else TOOLS[argv[1]]()))
        return
    from tirx_bench.device.cuda import CudaDevice
    from tirx_bench.tools.environment import software

    names = argv[1:] or [*TOOLS, "verdicts"]
    times = {name: [] for name in names if name != "verdicts"}
    for turn in range(TURNS):
        for name in list(times)[:: 1 if turn % 2 == 0 else -1]:
            times[name].append(in_a_process(name))
            print(turn, name, times[name][-1], flush=True)
    # Before this process has a context of its own, which would be another user of the card.
    held = in_a_process("verdicts") if "verdicts" in names else {}
    found = {
        "command": "python tests/bench/crosscheck.py",
        "date": datetime.date.today().isoformat(),
        "environment": {**software(), **CudaDevice().describe()},
        "times_us": times,
        "verdicts": held,
    }
    Path(argv[0]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
