"""One operation, a BF16 matrix product followed by ReLU, to be timed alone or watched by Proton, Nsight Systems or
Nsight Compute.

    python appendix/nsys_example.py --event-samples 20            # CUDA event time of the whole operation
    python appendix/nsys_example.py --proton-calls 100            # writes operator.hatchet
    nsys profile --capture-range=cudaProfilerApi ... python appendix/nsys_example.py --profile-once

Every mode first checks the result against an FP32 reference, then warms up, and only then measures.
Exit codes: 0 done, 1 the result is wrong, 2 a bad option, 3 torch, a GPU or Proton is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import NoReturn

try:
    import torch
except ImportError:  # --help needs no torch
    torch = None

RTOL, ATOL = 2e-2, 1e-2


# --------------------------------------------------------------------------------------- the operation


class Operation:
    """``output = relu(a @ b)`` on square BF16 matrices. All memory is allocated here, none of it in `run`."""

    def __init__(self, size: int):
        generator = torch.Generator(device="cuda").manual_seed(0)

        def random() -> torch.Tensor:
            return torch.randn((size, size), device="cuda", dtype=torch.bfloat16, generator=generator)

        self.a, self.b = random(), random()
        self.product = torch.empty_like(self.a)
        self.output = torch.empty_like(self.a)

    def run(self) -> None:
        """Queue both kernels on the current stream; nothing waits for them."""
        with torch.cuda.nvtx.range("BF16 GEMM"):
            torch.mm(self.a, self.b, out=self.product)
        with torch.cuda.nvtx.range("ReLU"):
            torch.clamp_min(self.product, 0, out=self.output)

    def check(self) -> None:
        """Compare one run with FP32 arithmetic; raises AssertionError when an element is outside the tolerance."""
        self.run()
        torch.cuda.synchronize()
        expected = torch.mm(self.a.float(), self.b.float()).clamp_min(0).to(self.output.dtype)
        torch.testing.assert_close(self.output, expected, rtol=RTOL, atol=ATOL)


def use_fp32_accumulation() -> None:
    """Keep reduced precision out of the reference, and out of the sums over K that the tolerance assumes."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def warm_up(run: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        run()
    torch.cuda.synchronize()


# ------------------------------------------------------------------------------------- the three modes


def event_times_us(run: Callable[[], None], samples: int) -> list[float]:
    """CUDA event time of each of `samples` calls, in microseconds.

    All calls are queued before the host waits: waiting in between would let the stream run empty, and the next
    interval would then include the host's launch.
    """
    pairs = []
    for _ in range(samples):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in pairs]


def record_with_proton(run: Callable[[], None], calls: int, output: Path) -> Path:
    """Let Proton count `calls` calls under one scope; returns the file that proton-viewer reads."""
    proton = import_proton()
    session = proton.start(str(output), context="shadow", data="tree")
    if session is None:
        give_up(1, "Proton opened no session", "run this with python itself, not with the proton command")
    try:
        with proton.scope("target_operation"):
            for _ in range(calls):
                run()
        torch.cuda.synchronize()
    finally:
        proton.finalize(session)
    return output.with_name(output.name + ".hatchet")


def profile_once(run: Callable[[], None]) -> None:
    """Open the profiler's capture range around exactly one call and the wait for it."""
    cudart = torch.cuda.cudart()
    cudart.cudaProfilerStart()
    with torch.cuda.nvtx.range("target operation"):
        run()
        torch.cuda.synchronize()  # inside, so that both kernels end before the capture does
    cudart.cudaProfilerStop()


# ------------------------------------------------------------------------------------ the command line


def give_up(code: int, problem: str, next_step: str) -> NoReturn:
    print(f"nsys_example: {problem}\n  {next_step}", file=sys.stderr)
    raise SystemExit(code)


def import_proton() -> ModuleType:
    try:
        import triton.profiler as proton
    except ImportError as error:
        give_up(3, f"--proton-calls needs Triton's Proton: {error}", "python -m pip install triton pandas llnl-hatchet")
    return proton


def require_gpu() -> None:
    if torch is None:
        give_up(3, "PyTorch is not installed", "install a CUDA build of torch: https://pytorch.org/get-started/locally")
    if not torch.cuda.is_available():
        give_up(3, "PyTorch finds no CUDA device", "nvidia-smi lists what the driver sees; torch must be a CUDA build")


def number(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return value

    return parse


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A BF16 GEMM followed by ReLU: time it, or run it under a profiler.")
    parser.add_argument("--size", type=number(1), default=4096, help="rows and columns of each matrix (default 4096)")
    parser.add_argument("--warmup-calls", type=number(0), default=500, help="calls before measuring (default 500)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--event-samples", type=number(1), help="time this many calls; the default mode, with 20")
    mode.add_argument("--proton-calls", type=number(1), help="profile this many calls with Proton")
    mode.add_argument("--profile-once", action="store_true", help="one call between cudaProfilerStart and Stop")
    parser.add_argument("--proton-output", metavar="NAME", help="Proton writes NAME.hatchet (default operator)")
    chosen = parser.parse_args(argv)
    if chosen.proton_output and not chosen.proton_calls:
        parser.error("--proton-output needs --proton-calls")
    return chosen


def report_name(chosen: argparse.Namespace) -> Path:
    """Proton's output without its suffix, in a folder that exists."""
    output = Path((chosen.proton_output or "operator").removesuffix(".hatchet"))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        give_up(2, f"cannot write to {output.parent}: {error.strerror}", "choose another --proton-output")
    return output


def main(argv: list[str] | None = None) -> int:
    chosen = options(argv)
    require_gpu()
    output = report_name(chosen)
    if chosen.proton_calls:
        import_proton()  # a missing package shows before the warm-up, not after it
    use_fp32_accumulation()
    try:
        operation = Operation(chosen.size)
        operation.check()
    except torch.cuda.OutOfMemoryError:
        give_up(2, f"{chosen.size} x {chosen.size} does not fit in device memory", "choose a smaller --size")
    except AssertionError as error:
        give_up(1, "the result differs from the FP32 reference, so nothing was measured", str(error))
    warm_up(operation.run, chosen.warmup_calls)

    if chosen.profile_once:
        profile_once(operation.run)
    elif chosen.proton_calls:
        print(f"Proton report: {record_with_proton(operation.run, chosen.proton_calls, output)}")
    else:
        times = event_times_us(operation.run, chosen.event_samples or 20)
        print(f"median={median(times):.3f} us, min={min(times):.3f} us, max={max(times):.3f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
