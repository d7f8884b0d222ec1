"""What is installed: a wheel of the instrument alone, and in the repository the book's `utils` beside it."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from places import CHAPTERS, ROOT

BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def built(kind, folder):
    """The wheel that setuptools makes of a copy of the repository: (its file, the copy)."""
    copy = folder / "copy"
    for name in ("every_byte", "utils"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-c", BUILD, kind, str(folder)]
    run = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return folder / run.stdout.splitlines()[-1], copy


def run_in(folder, path, source):
    """What a fresh Python prints in that folder, with `path` in front of what is installed."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    command = [sys.executable, "-c", source]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return zipfile.ZipFile(built("build_wheel", tmp_path_factory.mktemp("wheel"))[0])


@pytest.mark.long
def test_a_wheel_holds_the_instrument_alone(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"every_byte"}
    files = [path for path in (ROOT / "every_byte").rglob("*.*") if "__pycache__" not in path.parts and path.is_file()]
    assert {str(path.relative_to(ROOT)) for path in files} <= set(wheel.namelist())


@pytest.mark.nightly
def test_it_stands_beside_a_utils_of_the_reader(wheel, tmp_path):
    wheel.extractall(tmp_path / "installed")
    project = tmp_path / "project"
    project.mkdir()
    (project / "utils.py").write_text("whose = 'a reader'\n")
    source = "import utils, every_byte; print(utils.whose, every_byte.__file__, every_byte.SimulatedGPU.__name__)"
    installed = tmp_path / "installed" / "every_byte" / "__init__.py"
    assert run_in(project, tmp_path / "installed", source) == f"a reader {installed} SimulatedGPU"


@pytest.mark.long
def test_the_readmes_session_needs_nothing_else(wheel, tmp_path):
    """In an empty folder, where whoever asks for the book's `utils` fails."""
    wheel.extractall(tmp_path / "installed")
    (tmp_path / "installed" / "utils.py").write_text("raise ImportError('only every_byte is installed')\n")
    (tmp_path / "empty").mkdir()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    assert run_in(tmp_path / "empty", tmp_path / "installed", code) == output.strip()


@pytest.mark.nightly
def test_an_editable_install_puts_the_repository_on_the_path(tmp_path):
    """So does `-e .` in environment.yml."""
    editable, copy = built("build_editable", tmp_path)
    with zipfile.ZipFile(editable) as archive:
        lines = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".pth")]
    assert [line.strip() for line in lines] == [str(copy)]
    found = run_in(CHAPTERS, lines[0].strip(), "import utils, every_byte; print(utils.__file__, every_byte.__file__)")
    assert found == f"{copy / 'utils' / '__init__.py'} {copy / 'every_byte' / '__init__.py'}"
