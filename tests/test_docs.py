"""The documents are true: their numbers come from data, their commands exist, their kernel file compiles."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tirx_bench.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]


def test_measured_pages_in_the_documents_are_what_the_data_gives():
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_names_every_command_and_no_other():
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("## Map")[0]
    assert re.findall(r"^\| `(\w+)", table, re.MULTILINE) and set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == set(COMMANDS)


def test_the_guides_kernel_file_compiles(tmp_path, capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guide.md").read_text(), re.DOTALL)
    path = tmp_path / "scale.py"
    path.write_text(block)
    assert main(["compile", str(path), "--json", "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["artifact"]["resources"][0]["threads"] == 128


def test_the_readmes_demo_works_with_nothing_on_the_path_but_the_system(tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, symlinks=True, ignore=shutil.ignore_patterns(".*", "build"))
    (clone / ".venv").symlink_to(ROOT / ".venv")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    environment["PATH"] = "/usr/bin:/bin"
    done = subprocess.run(["make", "demo"], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for expected in ("168 registers", "0 B spilled", "limited by", "HGMMA", "UTMALDG", "0 LDL", "no notes", "floor", "left out"):
        assert expected in done.stdout
    folder = Path(re.search(r"^artifact +(.+)$", done.stdout, re.MULTILINE)[1])
    assert "site-packages" in json.loads((folder / "manifest.json").read_text())["command"][0]
