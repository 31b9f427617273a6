"""Imports point down only, siblings never import each other, and start-up stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tirx_bench

ROOT = Path(tirx_bench.__file__).parent
KERNELS = ROOT.parent / "kernels"
FACE = "__init__"  # tirx_bench itself: what a kernel file imports

GROUND = {"model"}
VALUES = {"serial", "hardware", "ops", "stats", "shape", "hopper", "gemm_problem"} | GROUND
TOOLS = {"tools"} | VALUES
DEVICE = {"device"} | TOOLS
SIBLINGS = {
    "lint", "compile", "sass", "simulate", "verify", "timing", "peaks", "collect", "reports", "store", "compare", "catalog",
}  # fmt: skip
# What each module of the package may import, by its first name under tirx_bench. A new one gets a line here first.
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    **dict.fromkeys(VALUES - GROUND, GROUND),
    "shape": GROUND | {"stats"},
    "tools": VALUES,
    "device": TOOLS,
    **dict.fromkeys(SIBLINGS, DEVICE),
    "catalog": DEVICE | {FACE},  # for the place of the reference kernels
    "doctor": DEVICE,
    "render": {"model", "hardware", "stats", "shape", "compare"},  # the values it prints
    "pipeline": SIBLINGS | DEVICE,
    # It reads what is there already, one call each; whatever orders steps is pipeline's.
    "cli": {"pipeline", "render", "doctor", "catalog", "store", "compare", "compile", "serial", "model", FACE},
    "entry": {"pipeline", "render", "cli", "model"},
    "testing": {"pipeline", "render", "entry", "model"},
    "__main__": {"cli"},
    FACE: {"model", "entry"},  # entry late, when `bench` or `script` is asked for
}
LATE = "simulate"  # interprets device code in numpy: whoever wants it imports it in a function, as it would a heavy package
HEAVY = {"tvm", "tvm_ffi", "torch", "triton", "scipy", "matplotlib", "numpy", "ml_dtypes", "elftools", "rich", "jinja2", "pynvml"}
SOURCES = sorted(p for p in ROOT.rglob("*.py") if "kernels" not in p.relative_to(ROOT).parts)
STARTS_A_PROCESS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
READS_THE_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def top(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Line, absolute module and the names taken from it, of every import anywhere in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            yield node.lineno, ".".join([*base, *([node.module] if node.module else [])]), tuple(a.name for a in node.names)


def inner_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and first name under tirx_bench of every import of our own, in functions and under TYPE_CHECKING too."""
    package = ".".join(["tirx_bench", *path.relative_to(ROOT).parts[:-1]])
    for line, module, names in imported(ast.parse(path.read_text()), package):
        parts = module.split(".")
        if parts[0] != "tirx_bench":
            continue
        if len(parts) > 1:
            yield line, parts[1]
            continue
        for name in names or (FACE,):
            yield line, name if (ROOT / name).is_dir() or (ROOT / f"{name}.py").exists() else FACE


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the file is imported."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            for part in ("body", "orelse", "finalbody"):
                yield from at_import(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from at_import(handler.body)


def broken_rules(path: Path) -> list[str]:
    here = top(path)
    allowed = ALLOWED.get(here)
    if allowed is None:
        return [f"{here} has no line in the table of layers"]
    return [f"{path}:{line} imports {name}" for line, name in inner_imports(path) if name not in allowed | {here}]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down_and_siblings_never_import_each_other(path):
    assert not broken_rules(path)


def test_the_table_itself_has_no_way_up_and_no_way_across():
    order = ["model", "serial", "tools", "device", "compile", "render", "pipeline", "cli", "entry"]
    for number, name in enumerate(order):
        assert not ALLOWED[name] & set(order[number:])
    assert not any(ALLOWED[name] & SIBLINGS for name in SIBLINGS)
    assert [name for name in ALLOWED if len(ALLOWED[name] & SIBLINGS) > 1] == ["pipeline", "cli"]


def test_a_relative_import_of_a_sibling_is_seen():
    tree = ast.parse("from ..timing import measure\nfrom .. import store\nfrom . import fake")
    assert [module for _, module, _ in imported(tree, "tirx_bench.device")] == [
        "tirx_bench.timing",
        "tirx_bench",
        "tirx_bench.device",
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_tools_starts_processes_and_reads_the_environment(path):
    tree = ast.parse(path.read_text())
    found = [f"{path}:{line} imports {m}" for line, m, _ in imported(tree, "x") if m in ("subprocess", "multiprocessing", "pty")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            name = node.attr
            if name in STARTS_A_PROCESS | READS_THE_ENVIRONMENT or name.startswith(("exec", "spawn")):
                found.append(f"{path}:{node.lineno} uses os.{name}")
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found.append(f"{path}:{node.lineno} takes names out of os")
    assert top(path) == "tools" or not found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_of_the_package_loads_a_heavy_package_when_it_is_imported(path):
    statements = ast.Module(list(at_import(ast.parse(path.read_text()).body)), [])
    nodes = [n for n in statements.body if isinstance(n, ast.Import | ast.ImportFrom)]
    heavy = HEAVY - ({"numpy", "ml_dtypes"} if top(path) == LATE else set())
    found = [(line, m) for n in nodes for line, m, _ in imported(n, "tirx_bench") if m.split(".")[0] in heavy]
    if top(path) != LATE:
        found += [(line, m) for n in nodes for line, m, _ in imported(n, "tirx_bench") if m.startswith(f"tirx_bench.{LATE}")]
    assert not [f"{path}:{line} imports {module}" for line, module in found]


@pytest.mark.parametrize("path", [p for p in SOURCES if top(p) == "render"], ids=lambda p: p.name)
def test_render_returns_strings_and_never_prints_or_opens_a_file(path):
    calls = {n.func.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not calls & {"print", "open", "input"}
    assert not {m.split(".")[0] for _, m, _ in imported(ast.parse(path.read_text()), "tirx_bench.render")} & {"sys", "pathlib"}


# -------------------------------------------------------------------------------------------- start-up

LOADS = """
import json, sys
heavy = set(sys.argv[1].split(","))
def loaded():
    return sorted(heavy & set(sys.modules))
"""


def python(code: str, *argv: str) -> str:
    done = subprocess.run([sys.executable, "-c", LOADS + code, ",".join(HEAVY), *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_command_line_loads_no_heavy_package_and_nothing_of_the_layers_below():
    code = "import tirx_bench.cli; print(json.dumps([loaded(), [m for m in sys.modules if m.startswith('tirx_bench.')]]))"
    heavy, own = json.loads(python(code))
    assert heavy == []
    assert sorted({".".join(m.split(".")[:2]) for m in own}) == ["tirx_bench.cli", "tirx_bench.model", "tirx_bench.serial"]


def test_importing_every_layer_still_loads_no_heavy_package():
    modules = [".".join(p.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__") for p in SOURCES]
    wanted = [m for m in modules if not m.endswith("__main__") and not m.startswith(f"tirx_bench.{LATE}")]
    code = """
import importlib
for name in sys.argv[2:]:
    importlib.import_module(name)
    assert not loaded(), (name, loaded())
"""
    python(code, *wanted)


def heavy_by_file(files: list[Path]) -> dict[str, list[str]]:
    """What each file loads that the ones before it did not."""
    code = """
import runpy
found, before = {}, set()
for file in sys.argv[2:]:
    runpy.run_path(file)
    found[file] = sorted(set(loaded()) - before)
    before |= set(loaded())
print(json.dumps({file: names for file, names in found.items() if names}))
"""
    return json.loads(python(code, *map(str, files)))


def test_importing_a_kernel_file_loads_no_heavy_package():
    assert heavy_by_file(sorted(KERNELS.glob("*.py"))) == {}


def test_the_kernel_file_that_loads_a_heavy_package_is_named(tmp_path):
    (tmp_path / "light.py").write_text("import tirx_bench\n")
    (tmp_path / "loads_numpy.py").write_text("import numpy\n")
    found = heavy_by_file([tmp_path / "light.py", tmp_path / "loads_numpy.py"])
    assert found == {str(tmp_path / "loads_numpy.py"): ["numpy"]}


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.py")), ids=lambda p: p.name)
def test_a_kernel_file_needs_only_the_face_of_the_package_its_operators_and_the_gemm_parts(path):
    found = set()
    for _, module, names in imported(ast.parse(path.read_text()), ""):
        if module.split(".")[0] == "tirx_bench":
            found |= {module.split(".")[1]} if "." in module else set(names) - set(tirx_bench.__all__)
    assert found <= {"ops", "hopper", "gemm_problem", "model"}


def test_what_needs_no_tvm_works_where_tvm_cannot_be_imported():
    code = """
for name in heavy:
    sys.modules[name] = None  # an import of it fails from here on
import tirx_bench
assert tirx_bench.Kernel and tirx_bench.bench and tirx_bench.script
from tirx_bench.cli import main
codes = [main(["list"]), main(["list", "--json"]), main(["show", "no-such-file"]), main(["run", "gemm", "--workload", "k=7"])]
print("codes", codes)
"""
    assert python(code).splitlines()[-1] == "codes [0, 0, 2, 2]"
