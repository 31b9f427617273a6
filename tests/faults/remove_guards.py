"""Remove each guard in turn, each in a copy of its own, and require the test of its fault to fail there.

    python tests/faults/remove_guards.py [--gpu] [F02 ...]

Exits 1 when a test stays green without its guard, when a guard's text is not in its file exactly once, or when a test is not
green with everything in place. --gpu takes the guards whose tests need a card, and those only.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guards import GUARDS, Guard

ROOT = Path(__file__).parents[2]
FAILED = 1  # pytest's exit code for tests that failed; those above are its own troubles


@contextmanager
def copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("tirx_bench", "kernels", "tests"):
            shutil.copytree(ROOT / part, folder / part, symlinks=True)
        shutil.copy(ROOT / "pyproject.toml", folder)
        yield folder


def tested(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "60"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"tests/{test}" for test in tests)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True,
    )  # fmt: skip


def trouble_without(guard: Guard) -> str:
    """Why this guard's test proves nothing; empty when it fails without the guard."""
    with copied() as folder:
        path = folder / "tirx_bench" / guard.file
        text = path.read_text()
        if (count := text.count(guard.old)) != 1:
            return f"{guard.file} has its text {count} times: {guard.old!r}"
        path.write_text(text.replace(guard.old, guard.new))
        done = tested(folder, guard.test)
    if done.returncode == 0:
        return f"{guard.test} stayed green without {guard.file}: {guard.old!r}"
    return "" if done.returncode == FAILED else f"{guard.test} did not run (pytest ended with {done.returncode}):\n{done.stdout}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="F02", help="only these")
    parser.add_argument("--gpu", action="store_true", help="the guards whose tests need a card")
    arguments = parser.parse_args()
    wanted = {int(name.lstrip("Ff")) for name in arguments.faults} or {guard.fault for guard in GUARDS}
    chosen = [guard for guard in GUARDS if guard.gpu == arguments.gpu and guard.fault in wanted]
    if not chosen:
        sys.exit("no such guard")
    with copied() as folder:
        whole = tested(folder, *dict.fromkeys(guard.test for guard in chosen))
    if whole.returncode:
        print(f"with every guard in place:\n{whole.stdout}")
        return 1
    with concurrent.futures.ThreadPoolExecutor(1 if arguments.gpu else os.cpu_count()) as pool:
        troubles = dict(zip(chosen, pool.map(trouble_without, chosen), strict=True))
    for fault in dict.fromkeys(guard.fault for guard in chosen):
        found = [trouble for guard, trouble in troubles.items() if guard.fault == fault]
        print("\n    ".join([f"F{fault:02} red without {found.count('')} of {len(found)} guards", *filter(None, found)]))
    return int(any(troubles.values()))


if __name__ == "__main__":
    sys.exit(main())
