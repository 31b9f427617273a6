"""The parent's side of the GPU process: it watches for progress and kills what makes none."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tirx_bench.model import FailedError, MissingError, NothingRanError, UsageError, WorkbenchError
from tirx_bench.pipeline.request import Answer, Request
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.tools import TimedOutError, kill_group, start, visible_device

WORKER = "tirx_bench.pipeline.worker"


class GpuProcess:
    """A worker that loads torch, TVM and the device at once, while its first request may still be compiling.

    It serves requests until one fails, and is gone, with all that it started, when the block ends. `serial`: its launches
    wait for the device.
    """

    def __init__(self, device: int = 0, serial: bool = False):
        self.environment = {"CUDA_VISIBLE_DEVICES": visible_device(device), **({"CUDA_LAUNCH_BLOCKING": "1"} if serial else {})}

    def __enter__(self) -> GpuProcess:
        self.folder = tempfile.TemporaryDirectory()
        self.log = Path(self.folder.name, "log")
        self.reader, writer = os.pipe()
        # Unbuffered and with faulthandler, so that the log of a crash holds what was printed, and where it was.
        argv = [sys.executable, "-u", "-X", "faulthandler", "-m", WORKER, str(writer)]
        self.process = start(argv, log=self.log, pass_fd=writer, env=self.environment)
        os.close(writer)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.reader)
        kill_group(self.process)
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.folder.cleanup()

    def perform(self, request: Request, timeout_s: float, progress: Callable[[str], None]) -> Answer:
        """The answer to the request.

        Raises what the process raised; `TimedOutError` when it makes no progress for `timeout_s`; `FailedError` when it
        dies without an answer.
        """
        step = "starting"
        try:
            self._send(request)
            for line in _lines(self.reader, timeout_s):
                message = _understood(line, step)
                if isinstance(message, Answer):
                    return message
                if isinstance(message, WorkbenchError):
                    raise message
                step = message
                progress(step)
        except TimeoutError as error:
            raise _timed_out(request, step, timeout_s) from error
        kill_group(self.process)
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
        what = f"{_name(request)}: the GPU process {_ending(self.process.returncode)} while {step}"
        ending = f"{what}; artifact {request.version.artifact}"
        raise FailedError(f"{ending}; its last lines:\n{tail or '(none)'}", "`tirx-bench collect sanitizer` says more")

    def _send(self, request: Request) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died already; how is told below
            self.process.stdin.write(json.dumps(to_plain(request)).encode() + b"\n")
            self.process.stdin.flush()


def _lines(reader: int, timeout_s: float) -> Iterator[bytes]:
    """Lines until the other end closes. Raises `TimeoutError` when none comes for `timeout_s`."""
    buffered = b""
    while True:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in buffered:
            ready, _, _ = select.select([reader], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            data = os.read(reader, 1 << 16)
            if not data:
                return
            buffered += data
        line, _, buffered = buffered.partition(b"\n")
        yield line


def _understood(line: bytes, step: str) -> str | Answer | WorkbenchError:
    """A line of the worker's as the next step, the answer, or what to raise."""
    try:
        message = json.loads(line)
        if "answer" in message:
            return from_plain(Answer, message["answer"])
        if "error" in message:
            return _error(message["error"], step)
        return str(message["step"])
    except (ValueError, TypeError, KeyError, RecursionError, UsageError) as error:
        text = line[:200].decode(errors="replace")
        return FailedError(f"the GPU process wrote {text!r} while {step}, which is no message of its: {error}", "something "
                           "in the kernel's file writes to a file descriptor that it did not open")  # fmt: skip


def _error(error: dict[str, str], step: str) -> WorkbenchError:
    kinds = {kind.__name__: kind for kind in (UsageError, MissingError, NothingRanError)}
    kind = kinds.get(error["kind"], FailedError)
    return kind(error["message"], error["hint"] or ("" if kind is not FailedError else f"it happened while {step}"))


def _ending(status: int) -> str:
    return f"ended with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


def _name(request: Request) -> str:
    return f"{request.version.spec.rpartition(':')[2]} {request.workload.label}"


def _timed_out(request: Request, step: str, timeout_s: float) -> TimedOutError:
    what = "the kernel did not return" if step == "launching" else f"no progress while {step}"
    return TimedOutError(
        f"{_name(request)}: {what} within {timeout_s:g} s and was killed; artifact {request.version.artifact}",
        "check barrier counts and phases and setmaxnreg; a smaller --workload may return; --timeout raises the limit",
    )
