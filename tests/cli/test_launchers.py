"""Launchers in front of a program: what they would start is run instead, as one of their ranks."""

import json
import os
import subprocess
import sys
from textwrap import dedent

import pytest

from every_byte.cli import launching
from every_byte.cli.launchers import Words, unwrapped
from every_byte.cli.options import gpu_of, program_of, understood

SAYS = "import os, sys; print(sys.argv[1:], os.environ.get('RANK'), os.environ.get('MIXED'))"
LAUNCHERS = {
    # as accelerate starts one process, or by torchrun's own code several; its settings stand in the environment
    "accelerate/commands/accelerate_cli.py": """
        import os, subprocess, sys
        import torch
        import torch.distributed.run as torchrun

        n, script = int(sys.argv[2]), sys.argv[3:]
        n = n or torch.cuda.device_count()
        subprocess.run(["true"], check=True)  # as it asks the machine: this one runs
        if n == 1:
            environment = {**os.environ, "MIXED": "bf16"}
            subprocess.Popen([sys.executable, *script], env=environment).wait()
        else:
            os.environ["MIXED"] = "bf16"
            torchrun.main(["--nproc-per-node", str(n), *script])
    """,
    # as DeepSpeed's: a process on each machine, which starts the ranks
    "deepspeed/launcher/runner.py": """
        import os, subprocess, sys

        _, count, *script = sys.argv[1:]
        command = [sys.executable, "-u", "-m", "deepspeed.launcher.launch", count, *script]
        sys.exit(subprocess.Popen(command, env=os.environ.copy()).wait())
    """,
    "deepspeed/launcher/launch.py": """
        import os, subprocess, sys

        count, script, *words = sys.argv[1:]
        for rank in range(int(count)):
            ranked = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": count, "LOCAL_SIZE": count}
            command = [sys.executable, "-u", script, f"--local_rank={rank}", *words]
            process = subprocess.Popen(command, env={**os.environ, **ranked})
            assert process.poll() == 0
    """,
}


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A folder with a script and launchers that start processes as accelerate and DeepSpeed do."""
    for name, text in LAUNCHERS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    (tmp_path / "train.py").write_text(SAYS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS", "MIXED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*words, n_gpus=None, rank=0):
    found = unwrapped(Words(words), n_gpus, rank)
    return found.words, found.ranks, found.ranks_here


def test_torchrun_says_how_many_ranks(there):
    found = started("torchrun", "--nproc-per-node", "8", "train.py", "--lr", "1")
    assert found == (("train.py", "--lr", "1"), 8, 8)


def test_machines(there):
    found = started("torchrun", "--nnodes", "2", "--nproc_per_node=4", "train.py", rank=5)
    assert found == (("train.py",), 8, 4)


def test_the_machine_has_as_many_gpus_as_ranks_are_said(there):
    assert started("torchrun", "--nproc-per-node", "gpu", "train.py", n_gpus=4) == (("train.py",), 4, 4)
    assert started("bin/accelerate", "launch", "0", "train.py", n_gpus=2) == (("train.py",), 2, 2)


def test_pythons_own_module_is_a_launcher_too(there):
    found = started("python3", "-u", "-m", "torch.distributed.launch", "--nproc_per_node", "2", "train.py", rank=1)
    assert found == (("train.py", "--local-rank=1"), 2, 2)
    assert unwrapped(Words(("torch.distributed.run", "train.py"), is_module=True), None).words == ("train.py",)


def test_what_a_launcher_sets_is_kept(there):
    one = unwrapped(Words(("accelerate", "launch", "1", "train.py", "--x")), None)
    assert (one.words, one.ranks, one.environment["MIXED"]) == (("train.py", "--x"), None, "bf16")
    four = unwrapped(Words(("accelerate", "launch", "4", "train.py")), None)
    assert (four.words, four.ranks, four.environment["MIXED"]) == (("train.py",), 4, "bf16")


def test_a_launcher_that_starts_another(there):
    found = unwrapped(Words(("deepspeed", "--num_gpus", "4", "train.py", "--config", "ds.json")), None, 2)
    assert found.words == ("train.py", "--local_rank=2", "--config", "ds.json")
    assert (found.ranks, found.ranks_here, found.environment["RANK"]) == (4, 4, "2")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("python", "train.py", "-u"), Words(("train.py", "-u"))),
        (("/usr/bin/python3.11", "-B", "-u", "train.py"), Words(("train.py",))),
        (("python", "-m", "package.train", "x"), Words(("package.train", "x"), is_module=True)),
        (("python.py", "x"), Words(("python.py", "x"))),
        (("train.py", "torchrun"), Words(("train.py", "torchrun"))),
    ],
)
def test_python_in_front(words, found):
    assert unwrapped(Words(words), None) == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("python", "-c", "1"),
            "behind python must stand a script, or -m and a module: got '-c'; try every",
        ),
        (("python", "-m"), "behind python must stand a script, or -m and a module: got '-m'"),
        (("python",), "behind python must stand a script, or -m and a module: got none"),
        (("torchrun",), "torchrun starts nothing: .*the following arguments are required: training_script"),
        (("torchrun", "--no-python", "ls", "-l"), "torchrun --no-python must start a program of Python: got 'ls'"),
        (("fabric", "run", "train.py"), "fabric run starts nothing: .*No module named"),
    ],
)
def test_what_cannot_be_followed(there, words, sentence):
    with pytest.raises(ValueError, match=sentence):
        unwrapped(Words(words), None)


def test_ranks_that_the_launcher_does_not_start(there):
    with pytest.raises(ValueError, match="got --ranks 4, and it starts 8; leave --ranks out"):
        started("torchrun", "--nproc-per-node", "8", "train.py", n_gpus=4)


def test_a_launcher_that_starts_nothing(there):
    (there / "accelerate/commands/accelerate_cli.py").write_text("print('Not found')")
    with pytest.raises(ValueError, match=r"accelerate env must start a program: it started none; try every-byte run"):
        started("accelerate", "env")


def test_the_command_runs_as_the_rank(there, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    options = understood(["--rank", "5", "torchrun", "--nnodes", "2", "--nproc-per-node", "4", "train.py", "--quiet"])
    program = program_of(options)
    gpu_of(options)
    assert (program.name, program.arguments) == ("train.py", ("--quiet",))
    assert (os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["GROUP_RANK"]) == ("5", "1", "1")
    assert (options.ranks, options.ranks_here) == (8, 4)


def test_as_a_program(there):
    call = [sys.executable, "-m", "every_byte", "run", "accelerate", "launch", "4", "train.py", "--x"]
    found = subprocess.run(call, capture_output=True, text=True, check=True)
    assert found.stdout == "['--x'] 0 bf16\n"
    assert "rank 0 of 4" in found.stderr


def test_what_launching_writes_down(there, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv[:])
    monkeypatch.setattr(sys, "path", [str(there), *sys.path])
    assert launching.main([str(there / "started.json"), "1", "torch.distributed.run", "train.py", "--x"]) == 0
    [(command, environment)] = json.loads((there / "started.json").read_text())
    assert command[-2:] == ["train.py", "--x"]
    assert (environment["WORLD_SIZE"], environment["LOCAL_WORLD_SIZE"]) == ("1", "1")
