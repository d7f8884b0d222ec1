"""Asks whether a known vulnerability is in a package that the book pins: `make audit`, which brings pip-audit.

It asks PyPI's advisories of what constraints.txt and locks/tools.txt name, and npm's of
the locks of book/ and tools/hub. Where nothing could be learnt of a package, that is said, and is a failure, too.

    0   all were asked, and none has one        1   one has        2   some could not be asked
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OF_PIP = ("constraints.txt", "locks/tools.txt")  # locks/lab.txt and torch.txt have the versions of the first
OF_NPM = ("book", "tools/hub")
FEW = 5  # names of packages that a line has
_OPTIONS = "--no-deps --disable-pip --format json --progress-spinner off".split()


class Answer(NamedTuple):
    """What is known of the packages of one file: how many were asked, which have something, which nobody told of."""

    source: str
    n_asked: int
    found: list[str]
    untold: list[str]


def of_pip_audit(source: str, told: str) -> Answer:
    """What pip-audit's JSON says."""
    packages = parsed(told).get("dependencies")
    if packages is None:
        return Answer(source, 0, [], ["all of it: no answer in JSON"])
    found = [
        f"{one['name']} {one['version']}: {known['id']}, mended in {', '.join(known['fix_versions']) or 'no version'}"
        for one in packages
        for known in one.get("vulns", ())
    ]
    untold = [one["name"] for one in packages if "skip_reason" in one]
    return Answer(source, len(packages) - len(untold), found, untold)


def of_npm_audit(source: str, told: str, packages: list[str]) -> Answer:
    """What npm's JSON says; npm asks of all packages at once."""
    answer = parsed(told)
    if "vulnerabilities" not in answer:
        return Answer(source, 0, [], packages)
    found = [f"{name}: {one['severity']}, {one['range']}" for name, one in answer["vulnerabilities"].items()]
    return Answer(source, len(packages), found, [])


def parsed(told: str) -> dict:
    """JSON as an auditor prints it; what is none says nothing."""
    try:
        found = json.loads(told or "{}")
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def ask_pip(source: str) -> Answer:
    """Asks of a file of requirements."""
    certificates = {"REQUESTS_CA_BUNDLE": cert} if (cert := os.environ.get("PIP_CERT")) else {}
    command = [sys.executable, "-m", "pip_audit", *_OPTIONS, "--requirement", source]
    run = subprocess.run(command, cwd=ROOT, env=certificates | os.environ, capture_output=True, text=True)
    if not run.stdout.strip():
        return Answer(source, 0, [], [f"all of it: {run.stderr.strip().splitlines()[-1:]}"])
    return of_pip_audit(source, run.stdout)


def ask_npm(folder: str) -> Answer:
    """Asks of the lock of a folder."""
    lock = json.loads((ROOT / folder / "package-lock.json").read_text(encoding="utf-8"))
    packages = [name.rpartition("node_modules/")[2] for name in lock["packages"] if name]
    source = f"{folder}/package-lock.json"
    try:
        command = ["npm", "audit", "--package-lock-only", "--json"]
        run = subprocess.run(command, cwd=ROOT / folder, capture_output=True, text=True)
    except FileNotFoundError:
        return Answer(source, 0, [], packages)
    return of_npm_audit(source, run.stdout, packages)


def report(answers: list[Answer]) -> int:
    """Prints what is known, and gives the exit status."""
    for source, n_asked, found, untold in answers:
        print(f"{source}: {n_asked} asked, {len(found)} known vulnerabilities, {len(untold)} not answered for")
        for line in found:
            print(f"  {line}")
        if untold:
            print(f"  no answer for {', '.join(untold[:FEW])}{', …' if len(untold) > FEW else ''}")
    if any(found for _, _, found, _ in answers):
        print("Known vulnerabilities: see above.")
        return 1
    if any(untold for *_, untold in answers):
        print("NOT AUDITED in full: the advisories could not be reached for the packages above.")
        return 2
    print("No known vulnerability.")
    return 0


if __name__ == "__main__":
    sys.exit(report([*map(ask_pip, OF_PIP), *map(ask_npm, OF_NPM)]))
