"""A module of the tirx-kernels protocol (0.1.2.post1) as a `Kernel`.

The protocol has `KERNEL_META`, `CONFIGS` (and, undocumented, `BENCH_CONFIGS`), `get_kernel(**config)`, `run_test` and
`prepare_bench`. Inputs, launch and reference live inside the last two, so such a kernel can be linted and compiled
here; its correctness is checked by its own `run_test`.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tirx_bench.model import Kernel, MissingError, Params, UsageError, Value, Workload

PACKAGE = "tirx_kernels"
# The protocol asks for a literal dict, so a name is found without importing the module and what it imports.
_META = re.compile(r"^KERNEL_META\b[^=\n]*=\s*(\{[^\n]*\}$|\{.*?^\})", re.MULTILINE | re.DOTALL)


def follows(module: Mapping[str, Any]) -> bool:
    """Whether these module-level names are the protocol's."""
    return "KERNEL_META" in module


def installed() -> dict[str, tuple[str, Path]]:
    """Module name and file of every kernel in the installed package, by kernel name; nothing is imported.

    Raises `MissingError` when the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(f"the package {PACKAGE} is not installed", "python -m pip install tirx-kernels==0.1.2.post1")
    root = Path(next(iter(spec.submodule_search_locations)))
    return dict(sorted(_declared(root)))


def _declared(root: Path) -> Iterator[tuple[str, tuple[str, Path]]]:
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found = _META.search(path.read_text(encoding="utf-8", errors="replace"))
        # A leading underscore marks the parts of a kernel, as in the package's own registry.
        if found is None or any(part.startswith("_") for part in parts):
            continue
        try:
            meta = ast.literal_eval(found[1])
        except (ValueError, SyntaxError):
            continue
        if isinstance(meta.get("name"), str):
            yield meta["name"], (".".join((PACKAGE, *parts)), path)


def kernel(module: Mapping[str, Any], path: Path) -> tuple[Kernel, tuple[str, ...]]:
    """The kernel of a module's names, and one line for every configuration that was left out.

    Raises `UsageError` when a part of the protocol is missing or no configuration can be used.
    """
    name, archs = _identity(module["KERNEL_META"])
    get_kernel = module.get("get_kernel")
    if not callable(get_kernel):
        raise UsageError(f"{name}: the module defines no get_kernel, so there is nothing to lint or compile")
    parameters = inspect.signature(get_kernel).parameters.values()
    defaults = {p.name: p.default for p in parameters if isinstance(p.default, Value)}
    workloads, notes = _workloads(module, defaults)
    if not workloads:
        why = f"such as {notes[0]}" if notes else "because CONFIGS is missing or empty"
        raise UsageError(f"{name}: none of the configurations can be used, {why}")
    tunables = {n: v for n, v in defaults.items() if n not in workloads[0].params}
    build, refuse = _build(get_kernel, workloads[0].params, tunables), _refusal(name, path)
    return Kernel(
        name=name, archs=archs, workloads=workloads, tunables=tunables, build=build,
        inputs=refuse, outputs=refuse, reference=refuse, tolerance=refuse, work=None,
    ), notes  # fmt: skip


def _identity(meta: Any) -> tuple[str, tuple[str, ...]]:
    name = meta.get("name") if isinstance(meta, dict) else None
    archs = meta.get("runtime_cuda_archs") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not isinstance(archs, list | tuple) or not all(isinstance(a, str) for a in archs):
        raise UsageError("KERNEL_META must be a dict with 'name' (str) and 'runtime_cuda_archs' (list of str)")
    return name, tuple(archs)


def _workloads(module: Mapping[str, Any], defaults: Params) -> tuple[tuple[Workload, ...], tuple[str, ...]]:
    notes: list[str] = []
    usable: dict[str, dict[str, Any]] = {}
    given = set().union(*(config for config in _configs(module, notes)))
    for config in _configs(module, []):
        label = str(config.get("label", "default"))
        params = {str(n): v for n, v in config.items() if n != "label"}
        params |= {n: v for n, v in defaults.items() if n in given and n not in params}
        if odd := [f"{n}={v!r}" for n, v in params.items() if not isinstance(v, Value)]:
            notes.append(f"{label}: {', '.join(odd)} is not a number or string")
        elif label not in usable:
            usable[label] = params
        elif usable[label] != params:
            notes.append(f"{label}: another configuration has this label")
    shapes = Counter(frozenset(params) for params in usable.values())
    common = shapes.most_common(1)[0][0] if shapes else frozenset()
    for label, params in usable.items():
        if different := sorted(common ^ set(params)):
            notes.append(f"{label}: differs from the other configurations in having or lacking {', '.join(different)}")
    return tuple(Workload(label, p) for label, p in usable.items() if set(p) == common), tuple(notes)


def _configs(module: Mapping[str, Any], notes: list[str]) -> Iterator[dict[str, Any]]:
    for part in ("CONFIGS", "BENCH_CONFIGS"):
        listed = module.get(part, ())
        if not isinstance(listed, list | tuple):
            notes.append(f"{part} is a {type(listed).__name__}, not a list")
            continue
        for config in listed:
            if isinstance(config, dict):
                yield config
            else:
                notes.append(f"{part} holds a {type(config).__name__}, not a dict")


def _build(get_kernel: Callable[..., Any], params: Params, tunables: Params) -> Callable[..., Any]:
    """`get_kernel` with the parameters spelled out: most modules take ``**config``, which would hide a misspelling."""
    asked = inspect.signature(get_kernel).parameters.values()
    takes_all = any(p.kind is p.VAR_KEYWORD for p in asked)
    names = [n for n in params if takes_all or any(p.name == n for p in asked)]
    explicit = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in names]
    explicit += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=v) for n, v in tunables.items()]
    required = [p.name for p in asked if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if missing := [n for n in required if n not in params]:
        raise UsageError(f"get_kernel asks for {', '.join(missing)}, which no configuration gives")

    @functools.wraps(get_kernel)
    def build(**values: Value) -> Any:
        return _by_name(get_kernel(**values))

    build.__signature__ = inspect.Signature(explicit)  # type: ignore[attr-defined]
    return build


def _by_name(result: Any) -> Any:
    """One PrimFunc, or several by name: the protocol also allows an IRModule, sequences and mappings, nested too."""
    functions: dict[str, Any] = {}
    for name, function in _flat(result, ""):
        functions[name if name not in functions else f"{name}_{len(functions)}"] = function
    return next(iter(functions.values())) if len(functions) == 1 else functions


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every function in `value` with the name that a mapping or a module gives it, else its own symbol."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, str(key))
    elif hasattr(value, "functions_items"):  # an IRModule
        for variable, item in value.functions_items():
            yield from _flat(item, variable.name_hint)
    elif isinstance(value, Sequence) and not isinstance(value, str):  # TVM's Array is one, and no list
        for item in value:
            yield from _flat(item, name)
    else:
        attrs = getattr(value, "attrs", None) or {}
        yield name or (str(attrs["global_symbol"]) if "global_symbol" in attrs else "kernel"), value


def own_check(name: str) -> str:
    return f"check it with: python -m tirx_kernels.test --kernel {name}"


def _refusal(name: str, path: Path) -> Callable[[], NoReturn]:
    hint = own_check(name)
    if PACKAGE not in path.parts:  # that command knows only the package's own modules
        hint = f"call run_test(**config) of {path}; once the file is in the package, {hint}"

    def refuse() -> NoReturn:
        raise UsageError(
            f"{name} follows the tirx-kernels protocol, which has no separate inputs, outputs, reference, tolerance or "
            "work: it can be linted and compiled, not verified or timed", hint,
        )  # fmt: skip

    return refuse
