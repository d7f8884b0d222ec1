"""What pyproject.toml asks for, what constraints.txt pins, and what is installed here."""

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURSELVES = PROJECT["name"]
APART = ("zoo", "hub")  # extras that `make test` does not install
CONDA_NAMES = {"torch": "pytorch"}
CUDA_BUILD = re.compile(r"(cuda|nvidia|triton)\b")


def name_of(requirement: Requirement) -> str:
    return str(canonicalize_name(requirement.name))


def declared(*left_out: str) -> dict[str, Requirement]:
    """What pyproject asks for, extras included, but for those left out, by name."""
    lines = PROJECT["dependencies"] + [line for name, extra in EXTRAS.items() if name not in left_out for line in extra]
    requirements = [Requirement(line) for line in lines]
    return {name_of(one): one for one in requirements if name_of(one) != OURSELVES}


def constraints() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    names = [name_of(one) for one in requirements]
    assert len(names) == len(set(names)), "a package is named twice"
    return dict(zip(names, requirements, strict=True))


def is_installed(name: str) -> bool:
    return any(True for _ in metadata.distributions(name=name))


def absent() -> list[str]:
    """The extras that are not installed here, or not all of one."""
    return [extra for extra in APART if not all(map(is_installed, of_it_alone(extra)))]


def of_it_alone(extra: str) -> set[str]:
    return set(declared()) - set(declared(extra))


def installed() -> dict[str, Requirement]:
    """What pyproject asks for and is installed here."""
    return declared(*absent())


def pinned_for(extra: str) -> set[str]:
    """The names below the heading of constraints.txt that names an extra."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    below = text.split(f"# what the extra `{extra}` brings along")[1].split("\n\n")[0]
    return {name_of(Requirement(line)) for line in below.split("\n")[1:]}


def holds(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def installed_closure(declared_ones: dict[str, Requirement] | None = None) -> set[str]:
    """Every package that the declared ones (or those that are given) bring on this machine, themselves included."""
    ones = installed() if declared_ones is None else declared_ones
    todo, done = [(name, extra) for name, one in ones.items() for extra in {"", *one.extras}], set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        needs = [Requirement(line) for line in metadata.requires(name) or []]
        todo += [(name_of(one), e) for one in needs if holds(one, extra) for e in {"", *one.extras}]
    return {name for name, _ in done}
