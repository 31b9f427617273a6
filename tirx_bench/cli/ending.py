"""How a command ends: one message and an exit code, whatever happened."""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from tirx_bench.cli.emit import emit, error_plain, report
from tirx_bench.model import FailedError, UsageError, WorkbenchError

INTERRUPTED = 130


def guarded(work: Callable[[], int], as_json: bool) -> int:
    """Run `work` and turn what it raises into one message and the exit code. Anything unforeseen is a bug of ours."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that half-written folders and the GPU process do not stay
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _terminated)
    try:
        try:
            code = work()
        except WorkbenchError as error:
            if as_json:
                emit(error_plain(error))
            report(error)
            code = error.exit_code
        if sys.stdout is not None:  # as under `>&-`
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader went away, as `head` does
        sys.stdout = None
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            sys.stdout = None  # it may hold text that cannot be written
            full = UsageError(f"cannot write {error.filename or 'the output'}: {error.strerror}", "make room there")
            report(full)
            return full.exit_code
        traceback.print_exc()
        print("\nthis is a bug of tirx-bench, not of your kernel; please report it with the lines above", file=sys.stderr)
        return FailedError.exit_code


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
