"""From a name or a path to a kernel, also for files that are wrong, hostile, or one of two versions."""

import dataclasses
import importlib.util
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tirx_bench
from tirx_bench import catalog
from tirx_bench.catalog import tirx_kernels_adapter as adapter
from tirx_bench.model import FailedError, MissingError, UsageError, call

KERNEL = """
from tirx_bench.model import Kernel, Tolerance, Work, Workload

def build(n):
    return "built", n

def make(name, build=build):
    return Kernel(
        name=name, archs=("sm_90a",), workloads=(Workload("small", {"n": 4}),), build=build, inputs=lambda n, rng: {},
        outputs=lambda n: {}, reference=lambda: {}, tolerance=Tolerance(1e-2, 1e-2),
        work=lambda n: Work(1, 1, "float32"), baselines={"base": lambda: print},
    )
"""
PROTOCOL = Path(__file__).parent / "data" / "protocol_kernel.py"


@pytest.fixture
def write(tmp_path):
    def write(name, text, prelude=KERNEL):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(prelude + textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def reference(write, monkeypatch, tmp_path):
    """A reference folder of our own: tirx_bench/kernels beside tirx_bench/__init__.py."""
    monkeypatch.setattr(tirx_bench, "__file__", str(tmp_path / "__init__.py"))
    write("kernels/gemm.py", "KERNEL = make('gemm')")
    write("kernels/gemm_steps.py", "KERNELS = (make('naive'), make('pipelined'))")
    write("kernels/broken.py", "import no_such_package_at_all\n", prelude="")
    write("kernels/_helper.py", "", prelude="")
    return tmp_path / "kernels"


@pytest.fixture(autouse=True)
def nothing_leaks():
    """Whatever a test loads, only the kernel modules under their own names stay behind."""
    modules, path, source = set(sys.modules), list(sys.path), inspect.getsource(tirx_bench.model)
    yield
    new = {m for m in set(sys.modules) - modules if not m.startswith("_tirx_bench_")}
    assert not {m for m in new if "helper" in m or m == "kernels"}
    assert sys.path == path and inspect.getsource(tirx_bench.model) == source


def refused(spec, error=UsageError):
    with pytest.raises(error) as caught:
        catalog.find(str(spec))
    assert "\n" not in caught.value.message
    return caught.value


# ---------------------------------------------------------------------------------------------- listing


def test_the_reference_folder_of_the_checkout_is_listed():
    names = {p.stem for p in Path(tirx_bench.__file__).parent.joinpath("kernels").glob("[!_]*.py")}
    assert names and {e.name.partition(":")[0] for e in catalog.entries()} == names


def test_every_file_is_listed_and_a_broken_one_with_its_error(reference):
    listed = {e.name: e for e in catalog.entries()}
    assert list(listed) == ["broken", "gemm", "gemm_steps:naive", "gemm_steps:pipelined"]
    broken = listed["broken"]
    assert broken.kernel is None and broken.spec == str(reference / "broken.py")
    assert broken.error == f"ModuleNotFoundError: No module named 'no_such_package_at_all' ({broken.path}:1)"
    assert listed["gemm"].kernel.name == "gemm" and listed["gemm"].error == ""


def test_a_missing_reference_folder_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(tirx_bench, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(MissingError, match="reference kernels are not at"):
        catalog.entries()


def test_listing_is_light():
    # No bound on the time here: machines differ. What makes it slow is what must not be imported.
    code = (
        "import sys; from tirx_bench import catalog; catalog.entries();"
        "print(sorted({'tvm', 'torch', 'numpy', 'triton', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------- finding


def test_a_name_a_path_and_a_kernel_of_several(reference, monkeypatch):
    monkeypatch.chdir(reference)
    for spec in ("gemm", "gemm:gemm", "./gemm.py", "gemm.py", str(reference / "gemm.py"), "../kernels/gemm.py:gemm"):
        assert catalog.find(spec).name == "gemm"
    for spec in ("gemm_steps:pipelined", "./gemm_steps.py:pipelined"):
        entry = catalog.find(spec)
        assert (entry.name, entry.kernel.name) == ("gemm_steps:pipelined", "pipelined")


def test_a_spec_finds_the_same_kernel_in_another_process(reference, tmp_path):
    for name in ("gemm", "gemm_steps:pipelined"):
        entry = catalog.find(name)
        code = "import sys; from tirx_bench import catalog; print(catalog.find(sys.argv[1]).kernel.name)"
        done = subprocess.run([sys.executable, "-c", code, entry.spec], capture_output=True, text=True, cwd="/",
                              env=os.environ | {"PYTHONPATH": str(Path(catalog.__file__).parents[2])})  # fmt: skip
        assert done.stdout.strip() == entry.kernel.name, done.stderr


def test_kernel_beside_kernels_is_what_the_bare_name_means(write):
    path = write("both.py", "KERNEL = make('main')\nKERNELS = [KERNEL, make('other:v2')]")
    assert catalog.find(str(path)).kernel.name == "main"
    assert catalog.find(f"{path}:other:v2").name == "both:other:v2"


def test_one_of_several_must_be_named(reference):
    assert "gemm_steps:naive or gemm_steps:pipelined" in refused("gemm_steps").hint
    error = refused("gemm_steps:pipelind")
    assert error.message == "unknown kernel of gemm_steps 'pipelind'" and error.hint == "did you mean pipelined?"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("gem", "unknown kernel 'gem'", "did you mean gemm"),
        ("", "unknown kernel ''", "known: broken, gemm"),
        ("nothing.py", "there is no file nothing.py", "relative to"),
        ("./gemm.py", "there is no file gemm.py", "for the reference kernel: gemm"),
        ("folder", "folder is a folder", "name one .py file"),
        (".", "is a folder", "name one .py file"),
        ("notes.txt", "notes.txt is not a .py file", "Python file"),
        ("./notes.txt", "notes.txt is not a .py file", "Python file"),
        ("mine", "unknown kernel 'mine'", "./mine.py"),
        ("a" * 5000 + ".py", "cannot be opened", ""),
        ("nul\0.py", "there is no file", ""),
    ],
)
def test_what_cannot_be_found(reference, monkeypatch, tmp_path, spec, message, hint):
    folder = tmp_path / "elsewhere"
    (folder / "folder").mkdir(parents=True)
    (folder / "notes.txt").write_text("")
    (folder / "mine.py").write_text("")
    monkeypatch.chdir(folder)
    error = refused(spec)
    assert message in error.message and hint in error.hint and error.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("def build(:\n", "SyntaxError: invalid syntax", 1),
        ("x = 1\nraise ValueError('two\\nlines')\n", "ValueError: two lines", 2),
        ("import sys\nsys.exit(0)\n", "SystemExit: the file calls sys.exit(0)", 2),
        ("import no_such_package_at_all\n", "ModuleNotFoundError: No module named 'no_such_package_at_all'", 1),
        ("\nfrom os import nothing\n", "ImportError: cannot import name 'nothing'", 2),
        ("class Odd(BaseException): pass\n\nraise Odd\n", "Odd (", 3),
        ("def f():\n    return f()\nf()\n", "RecursionError", 2),
        ("x = 1\n", "the file defines no KERNEL", 0),
        ("KERNEL = {}\n", "holds a dict, not a tirx_bench.Kernel", 0),
        ("KERNEL = None\n", "holds a NoneType", 0),
        ("KERNELS = 'abc'\n", "KERNELS is a str", 0),
        ("KERNELS = ()\n", "the file defines no KERNEL", 0),
        ("\0", "null bytes", 0),
    ],
)
def test_a_file_that_cannot_be_used(write, text, message, line):
    path = write("mine.py", text, prelude="")
    error = refused(path)
    assert error.message.startswith(f"{path} was found, but it cannot be used: ") and message in error.message
    assert error.message.endswith(f"({path}:{line})" if line else ")") and error.hint and error.exit_code == 2


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "binary.py"
    path.write_bytes(b"\xff\xfe\x00x = 1")
    assert "SyntaxError" in refused(path).message or "ValueError" in refused(path).message


def test_an_invalid_kernel_names_its_line_and_two_of_one_name_are_refused(write):
    path = write("wrong.py", "\n\nKERNEL = make('')\n")
    error = refused(path)
    assert "needs a name" in error.message and f"{path}:" in error.message
    twins = refused(write("twins.py", "KERNELS = (make('twin'), make('twin'))"))
    assert "more than one kernel has the name twin" in twins.message


def test_a_missing_package_is_not_a_missing_file(write):
    error = refused(write("mine.py", "import no_such_package_at_all.part\n"))
    assert "was found" in error.message and error.hint.startswith("install no_such_package_at_all,")


def test_an_error_in_a_helper_names_both_lines(write):
    helper = write("bad_helper.py", "x = 1\nx / 0\n", prelude="")
    path = write("mine.py", "import bad_helper\n", prelude="")
    assert refused(path).message.endswith(f"ZeroDivisionError: division by zero ({helper}:2, from {path}:1)")
    helper.write_text("def f(:\n")
    assert refused(path).message.endswith(f"({helper}:1, from {path}:1)")


def test_ctrl_c_is_not_swallowed(write):
    path = write("mine.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        catalog.find(str(path))


def test_what_a_file_prints_stays_out_of_stdout(write, capsys):
    path = write("mine.py", """
        print("at import")
        def chatty(n):
            print("in build")
        KERNEL = make("k", chatty)
    """)  # fmt: skip
    catalog.find(str(path)).kernel.build(n=1)
    out, err = capsys.readouterr()
    assert out == "" and err == "at import\nin build\n"


# -------------------------------------------------------------------------------------------- isolation


def test_two_versions_each_keep_their_helper(write):
    found = []
    for version in ("before", "after"):
        write(f"{version}/helper_x.py", f"VERSION = {version!r}", prelude="")
        found.append(write(f"{version}/mine.py", """
            import helper_x
            def both(n):
                early = helper_x.VERSION
                import helper_x as late
                return early, late.VERSION, late is helper_x
            KERNEL = make("k", both)
        """))  # fmt: skip
    before, after = (catalog.find(str(path)).kernel for path in found)
    for _ in range(2):
        assert before.build(n=1) == ("before", "before", True)
        assert after.build(n=1) == ("after", "after", True)


def test_a_helper_may_be_imported_only_in_build(write, tmp_path):
    for version in ("before", "after"):
        write(f"{version}/helper_y/__init__.py", "from helper_y.part import VERSION", prelude="")
        write(f"{version}/helper_y/part.py", f"VERSION = {version!r}", prelude="")
        write(f"{version}/helper_space/deep.py", f"VERSION = {version!r}", prelude="")
        write(f"{version}/mine.py", """
            def late(n):
                from helper_space import deep
                from helper_y import VERSION
                return VERSION, deep.VERSION
            KERNEL = make("k", late)
        """)  # fmt: skip
    order = ("before", "after", "before")
    kernels = [catalog.find(str(tmp_path / version / "mine.py")).kernel for version in order]
    assert [k.build(n=1) for k in kernels * 2] == [(v, v) for v in order] * 2


def test_a_helper_may_have_the_name_of_a_module_in_use(write, monkeypatch):
    ours = type(sys)("helper_taken")
    monkeypatch.setitem(sys.modules, "helper_taken", ours)
    monkeypatch.setattr(ours, "WHOSE", "the process's", raising=False)
    write("helper_taken.py", "WHOSE = 'the file\\'s'", prelude="")
    write("json.py", "raise RuntimeError('python has loaded its own json before')", prelude="")
    path = write("mine.py", """
        import helper_taken, json
        json.dumps
        KERNEL = make("k", lambda n: helper_taken.WHOSE)
    """)  # fmt: skip
    assert catalog.find(str(path)).kernel.build(n=1) == "the file's"
    assert sys.modules["helper_taken"] is ours
    del sys.modules["helper_taken"]


def test_tirx_bench_is_never_a_helper(write):
    write("tirx_bench/__init__.py", "raise RuntimeError('a second tirx_bench')", prelude="")
    assert isinstance(catalog.find(str(write("mine.py", "KERNEL = make('k')"))).kernel, tirx_bench.Kernel)


def test_packages_under_the_folder_that_are_not_helpers_stay(write, tmp_path, monkeypatch):
    """A virtual environment beside a kernel file: what comes from it is an ordinary package."""
    write(".venv/lib/site-packages/ordinary_package/__init__.py", "", prelude="")
    monkeypatch.syspath_prepend(str(tmp_path / ".venv/lib/site-packages"))
    catalog.find(str(write("mine.py", "import ordinary_package\nKERNEL = make('k')")))
    assert sys.modules.pop("ordinary_package").__file__.endswith("site-packages/ordinary_package/__init__.py")


def test_an_edited_file_and_its_older_self_each_read_their_own_source(write):
    """TVMScript parses the source that inspect returns, at build time."""
    text = """
        import dataclasses, inspect
        import helper_z
        @dataclasses.dataclass
        class Config:
            n: "int" = 0
        def source(n):
            def inner():
                return "VERSION"
            return inner(), inspect.getsource(inner), inspect.getsource(Config), inspect.getsource(helper_z.f)
        KERNEL = make("k", source)
    """
    kernels = {}
    for version in ("old", "new"):
        padding = "\n" * len(kernels)
        write("helper_z.py", f"{padding}def f():\n    return '{version}'\n", prelude="")
        path = write("mine.py", padding + text.replace("VERSION", version))
        kernels[version] = catalog.find(str(path)).kernel
    for version, kernel in kernels.items():
        value, inner, config, helper = kernel.build(n=1)
        assert value == version and f'return "{version}"' in inner and "class Config" in config
        assert version in helper and inner.lstrip().startswith("def inner")


def test_the_wrapped_callables_look_like_the_files_own(write):
    kernel = catalog.find(str(write("mine.py", "KERNEL = make('k')"))).kernel
    assert list(inspect.signature(kernel.build).parameters) == ["n"] and kernel.build.__name__ == "build"
    assert call(kernel.build, kernel.params(kernel.workloads[0])) == ("built", 4)
    assert "def build(n)" in inspect.getsource(kernel.build)
    assert kernel.baselines["base"].prepare() is print, "the call to be timed is not wrapped"
    assert sys.modules[kernel.build.__module__].KERNEL.name == "k"
    assert dataclasses.replace(kernel, name="other").build(n=1) == ("built", 1)


def test_sys_exit_in_build_is_a_failure_of_the_build(write):
    kernel = catalog.find(str(write("mine.py", "import sys\nKERNEL = make('k', lambda n: sys.exit(0))"))).kernel
    with pytest.raises(FailedError, match=r"k\.build calls sys\.exit\(0\)"):
        kernel.build(n=1)


def test_callables_may_call_each_other_and_other_files(write):
    write("a/helper_q.py", "NAME = 'a'", prelude="")
    write("b/helper_q.py", "NAME = 'b'", prelude="")
    other = write("b/mine.py", "import helper_q\nKERNEL = make('b', lambda n: helper_q.NAME)")
    path = write("a/mine.py", f"""
        from tirx_bench import catalog
        def nested(n):
            inner = catalog.find({str(other)!r}).kernel.build(n=1)
            import helper_q
            return helper_q.NAME, inner
        KERNEL = make("a", nested)
    """)  # fmt: skip
    assert catalog.find(str(path)).kernel.build(n=1) == ("a", "b")


def test_kernels_is_no_module(monkeypatch):
    """A package on PyPI has that name; only the checkout's root may show it, as a folder."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).parents[1]])
    assert catalog.entries()
    assert importlib.util.find_spec("kernels") is None and "kernels" not in sys.modules


# ------------------------------------------------------------------------- modules of another protocol


def test_a_protocol_module_becomes_a_kernel():
    entry = catalog.find(str(PROTOCOL))
    kernel = entry.kernel
    assert (entry.name, kernel.name, kernel.archs) == ("protocol_kernel", "protocol_copy", ("sm_90a", "sm_100a"))
    assert [w.label for w in kernel.workloads] == ["small", "scaled", "large"]
    assert kernel.find_workload("small").params == {"n": 256, "dtype": "float32", "scale": 1.0}
    assert kernel.tunables == {"lanes": 32}
    assert entry.notes == (
        "ragged: n=(1, 2) is not a number or string",
        "seeded: differs from the other configurations in having or lacking seed",
    )


def test_its_build_has_an_explicit_signature_and_gives_functions_by_name():
    kernel = catalog.find(str(PROTOCOL)).kernel
    assert list(inspect.signature(kernel.build).parameters) == ["n", "dtype", "scale", "lanes"]
    built = call(kernel.build, kernel.params(kernel.find_workload("scaled"), {"lanes": 16}))
    assert list(built) == ["main", "tail", "tail_2"], "a mapping's key, else the function's own symbol"
    assert built["main"].config == {"n": 512, "scale": 2.0, "lanes": 16}
    assert call(kernel.build, kernel.params(kernel.find_workload("large"))).config == {"n": 4096}
    with pytest.raises(UsageError, match="unknown tunable"):
        kernel.params(kernel.workloads[0], {"lane": 1})


def test_what_it_does_not_have_says_what_to_run_instead():
    kernel = catalog.find(str(PROTOCOL)).kernel
    assert kernel.work is None, "no floor is made up"
    for part in (kernel.inputs, kernel.outputs, kernel.reference, kernel.tolerance):
        with pytest.raises(UsageError, match="no separate inputs") as caught:
            call(part, {"n": 1})
        assert "python -m tirx_kernels.test --kernel protocol_copy" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KERNEL_META = {'name': 'x'}", "'runtime_cuda_archs' (list of str)"),
        ("KERNEL_META = 1", "KERNEL_META must be a dict"),
        ("KERNEL_META = M", "the module defines no get_kernel"),
        ("KERNEL_META = M\nget_kernel = G", "CONFIGS is missing or empty"),
        ("KERNEL_META = M\nget_kernel = G\nCONFIGS = 3", "CONFIGS is a int, not a list"),
        ("KERNEL_META = M\nget_kernel = G\nCONFIGS = [3]", "CONFIGS holds a int, not a dict"),
        ("KERNEL_META = M\nget_kernel = G\nCONFIGS = [{'label': 'a', 'n': None}]", "such as a: n=None is not a number"),
        ("KERNEL_META = M\nget_kernel = lambda n, k: 0\nCONFIGS = [{'n': 1}]", "asks for k, which no configuration"),
    ],
)
def test_a_module_that_lacks_a_part(write, text, message):
    given = "M = {'name': 'x', 'runtime_cuda_archs': ['sm_100a']}\nG = lambda n: 0\n"
    assert message in refused(write("mine.py", text, prelude=given)).message


@pytest.fixture
def package(write, monkeypatch, tmp_path):
    """A package of the protocol's own shape: metadata that is read, and modules that are imported only on demand."""
    module = PROTOCOL.read_text()
    write("tirx_kernels/__init__.py", "", prelude="")
    write("tirx_kernels/gemm/__init__.py", "", prelude="")
    write("tirx_kernels/gemm/good.py", "from . import _part\nprint('loud')\n", prelude=module)
    write("tirx_kernels/gemm/_part.py", "", prelude=module.replace("protocol_copy", "part"))
    write("tirx_kernels/gemm/bad.py", "\nKERNEL_META = {'name': 'needs_more', 'runtime_cuda_archs': []}",
          prelude="import no_such_package_at_all")  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "tirx_kernels"
    for name in [n for n in sys.modules if n.partition(".")[0] == "tirx_kernels"]:
        del sys.modules[name]


def test_kernels_of_the_installed_package(package, capsys):
    entry = catalog.find("tirx_kernels:protocol_copy")
    assert entry.name == entry.spec == "tirx_kernels:protocol_copy" and entry.path == str(package / "gemm/good.py")
    with pytest.raises(UsageError) as caught:
        entry.kernel.reference()
    assert caught.value.hint == "check it with: python -m tirx_kernels.test --kernel protocol_copy"
    error = refused("tirx_kernels:needs_more")
    assert "was found" in error.message and f"({package / 'gemm/bad.py'}:1)" in error.message
    assert refused("tirx_kernels:protocol_cpy").hint == "did you mean protocol_copy?"
    assert "name one, as in tirx_kernels:needs_more" in refused("tirx_kernels").hint
    assert [(e.name, bool(e.error)) for e in catalog.package_entries()] == [
        ("tirx_kernels:needs_more", True), ("tirx_kernels:protocol_copy", False),
    ]  # fmt: skip
    assert capsys.readouterr().out == ""


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(adapter.importlib.util, "find_spec", lambda name: None)
    assert "pip install tirx-kernels" in refused("tirx_kernels:rmsnorm", MissingError).hint
