"""The parent's side of the GPU process: it watches for progress and kills what makes none."""

from __future__ import annotations

import json
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tirx_bench import model
from tirx_bench.model import FailedError, WorkbenchError
from tirx_bench.pipeline.request import Answer, Request
from tirx_bench.serial import from_plain, to_plain
from tirx_bench.tools import TimedOutError, kill_group, start


def on_gpu(request: Request, timeout_s: float, progress: Callable[[str], None]) -> Answer:
    """Perform the request in a process of its own and return its answer.

    Raises what the process raised; `TimedOutError` when it makes no progress for `timeout_s`, after killing it;
    `FailedError` when it dies without an answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        reader, writer = os.pipe()
        argv = [sys.executable, "-m", "tirx_bench.pipeline.worker", str(writer), json.dumps(to_plain(request))]
        process = start(argv, log=log, pass_fd=writer)
        os.close(writer)
        step = "starting"
        try:
            for message in _messages(reader, timeout_s):
                if "answer" in message:
                    return from_plain(Answer, message["answer"])
                if "error" in message:
                    raise _error(message["error"], step)
                step = message["step"]
                progress(step)
        except TimeoutError as error:
            raise _timed_out(request, step, timeout_s) from error
        finally:
            os.close(reader)
            kill_group(process)
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-12:])
        raise FailedError(f"the GPU process ended with status {process.returncode} while {step}:\n{tail}")


def _messages(reader: int, timeout_s: float) -> Iterator[dict[str, Any]]:
    """JSON lines until the other end closes. Raises `TimeoutError` when none comes for `timeout_s`."""
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
        yield json.loads(line)


def _error(error: dict[str, str], step: str) -> WorkbenchError:
    kind = getattr(model, error["kind"], FailedError)
    return kind(error["message"], error["hint"] or ("" if kind is not FailedError else f"it happened while {step}"))


def _timed_out(request: Request, step: str, timeout_s: float) -> TimedOutError:
    name = f"{request.spec.rpartition(':')[2]} {request.workload.label}"
    what = "the kernel did not return" if step == "launching" else f"no progress while {step}"
    return TimedOutError(
        f"{name}: {what} within {timeout_s:g} s and was killed; artifact {request.artifact}",
        "check barrier counts and phases and setmaxnreg; a smaller --workload may return; --timeout raises the limit",
    )
