"""The files beside the code agree: pyproject, constraints, environment, and nothing of one machine in any of them."""

import gzip
import json
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from pins import (
    APART,
    CONDA_NAMES,
    CUDA_BUILD,
    PROJECT,
    absent,
    constraints,
    declared,
    holds,
    installed_closure,
    name_of,
    of_it_alone,
    pinned_for,
)
from places import ROOT

# ------------------------------------------------------------------------------------------------------ constraints.txt


def test_constraints_pin_exactly():
    exact = re.compile(r"==\d+(\.\d+)*(\.post\d+)?")
    assert not [str(one) for one in constraints().values() if not exact.fullmatch(str(one.specifier))]


def test_constraints_satisfy_pyproject():
    pins = constraints()
    assert not set(declared()) - set(pins), "asked for in pyproject.toml, not pinned"
    for name, one in declared().items():
        version = str(pins[name].specifier).removeprefix("==")
        assert one.specifier.contains(version), f"pyproject.toml asks for {one}, constraints.txt pins {version}"


def test_constraints_pin_all_that_is_brought_along():
    assert not installed_closure() - set(constraints()), "brought along by a requirement, not pinned"


def test_constraints_name_nothing_else():
    here = {name for name, one in constraints().items() if holds(one) and not CUDA_BUILD.match(name)}
    left_out = set().union(*map(pinned_for, absent()))
    assert not here - left_out - installed_closure(), "pinned, and no requirement brings it"


@pytest.mark.parametrize("extra", APART)
def test_what_stands_below_an_extra_is_brought_by_nothing_else(extra):
    assert pinned_for(extra) >= of_it_alone(extra)
    assert not pinned_for(extra) & installed_closure(declared(*APART))


def test_constraints_are_what_is_installed():
    """Only the public part of a version is compared: 2.13.0+cpu is 2.13.0."""
    pins = constraints()
    found = {name: Version(metadata.version(name)).public for name in installed_closure() & set(pins)}
    assert found == {name: str(pins[name].specifier).removeprefix("==") for name in found}


# ------------------------------------------------------------------------------------------------------ environment.yml


def environment() -> tuple[dict[str, str], list[str]]:
    """conda's requirements (name -> specifier) and pip's lines."""
    lines = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    pip = next((line["pip"] for line in lines if isinstance(line, dict)), [])
    parsed = [Requirement(line) for line in lines if isinstance(line, str)]
    return {name_of(one): str(one.specifier) for one in parsed}, pip


def test_environment_asks_for_what_pyproject_asks_for():
    conda, pip = environment()
    by_pip = {name_of(Requirement(line)): str(Requirement(line).specifier) for line in pip if line != "-e ."}
    assert not set(conda) & set(by_pip), "asked of conda and of pip"
    wanted = {CONDA_NAMES.get(name, name): str(one.specifier) for name, one in declared(*APART).items()}
    beside = {"python": PROJECT["requires-python"], "pip": "", "nodejs": ""}  # node renders the site's mathematics
    assert conda | by_pip == wanted | beside


def test_environment_installs_the_book_itself():
    _, pip = environment()
    assert "-e ." in pip


def test_conda_users_start_the_lab_as_make_lab_does():
    """But for the first page, the port and root, which belong to one machine's setting or the reader's."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nlab:")[1].split("\n\n")[0]
    options = set(re.findall(r"--ServerApp\.(?:root_dir|\w+_class)=\S+", recipe))
    (command,) = re.findall(r"python -m jupyterlab .*", (ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert len(options) == 3
    assert set(command.split()[3:]) == options


# -------------------------------------------------------------------------------------------------- package-lock.json


@pytest.mark.parametrize("folder", ["book", "tools/hub"])
def test_the_npm_parts_are_locked_by_their_content_and_by_no_address(folder):
    """`npm ci` takes them from whatever registry npm is set up for, and compares what comes with `integrity`."""
    wanted = json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((ROOT / folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    parts = {name.removeprefix("node_modules/"): part for name, part in lock.items() if name}
    assert not [name for name, part in parts.items() if "resolved" in part]
    assert not [name for name, part in parts.items() if not part["integrity"].startswith("sha512-")]
    exact = wanted["dependencies"] | wanted.get("devDependencies", {})
    assert {name: parts[name]["version"] for name in exact} == exact


# ------------------------------------------------------------------------------------------------- nothing of a machine

# The parentheses and brackets keep these lines from matching themselves.
OF_A_MACHINE = {
    "an absolute path": re.compile(r"""(?<![\w.~$})\]*-])/(home|root|work|tmp|opt|mnt|srv|media|Users)/[\w.]"""),
    "a Windows path": re.compile(r"""\b[A-Z]:\\{1,2}(Users|Windows|Program)"""),
    "a package registry": re.compile(
        r"""(?i)\b(files\.python[h]osted\.org|(test\.)?pypi\.(org|python)|registry\.npm[j]s|repo\.anacond[a]"""
        r"""|conda\.anacond[a]|deb\.debia[n]|download\.pytorc[h]\.org/(?!whl/cpu\b)|proxy\.golan[g])"""
    ),
    "a machine's address": re.compile(r"""\bhttps?://(?!127\.0\.0\.1\b)\d+\.\d+\.\d+\.\d+"""),
}


def files_in_git() -> list[str]:
    """Files that are in git, or would be: not those it ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("not a git work tree")
    return [name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8", errors="replace")


# What stands in whatever a pattern finds: to look for these takes a tenth of the time.
PARTS = {
    "an absolute path": ("/home/", "/root/", "/work/", "/tmp/", "/opt/", "/mnt/", "/srv/", "/media/", "/users/"),
    "a Windows path": (":\\",),
    "a package registry": ("hosted", "pypi", "npmj", "anacond", "debia", "pytorc", "golan"),
    "a machine's address": ("http",),
}


def test_every_pattern_has_its_parts():
    assert PARTS.keys() == OF_A_MACHINE.keys()


def of_a_machine(text: str) -> list[str]:
    lowered = text.lower()
    worth = (what for what, parts in PARTS.items() if any(part in lowered for part in parts))
    return [f"{what}: {found[0]}" for what in worth for found in OF_A_MACHINE[what].finditer(text)]


@pytest.mark.long
def test_no_file_speaks_of_one_machine():
    names = files_in_git()
    assert "pyproject.toml" in names
    found = {name: of_a_machine(text_of(ROOT / name)) for name in names}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("open('/" + "home/ada/x.py')", 1),
        ("see /" + "tmp/x", 1),
        ("C:\\" + "Users\\ada", 1),
        ("--index-url https://pypi" + ".org/simple", 1),
        ("https://download.pytorch" + ".org/whl/cu130", 1),
        ("https://download.pytorch.org/whl/cpu", 0),
        ("http://" + "10.0.0.7:8080/simple", 1),
        ("http://127.0.0.1:8888/lab/tree/work/x", 0),
        ("#!/usr/bin/env python3, https://example.org/home/x, a/work/b", 0),
    ],
)
def test_what_counts_as_speaking_of_one_machine(text, count):
    assert len(of_a_machine(text)) == count


def test_package_data_is_all_there():
    """Whatever lies beside the explorers' code is installed with them."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    folder = ROOT / "every_byte" / "widget"
    installed = {path for pattern in data["every_byte.widget"] for path in folder.glob(pattern)}
    beside = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert beside == installed
