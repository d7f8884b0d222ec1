"""The Makefile says what is missing before it spends minutes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("goal", ["site", "screenshots"])
def test_npm_is_missed_before_anything_is_installed(tmp_path, goal):
    make, shell = shutil.which("make"), shutil.which("sh")
    (tmp_path / "bin").mkdir()
    for program in ("sh", "sed", "uname", "ls", "sort", "nproc", "id", "getconf", "python3"):
        if place := shutil.which(program):
            (tmp_path / "bin" / program).symlink_to(place)
    command = [make, "-f", str(ROOT / "Makefile"), f"SHELL={shell}", goal]
    outer = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")  # of `make test`, which may run this
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    environment["PATH"] = str(tmp_path / "bin")
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stdout == "The site needs Node.js with npm for mathematics and type. On Debian: apt-get install npm\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
