"""Artifact folders: complete or absent. Built beside their place and renamed in one step."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tirx_bench.compile.cubin import code_hash
from tirx_bench.model import Artifact, UsageError
from tirx_bench.serial import from_plain, to_plain

FORMAT = 1
FILES = ("kernel.cu", "kernel.ptx", "kernel.cubin", "kernel.sass", "ptxas.txt", "manifest.json")


def read(folder: Path) -> Artifact:
    """The artifact that a folder holds. Raises `UsageError` if it is not complete, or its source or code is not its manifest's.

    `folder` of the artifact is where it lies now, which is not where it was built when it was moved or copied.
    """
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise UsageError(f"{folder} is not a complete artifact: {', '.join(missing)} missing", "compile it again")
    manifest = folder / "manifest.json"
    try:
        data = json.loads(manifest.read_text())
    except ValueError as error:
        raise UsageError(f"{manifest} is cut short or not JSON: {error}", "compile it again") from error
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise UsageError(f"{manifest} is not of format {FORMAT}", "compile it again with this version")
    try:
        artifact = from_plain(Artifact, data, str(manifest))
    except UsageError as error:
        raise UsageError(error.message, "compile it again") from error
    try:
        code = code_hash((folder / "kernel.cubin").read_bytes())
    except UsageError as error:
        raise UsageError(f"{folder}/kernel.cubin is {error.message}", "compile it again") from error
    if code != artifact.code_hash:
        raise UsageError(f"{folder}/kernel.cubin is not the one that its manifest describes", "compile it again")
    if hashlib.sha256((folder / "kernel.cu").read_bytes()).hexdigest() != artifact.source_sha256:
        raise UsageError(f"{folder}/kernel.cu is not the text that was compiled", "compile it again")
    return replace(artifact, folder=str(folder.absolute()))


def write_manifest(folder: Path, artifact: Artifact) -> None:
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, **to_plain(artifact)}, indent=1))


def kept(folder: Path) -> Artifact | None:
    """The artifact of an earlier build; None if there is none that can be used."""
    if not folder.exists():
        return None
    try:
        return read(folder)
    except UsageError:
        return None


@contextlib.contextmanager
def staged(final: Path) -> Iterator[Path]:
    """A folder beside `final` that becomes `final` when the block ends well, and is gone when it does not.

    When another process was quicker, its complete folder stays and ours goes; a damaged one is replaced.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    _sweep(final.parent)
    staging = Path(tempfile.mkdtemp(prefix=f".{final.name}.{os.getpid()}.", dir=final.parent))
    try:
        yield staging
        _publish(staging, final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(staging: Path, final: Path) -> None:
    staging.chmod(0o755)  # mkdtemp makes it private
    with _alone_in(final.parent):  # another process may be mending the same folder
        if final.exists() and kept(final) is None:
            aside = staging.with_suffix(".damaged")
            final.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        try:
            staging.rename(final)
        except OSError:
            read(final)  # another process published the same content first


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(parent: Path) -> None:
    """Remove what builds left behind that were killed before they could clean up."""
    for left in parent.glob(".*.*.*"):
        pid = left.name.split(".")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
