"""What a record must say of the machine's software: versions, the repository's state, the platform."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tirx_bench.model import MissingError
from tirx_bench.tools import TimedOutError, find_tool, run, tool_version

PACKAGES = (
    "tirx-bench",
    "apache-tvm",
    "apache-tvm-ffi",
    "numpy",
    "torch",
    "triton",
    "nvidia-ml-py",
    "nvidia-cutlass-dsl",
)


def package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def software() -> dict[str, Any]:
    """Versions by package and CUDA program; None where it is absent."""
    tools = {name: tool_version(tool) if (tool := find_tool(name)) else None for name in ("nvcc", "ptxas", "nvdisasm")}
    return {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}",
            **{name: package_version(name) for name in PACKAGES}, **tools}  # fmt: skip


def repository(path: Path) -> dict[str, Any]:
    """The git commit that `path` belongs to and whether its work tree differs; None where git does not know."""

    def git(*argv: str) -> str | None:
        try:
            done = run(["git", "-C", str(path.parent), *argv], timeout_s=10)
        except (MissingError, TimedOutError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    status = git("status", "--porcelain", "--untracked-files=no")
    return {"git_commit": git("rev-parse", "HEAD"), "git_dirty": None if status is None else bool(status)}


def command_line() -> str:
    name = Path(sys.argv[0]).name
    return shlex.join(["tirx-bench" if name == "__main__.py" else name, *sys.argv[1:]])
