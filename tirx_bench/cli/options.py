"""The options of the commands. Each function adds a few to a command's parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from tirx_bench.model import CACHES, TIMERS, UsageError, unknown


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
    sub.add_argument("--seed", type=int, default=0, help="of the inputs")


def verdict(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--self-test", action="store_true", help="time the kernel against itself and keep this card's noise floor")
    sub.add_argument(
        "--vs", metavar="BASELINE", help="faster, slower, same or inconclusive against this baseline; slower exits 1"
    )


def timing(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--timer", default="event", help=f"{', '.join(TIMERS)} (default event)")
    sub.add_argument("--cache", default="cold", help=f"{', '.join(CACHES)} (default cold)")
    sub.add_argument("--rounds", type=int, help="rounds of alternating order")
    sub.add_argument("--quick", action="store_true", help="an edit loop of seconds: fewer rounds and calls")


def records(count: str) -> Callable[[argparse.ArgumentParser], None]:
    def add(sub: argparse.ArgumentParser) -> None:
        if count == "two":
            sub.add_argument("old", type=Path)
            sub.add_argument("new", type=Path)
        else:
            sub.add_argument("path", type=Path, nargs="?", help="a record or an artifact folder (default: the last record)")
            out(sub)

    return add


def doctor(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("about", nargs="?", metavar="command", help="exit 3 if this command cannot work here")
