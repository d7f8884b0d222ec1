"""The list of public programs: its table, and the data that it names."""

import os
import subprocess
import sys

import pytest
from places import ROOT

TOOL = ROOT / "tools" / "programs"
README = ROOT / "tests" / "reference" / "programs" / "README.md"


def asked(script: str, *arguments: str) -> str:
    run = subprocess.run([sys.executable, TOOL / script, *arguments], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_table_is_that_of_the_list():
    assert README.read_text(encoding="utf-8").endswith("\n\n" + asked("prepare.py", "--list"))


def test_each_program_names_data_that_can_be_made_and_a_whole_commit():
    code = (
        f"import sys; sys.path.insert(0, {str(TOOL)!r}); from prepare import ALL, DATA; from programs import OURS\n"
        "assert len(ALL) >= 100\n"
        "for p in ALL.values():\n"
        "    assert all(any(hasattr(module, name) for module in DATA) for name in p.data), p.name\n"
        "    assert len(p.source[1]) == (0 if p.source[0] == OURS else 40), p.name\n"
        f"    assert p.source[0] != OURS or __import__('pathlib').Path({str(TOOL)!r}, 'scripts', p.script).exists()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize("script", ["prepare.py", "compare.py"])
def test_an_unknown_program_is_refused_with_the_names_of_all(script):
    run = subprocess.run([sys.executable, TOOL / script, "nanoGPT"], capture_output=True, text=True, timeout=300)
    assert run.returncode == 2
    assert "got nanoGPT" in run.stderr
    assert "hf-gpt2-ckpt" in run.stderr


@pytest.mark.long
def test_what_the_host_knew_is_noted_and_the_program_runs_as_ever(tmp_path):
    """What the CUDA build over stubs is told: values from the host, how many of a mask, "-" for what is computed.

    Of a mask as an index that is asked as it selects, as values are put and in the gradient, not where one value fills.
    """
    (tmp_path / "train.py").write_text(
        'import torch\nx = torch.arange(3, device="cuda")\nprint(x.tolist(), x.sum().item(), x.equal(x.clone()))\n'
        "y = x[x > 0]\nx[x > 0] = y\nx[x > 0] = 1\n"
        "w = torch.ones(3, device='cuda', requires_grad=True)\nw[x > 0].sum().backward()\n"
        "z = torch.empty(1)\nz.copy_(torch.randn(1, device='cuda'))\nraise SystemExit(3)\n"
    )
    command = [sys.executable, TOOL / "known.py", "answers.txt", "run", "--quiet", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (3, "[0, 1, 2] 3 True\n"), run.stderr
    numbers = "".join(f"{i:02x}" + "00" * 7 for i in range(3))
    told = [f"24 {numbers}", f"8 03{'00' * 7}", "1 01", *["count 2"] * 4, "4 -"]
    assert (tmp_path / "answers.txt").read_text().splitlines() == told
