"""The options of the commands. Each function adds a few to a command's parser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from tirx_bench.model import CACHES, FLUSHES, TIMERS, TimingPolicy, UsageError, VerifyPolicy, unknown

DEFAULT = TimingPolicy()


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest names on an unknown command and this program's way of failing."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # argparse hands a command's unknown options up to the program's parser, which does not know the near ones.
        parsed, extra = super().parse_known_args(args, namespace)
        if extra and extra[0].startswith("-"):
            raise unknown(f"option of {self.prog}", extra[0].partition("=")[0], self._option_string_actions)
        if extra:
            raise UsageError(f"{self.prog} has no use for {' '.join(extra)!r}", f"{self.prog} --help")
        return parsed, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown(action.dest, str(value), map(str, action.choices))


def package(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "package", nargs="?", help="tirx_kernels: the kernels of that package, which takes most of a minute to import"
    )


def strict(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--strict", action="store_true", help="warnings fail too")


def kernel(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("kernel", help="a name from `list`, a path to a .py file, or either with :name")
    problem(sub)


def problem(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--workload",
        action="append",
        metavar="LABEL|m=..,n=..",
        help="a label, or parameters over the first workload's; again for more; `all`",
    )
    sub.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a tunable of the kernel, such as bn=128")
    sub.add_argument("--arch", help="such as sm_90a; default: the device's, else the kernel's first")
    out(sub)


def out(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--out", type=Path, help="the folder for artifacts and records (default build/tirx)")


def compiling(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--compiler", default="nvcc", help="nvcc (default) or nvrtc")
    sub.add_argument("--flag", action="append", default=[], metavar="X", help="one more compiler option, as --flag=-G")
    sub.add_argument(
        "--card", help="the card whose data-sheet peaks give the floor (default: this one, else H200 SXM for sm_90a)"
    )
    strict(sub)


def gpu(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="kill the GPU process after so long without progress"
    )
    launched(sub)


def launched(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--seed", type=int, default=0, help="of the inputs")
    sub.add_argument("--device", type=int, default=0, metavar="N", help="which of the visible GPUs (default 0)")


def collected(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("collector", choices=("sanitizer",), help="sanitizer: NVIDIA's compute-sanitizer on a launch of the kernel")
    kernel(sub)
    tools = "memcheck, racecheck, initcheck or synccheck; again for more (default: all four)"
    sub.add_argument("--tool", action="append", metavar="NAME", help=tools)
    sub.add_argument("--dry-run", action="store_true", help="compile, and print the commands; needs no GPU")
    sub.add_argument("--timeout", type=float, default=300.0, metavar="S", help="end a tool after so long (default 300)")
    launched(sub)


def verified(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("kernel", nargs="?", help="a name from `list`, a path to a .py file, or either with :name")
    sub.add_argument("--case", type=Path, metavar="FILE", help="try again what failed: a file that `verify` wrote")
    how = sub.add_mutually_exclusive_group()
    how.add_argument("--seeds", type=int, metavar="N", help=f"fresh inputs of N seeds (default {VerifyPolicy().seeds})")
    deep = "more seeds, all kinds of inputs, disturbances, shapes at the tile boundaries, baselines, compute-sanitizer"
    how.add_argument("--deep", action="store_true", help=deep)
    problem(sub)


def simulated(sub: argparse.ArgumentParser) -> None:
    kernel(sub)
    sub.add_argument("--seed", type=int, default=0, help="of the inputs")
    sub.add_argument("--schedules", type=int, metavar="N", help="seeded schedules behind the fixed ones (default 3)")
    replayed = "the choices of one schedule, as a report with --json gives them: 0,2,1"
    sub.add_argument("--replay", metavar="CHOICES", help=replayed)
    fences = "a proxy fence covers what its own thread did, not what that thread has seen others do"
    sub.add_argument("--strict-fences", action="store_true", help=fences)
    sub.add_argument(
        "--explain", action="store_true", help="what was visited, which operations were used, and each schedule's time"
    )


def whether_simulated(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--no-simulate", action="store_true", help="launch without a look in the simulator first")


def verdict(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--self-test", action="store_true", help="time the kernel against itself and keep this card's noise floor")
    sub.add_argument("--first-call", action="store_true", help="what the first call costs in a fresh process, stage by stage")
    sub.add_argument(
        "--vs", metavar="BASELINE", help="faster, slower, same or inconclusive against this baseline; slower exits 1"
    )


def timing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--timer", help=f"{', '.join(TIMERS)} (default {DEFAULT.timer})")
    sub.add_argument("--cache", help=f"{', '.join(CACHES)} (default {DEFAULT.cache})")
    sub.add_argument("--flush", help=f"how a cold cache is made cold: {', '.join(FLUSHES)} (default {DEFAULT.flush})")
    sub.add_argument("--calls", type=int, metavar="N", help="calls back to back in one interval, whose mean is the sample")
    sub.add_argument("--gate", action="store_true", default=None, help="hold the device until the host has launched the call")
    sub.add_argument("--rounds", type=int, help="rounds of alternating order, neither more nor fewer")
    narrow = f"end when every interval is this narrow (default {DEFAULT.precision * 100:g}%%)"
    sub.add_argument("--precision", type=percent, help=narrow)
    sub.add_argument("--max-time", type=float, metavar="S", help=f"end after so long anyway (default {DEFAULT.max_time_s:g} s)")
    sub.add_argument("--cooldown", type=float, metavar="S", help="idle so long before each round, and warm up again")
    sub.add_argument("--quick", action="store_true", help="an edit loop of seconds: fewer rounds and calls")


def percent(text: str) -> float:
    """``0.5%`` or ``0.005``."""
    return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)


def record(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("path", type=Path, nargs="?", help="a record or an artifact folder (default: the last record)")
    sub.add_argument("--html", type=Path, metavar="FILE", help="write the record as one page, with its plots")
    out(sub)


def pair(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("old", help="a record, or a kernel as for `run`")
    sub.add_argument("new", help="another of the same kind; kernels are measured, which needs a GPU")
    sub.add_argument("--fresh", action="store_true", help="every round of each kernel in a process of its own")
    problem(sub)


def doctor(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("about", nargs="?", metavar="command", help="exit 3 if this command cannot work here")
