"""The folder of one loaded file, importable only while that file's code runs.

``python file.py`` puts the file's folder first on the path, so ``import helper`` finds the helper beside it. The same
holds here while the file is loaded and whenever a callable of its `Kernel` runs, and at no other time. So two versions
of a file, in two folders or before and after an edit, each keep the helper and the text that they were loaded with.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tirx_bench.model import FailedError, Kernel

PREFIX = "_tirx_bench_"  # of the names under which kernel files stay in sys.modules
_NEVER_A_HELPER = {"tirx_bench", "__main__"}  # a second tirx_bench would make two of every class
_one_at_a_time = threading.RLock()
_active: list[Home] = []


class Home:
    """The folder, the helper modules and the source text of one loaded file.

    What the file's code prints goes to stderr, because stdout may be a command's JSON.
    """

    def __init__(self, path: Path):
        self.folder = path.parent
        self.helpers: dict[str, ModuleType] = {}
        self.sources: dict[str, Any] = {}
        sys.path_importer_cache.pop(str(self.folder), None)  # its listing may be older than a helper written just now

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        with _one_at_a_time:
            if _active and _active[-1] is self:
                yield
                return
            hidden = {name: sys.modules.pop(name) for name in self._strangers()}
            before = dict(sys.modules)
            lines = {file: linecache.cache.get(file) for file in self.sources}
            sys.modules.update(self.helpers)
            sys.path.insert(0, str(self.folder))
            linecache.cache.update(self.sources)
            _active.append(self)
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    yield
            finally:
                _active.pop()
                with contextlib.suppress(ValueError):  # the file may have edited sys.path itself
                    sys.path.remove(str(self.folder))
                self._keep_helpers(before)
                sys.modules.update(hidden)
                for file in self.sources:
                    linecache.cache.pop(file, None)
                linecache.cache.update({file: entry for file, entry in lines.items() if entry})

    def remember(self, file: str, text: str) -> None:
        """Keep the text that runs: TVMScript parses what inspect reads, also after the file on disk has changed."""
        # Without a modification time, linecache.checkcache leaves an entry alone.
        self.sources[file] = linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def dress(self, kernel: Kernel) -> Kernel:
        """The kernel with its callables running here, but for the calls that baselines return, which are timed."""
        parts = {f.name: getattr(kernel, f.name) for f in fields(kernel)}
        dressed: dict[str, Any] = {n: self._wrap(v, f"{kernel.name}.{n}") for n, v in parts.items() if callable(v)}
        dressed["baselines"] = {
            n: replace(b, prepare=self._wrap(b.prepare, f"{kernel.name}'s {n}")) for n, b in kernel.baselines.items()
        }
        return replace(kernel, **dressed)

    def _wrap(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.active():
                try:
                    return function(*args, **kwargs)
                except SystemExit as error:
                    message = f"{what} calls sys.exit({error.code!r})"
                    raise FailedError(message, "let it return, or raise an error") from error

        return inside

    def _strangers(self) -> list[str]:
        """Loaded modules that have the name of something in this folder, and are not it."""
        beside = {p.stem for p in self.folder.glob("*.py")} | {p.parent.name for p in self.folder.glob("*/__init__.py")}
        # python itself has loaded much of its library before a file beside it could take the name
        names = (beside - sys.stdlib_module_names | {_top(n) for n in self.helpers}) - _NEVER_A_HELPER
        tops = {n for n in names if n in sys.modules and not self._holds(sys.modules[n])}
        return [n for n in list(sys.modules) if _top(n) in tops]

    def _keep_helpers(self, before: Mapping[str, ModuleType]) -> None:
        """Move what was imported from this folder out of sys.modules."""
        if self.folder.name in ("site-packages", "dist-packages"):
            return
        new = [n for n, m in list(sys.modules.items()) if before.get(n) is not m and not n.startswith(PREFIX)]
        tops = {t for t in map(_top, new) if t in sys.modules and self._holds(sys.modules[t])} - _NEVER_A_HELPER
        for name in new:
            if _top(name) in tops:
                self.helpers[name] = sys.modules.pop(name)
                self._remember_module(self.helpers[name])

    def _remember_module(self, module: ModuleType) -> None:
        file = getattr(module, "__file__", None) or ""
        if file.endswith(".py") and file not in self.sources:
            linecache.checkcache(file)
            self.remember(file, "".join(linecache.getlines(file)))

    def _holds(self, module: ModuleType) -> bool:
        """Whether this top-level module is a file or a package of this folder."""
        places = list(getattr(module, "__path__", None) or [getattr(module, "__file__", None)])
        return any(Path(place).parent.resolve() == self.folder for place in places if isinstance(place, str))


def _top(module: str) -> str:
    return module.partition(".")[0]
