"""The locks: each package at the version of constraints.txt, each with hashes, and the lab's are all that it needs."""

import re

import pytest
from packaging.requirements import Requirement
from pins import constraints, declared, holds, installed_closure, name_of
from places import ROOT

from tools.lock import OF_TORCH, TOOLS, blocks

LOCKS = ("lab", "torch", "tools")


def locked(name: str) -> dict[str, Requirement]:
    found = [one.split(" \\", 1)[0] for one in blocks((ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8"))]
    return {name_of(one): one for one in map(Requirement, found)}


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_is_exact_and_has_its_hashes(name):
    for block in blocks((ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")):
        first, *hashes = [line.strip(" \\") for line in block.splitlines()]
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", first), first
        assert hashes, f"no hash: {first}"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), first


@pytest.mark.parametrize("name", ["lab", "torch"])
def test_their_versions_are_those_of_constraints(name):
    pins = {package: str(one.specifier) for package, one in constraints().items()}
    found = {package: str(one.specifier) for package, one in locked(name).items()}
    assert found == {package: pins.get(package) for package in found}


def test_what_the_lab_needs_here_is_locked():
    needed = installed_closure(declared("site", "test", "zoo", "hub", "pytest"))
    here = {name for lock in ("lab", "torch") for name, one in locked(lock).items() if holds(one)}
    assert needed - here == set()
    assert {name for name in here if not OF_TORCH.match(name)} == {name for name in needed if not OF_TORCH.match(name)}


def test_torch_is_locked_apart():
    assert not [name for name in locked("lab") if OF_TORCH.match(name)]
    assert "torch" in locked("torch")
    assert all(OF_TORCH.match(name) for name in locked("torch"))


def test_the_maintainers_programs_are_locked():
    assert set(TOOLS) <= set(locked("tools"))


def test_the_lab_is_installed_by_its_hashes():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("define install_lab")[1].split("endef")[0]
    locked, own = "--require-hashes -r locks/lab.txt", "--no-build-isolation -c constraints.txt -e ."
    lines = [line for line in recipe.splitlines() if "pip install" in line]
    assert [locked in line or own in line or "--no-index" in line for line in lines] == [True] * 4
    assert [line for line in lines if "--no-index" in line and "--no-deps" not in line] == []
