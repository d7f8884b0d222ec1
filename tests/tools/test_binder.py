"""binder/ installs what `make lab` does, on the CPU build, and starts JupyterLab with the same options."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from places import ROOT

BINDER = ROOT / "binder"
CPU = "https://download.pytorch.org/whl/cpu"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def installations(text: str) -> list[str]:
    """What pip is told, in each of its calls but those that are made where torch is not there yet."""
    lines = [line for line in text.replace("\\\n", "").splitlines() if "||" not in line]
    return re.findall(r"pip install (?:--no-cache-dir )?(.*)", "\n".join(lines))


def test_it_installs_what_make_lab_does_with_torch_of_the_cpu_index(tmp_path):
    command = ["make", "-n", f"VENV={tmp_path}", f"TORCH_INDEX={CPU}", f"{tmp_path}/.installed-lab"]
    of_make = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert len(installations(of_make)) == 3
    assert installations((BINDER / "postBuild").read_text(encoding="utf-8")) == [
        words.replace(f'"{CPU}"', CPU) for words in installations(of_make)
    ]


def test_its_python_is_one_that_the_book_is_tested_on():
    version = (BINDER / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(version)
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    assert f"'{version}'" in str(jobs)


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_its_scripts_can_be_run(name):
    assert os.access(BINDER / name, os.X_OK)
    subprocess.run(["bash", "-n", str(BINDER / name)], check=True)


@pytest.mark.nightly
def test_the_server_gets_the_options_of_make_lab(tmp_path):
    """Started as mybinder.org does, from whatever folder; it prints its configuration and ends."""
    known = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONWARNINGS": "",
    }
    command = [BINDER / "start", "jupyter", "lab", "--show-config-json"]
    ran = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout[ran.stdout.index("{\n") :])
    said = dict(re.findall(r"--((?:ServerApp|LabApp)\.\w+)=(\S+)", MAKEFILE.split("\nlab:")[1].split("\n\n")[0]))
    of_the_machine = {"ServerApp.ip", "ServerApp.port"}
    assert {f"{one}.{name}" for one in ("ServerApp", "LabApp") for name in found[one]} >= said.keys() - of_the_machine
    for name in ("contents_manager_class", "kernel_websocket_connection_class"):
        assert found["ServerApp"][name] == said[f"ServerApp.{name}"]
    assert Path(found["ServerApp"]["root_dir"]) == ROOT
    assert found["LabApp"]["default_url"] == "/lab/tree/chapters/00_start_here.ipynb"
    assert found["LabApp"]["extra_labextensions_path"] == [str(ROOT / "build" / "lab")]


def test_it_stays_within_the_memory_of_a_reader():
    """As in a class of many: one thread, two arenas."""
    ran = subprocess.run([BINDER / "start", "env"], capture_output=True, text=True, check=True)
    assert {"OMP_NUM_THREADS=1", "MALLOC_ARENA_MAX=2"} <= set(ran.stdout.splitlines())
