"""A kernel's file name -> its `Kernel`. Nothing is registered: any .py file works as well as a reference kernel."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tirx_bench
from tirx_bench.catalog import tirx_kernels_adapter as adapter
from tirx_bench.catalog.isolation import PREFIX, Home
from tirx_bench.model import Kernel, MissingError, UsageError, unknown

_serial = itertools.count(1)
_MODEL = "a kernel file ends with KERNEL = Kernel(...), or KERNELS = (Kernel(...), ...)"


@dataclass(frozen=True)
class Entry:
    """One kernel that a file defines. `error` is one line (the exception's type, message, file:line), or empty.

    `notes` are one line each: what was left out when a tirx-kernels module was adapted.
    """

    name: str
    path: str
    kernel: Kernel | None
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """What `find` in another process, in another folder, needs to get this kernel again."""
        if self.name.startswith(adapter.PACKAGE + ":"):
            return self.name
        return f"{self.path}:{self.kernel.name}" if self.kernel else self.path


def entries() -> tuple[Entry, ...]:
    """Every kernel of the reference folder, by file name; files that begin with an underscore are helpers.

    A file that does not load is listed with its error. Raises `MissingError` when the folder is not there.
    """
    return tuple(entry for stem, path in sorted(_reference().items()) for entry in _entries(stem, path))


def package_entries() -> tuple[Entry, ...]:
    """Every kernel of the installed tirx_kernels package. It imports all of the modules, which takes most of a minute.

    Raises `MissingError` when the package is not installed.
    """
    return tuple(_package_entry(name, module, path)[0] for name, (module, path) in adapter.installed().items())


def find(spec: str) -> Entry:
    """The entry of a kernel, with `kernel` set. Its file is loaded afresh on every call.

    `spec` is a reference kernel's name or the path of a .py file, either with ``:kernel`` when the file holds several,
    or ``tirx_kernels:NAME``. Raises `UsageError` when there is no such kernel or its file cannot be used, and
    `MissingError` when the tirx_kernels package is asked for and not installed.
    """
    if spec == adapter.PACKAGE or spec.startswith(adapter.PACKAGE + ":"):
        return _find_in_package(spec.partition(":")[2])
    try:
        stem, path, wanted = _locate(spec)
    except OSError as error:
        raise UsageError(f"{spec[:80]} cannot be opened: {error.strerror}") from error
    loaded = _load(path)
    if loaded.error:
        raise UsageError(f"{path} was found, but it cannot be used: {loaded.error}", loaded.hint)
    kernel = _choose(loaded, wanted, spec.removesuffix(":" + wanted) if wanted else spec)
    return Entry(_name(stem, kernel, loaded), str(path), kernel, notes=loaded.notes)


# ----------------------------------------------------------------------------------------- names and paths


def _reference() -> dict[str, Path]:
    folder = Path(str(tirx_bench.__file__)).parent / "kernels"
    if not folder.is_dir():
        raise MissingError(f"the reference kernels are not at {folder}", "install tirx-bench again, or name a .py file")
    return {p.stem: p.resolve() for p in folder.glob("*.py") if not p.name.startswith("_")}


def _locate(spec: str) -> tuple[str, Path, str]:
    """File stem, file, and the kernel's name in it if `spec` gives one."""
    if ".py:" in spec:
        head, _, wanted = spec.rpartition(".py:")
        head += ".py"
    else:
        head, _, wanted = (spec, "", "") if spec.endswith(".py") else spec.partition(":")
    if not (head.endswith(".py") or "/" in head or head.startswith(".")):
        return head, _by_name(head), wanted
    path = Path(head)
    _refuse_path(path)
    return path.stem, path.resolve(), wanted


def _by_name(name: str) -> Path:
    known = _reference()
    if name in known:
        return known[name]
    if Path(f"{name}.py").is_file():
        raise UsageError(f"unknown kernel {name!r}", f"for the file in this folder: ./{name}.py")
    if name and Path(name).exists():
        _refuse_path(Path(name))
    raise unknown("kernel", name, known)


def _refuse_path(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a kernel file", "name one .py file in it")
    if not path.exists():
        near = f"; for the reference kernel: {path.stem}" if path.stem in _reference() else ""
        raise UsageError(f"there is no file {path}", f"the path is relative to {Path.cwd()}{near}")
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(f"{path} is not a .py file", "a kernel is a Python file; `tirx-bench list` names some")


def _choose(loaded: _Loaded, wanted: str, file: str) -> Kernel:
    by_name = {k.name: k for k in loaded.kernels}
    if wanted:
        if wanted not in by_name:
            raise unknown(f"kernel of {file}", wanted, by_name)
        return by_name[wanted]
    if loaded.default is None:
        names = " or ".join(f"{file}:{name}" for name in by_name)
        raise UsageError(f"{file} holds {len(by_name)} kernels", f"say which one: {names}")
    return loaded.default


def _name(stem: str, kernel: Kernel, loaded: _Loaded) -> str:
    return stem if kernel is loaded.default else f"{stem}:{kernel.name}"


# -------------------------------------------------------------------------------------------- one file


@dataclass(frozen=True)
class _Loaded:
    """What a file gave: its kernels and the one that its bare name means, or the reason why it gave none."""

    kernels: tuple[Kernel, ...] = ()
    default: Kernel | None = None
    notes: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""


def _entries(stem: str, path: Path) -> tuple[Entry, ...]:
    loaded = _load(path)
    if loaded.error:
        return (Entry(stem, str(path), None, loaded.error),)
    return tuple(Entry(_name(stem, k, loaded), str(path), k, notes=loaded.notes) for k in loaded.kernels)


def _load(path: Path) -> _Loaded:
    home = Home(path)
    notes: tuple[str, ...] = ()
    try:
        with home.active():
            names = vars(_execute(path, home))
            if adapter.follows(names) and not {"KERNEL", "KERNELS"} & set(names):
                kernel, notes = adapter.kernel(names, path)
                kernels: tuple[Kernel, ...] = (kernel,)
            else:
                kernels = _declared(names)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: whatever else the file raises is a fault of the file
        return _Loaded(error=_one_line(error, path), hint=_hint(error, path))
    kernels = tuple(home.dress(k) for k in kernels)
    return _Loaded(kernels, kernels[0] if "KERNEL" in names or len(kernels) == 1 else None, notes)


def _execute(path: Path, home: Home) -> ModuleType:
    """Run the file as a module that stays in `sys.modules`, where dataclasses and inspect look, under its own name."""
    name = f"{PREFIX}{next(_serial)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "the suffix is .py"
    source = path.read_bytes()
    code = compile(source, str(path), "exec", dont_inherit=True)
    home.remember(str(path), importlib.util.decode_source(source))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _declared(names: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The file's kernels, `KERNEL` first."""
    listed = names.get("KERNELS", ())
    if not isinstance(listed, list | tuple):
        raise UsageError(f"KERNELS is a {type(listed).__name__}, not a tuple of kernels")
    found = [names["KERNEL"], *listed] if "KERNEL" in names else list(listed)
    if not found:
        raise UsageError("the file defines no KERNEL", _MODEL)
    for kernel in found:
        if not isinstance(kernel, Kernel):
            raise UsageError(f"KERNEL or KERNELS holds a {type(kernel).__name__}, not a tirx_bench.Kernel", _MODEL)
    kernels = tuple({id(k): k for k in found}.values())
    if repeated := sorted({k.name for k in kernels if sum(k.name == other.name for other in kernels) > 1}):
        raise UsageError(f"more than one kernel has the name {', '.join(repeated)}")
    return kernels


def _one_line(error: BaseException, path: Path) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, SystemExit):
        text = f"the file calls sys.exit({error.code!r})"
    if isinstance(error, SyntaxError):
        text = str(error.msg)
    return f"{type(error).__name__}{text and ': '}{text[:400]} ({_place(error, path)})"


def _place(error: BaseException, path: Path) -> str:
    """file:line in the file; for an error in a helper beside it, the helper's line and the line that led there."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 0))
    own = [f"{file}:{line}" for file, line in frames if file == str(path)]
    beside = [f"{file}:{line}" for file, line in frames if Path(file).parent == path.parent]
    if not own:
        return str(path)
    return own[-1] if beside[-1] == own[-1] else f"{beside[-1]}, from {own[-1]}"


def _hint(error: BaseException, path: Path) -> str:
    if isinstance(error, UsageError):
        return error.hint or "correct the file"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install {error.name.partition('.')[0]}, or import it inside the function that needs it"
    if isinstance(error, SystemExit):
        return 'put what runs the kernel under if __name__ == "__main__":'
    return f"correct the file; for the whole traceback: python {path}"


# ---------------------------------------------------------------------------------- the installed package


def _find_in_package(name: str) -> Entry:
    known = adapter.installed()
    if not name:
        one = next(iter(known), "NAME")
        raise UsageError(f"{adapter.PACKAGE} holds {len(known)} kernels", f"name one, as in {adapter.PACKAGE}:{one}")
    if name not in known:
        raise unknown(f"kernel of {adapter.PACKAGE}", name, known)
    entry, hint = _package_entry(name, *known[name])
    if entry.error:
        raise UsageError(f"{entry.name} was found, but it cannot be used: {entry.error}", hint)
    return entry


def _package_entry(name: str, module: str, path: Path) -> tuple[Entry, str]:
    """The entry, and what to do if it has an error."""
    spec = f"{adapter.PACKAGE}:{name}"
    try:
        with contextlib.redirect_stdout(sys.stderr):
            kernel, notes = adapter.kernel(vars(importlib.import_module(module)), path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        hint = f"install {missing.partition('.')[0]}" if missing else adapter.own_check(name)
        return Entry(spec, str(path), None, _one_line(error, path)), hint
    return Entry(spec, str(path), kernel, notes=notes), ""
