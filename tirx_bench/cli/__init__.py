"""The command line: parse, call one function, emit. Loads neither tvm, torch, triton, scipy nor matplotlib."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tirx_bench import __version__
from tirx_bench.cli import collecting, commands, options, simulating
from tirx_bench.cli.ending import guarded

__all__ = ["COMMANDS", "console", "guarded", "main", "parser"]

COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, tuple[Callable[[argparse.ArgumentParser], None], ...]]] = {
    "list": (commands.do_list, "the reference kernels and their workloads", (options.package,)),
    "doctor": (commands.do_doctor, "what is installed and which commands work", (options.doctor,)),
    "lint": (commands.do_lint, "check a kernel's IKET annotations", (options.kernel, options.strict)),
    "compile": (commands.do_compile, "lint and compile; needs no GPU", (options.kernel, options.compiling)),
    "simulate": (
        simulating.do_simulate,
        "run a small shape on the CPU: numbers, deadlocks and races; needs no GPU",
        (options.simulated, options.strict),
    ),
    "verify": (
        commands.do_verify,
        "compare every output with an FP32 reference on the GPU",
        (options.verified, options.compiling, options.gpu),
    ),
    "bench": (
        commands.do_bench,
        "verify, then time against the baselines on the GPU",
        (options.kernel, options.compiling, options.gpu, options.timing, options.verdict),
    ),
    "run": (
        commands.do_run,
        "everything that this machine can do, and a record",
        (options.kernel, options.compiling, options.gpu, options.timing, options.whether_simulated),
    ),
    "launch": (
        commands.do_launch,
        "one operation between cudaProfilerStart and Stop, for a profiler",
        (options.kernel, options.compiling, options.gpu),
    ),
    "collect": (
        collecting.do_collect,
        "a checker on a launch of the kernel, and what it found",
        (options.collected, options.compiling),
    ),
    "show": (commands.do_show, "a record or an artifact again, in the terminal or as one page", (options.record,)),
    "compare": (
        commands.do_compare,
        "two records, or two kernel files: faster, slower, same or inconclusive",
        (options.pair, options.compiling, options.gpu, options.timing),
    ),
}


def parser() -> options.Parser:
    # No abbreviations: a new option must not change what an old script's means.
    main = options.Parser(prog="tirx-bench", description="A development workbench for TVM/TIRx GPU kernels.", allow_abbrev=False)
    main.add_argument("--version", action="version", version=__version__)
    subparsers = main.add_subparsers(dest="command", metavar="command", required=True, parser_class=options.Parser)
    for name, (_, text, adders) in COMMANDS.items():
        sub = subparsers.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.add_argument("--json", action="store_true", help="the same values as JSON")
        for add in adders:
            add(sub)
    return main


def main(argv: Sequence[str] | None = None) -> int:
    as_json = "--json" in (sys.argv[1:] if argv is None else argv)

    def work() -> int:
        arguments = parser().parse_args(argv)
        return COMMANDS[arguments.command][0](arguments)

    return guarded(work, as_json)


def console() -> NoReturn:
    gc.disable()  # a command is short, and collecting costs it 0.2 s while TVM loads
    sys.exit(main())
