"""`make lab`'s first installation may be interrupted at any moment: the next one goes on, and what is whole is kept."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from places import ROOT

MADE = ".venv/.made"
HEEDING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a process in the background ignores
os.execvp("make", ["make", *sys.argv[1:]])
"""


@pytest.fixture
def folder(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def make(folder, *words: str) -> subprocess.CompletedProcess:
    command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", *words]
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone)


def has_pip(folder) -> bool:
    return not subprocess.run(
        [folder / ".venv" / "bin" / "python", "-m", "pip", "--version"], capture_output=True
    ).returncode


@pytest.mark.nightly
def test_an_environment_without_pip_is_made_whole(folder):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    ran = make(folder, MADE)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "1 of 3: a virtual environment in .venv, a few seconds\n"
    assert has_pip(folder)
    (folder / MADE).unlink()
    (folder / ".venv" / "ours").touch()
    assert make(folder, MADE).returncode == 0
    assert (folder / ".venv" / "ours").exists()  # what is whole is kept
    assert make(folder, MADE).stdout == f"make: '{MADE}' is up to date.\n"


@pytest.mark.nightly
@pytest.mark.parametrize("lacking", ["pip/__main__.py", "pip-*.dist-info/RECORD", "pip-*.dist-info/METADATA"])
def test_an_environment_with_a_part_of_pip_is_made_whole(folder, lacking):
    assert make(folder, MADE).returncode == 0
    (folder / MADE).unlink()
    next(folder.glob(f".venv/lib/*/site-packages/{lacking}")).unlink()
    assert make(folder, MADE).returncode == 0
    assert has_pip(folder)


@pytest.mark.nightly
@pytest.mark.parametrize("after_s", [0.2, 0.6, 1.2, 2.0, 3.0, 4.5])
def test_ctrl_c_while_it_is_made(folder, after_s):
    """As at a keyboard, where each process of the group gets it."""
    command = [sys.executable, "-c", HEEDING, f"PYTHON={sys.executable}", MADE]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, start_new_session=True, **pipes) as process:
        time.sleep(after_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=300)
    if process.returncode:
        assert not (folder / MADE).exists()
    assert make(folder, MADE).returncode == 0
    assert has_pip(folder)
