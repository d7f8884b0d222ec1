"""A launcher in front of a program: torchrun, accelerate launch, deepspeed, fabric run, or Python itself.

A launcher is asked what it would start, by running it (launching.py), so its own options and files of settings count.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from every_byte.terminal import first_line

BY_NAME = {
    "torchrun": "torch.distributed.run",
    "accelerate": "accelerate.commands.accelerate_cli",
    "deepspeed": "deepspeed.launcher.runner",
    "fabric": "lightning.fabric.cli",
}
MODULES = frozenset(
    (*BY_NAME.values(), "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.launch")
)
_ALONE = frozenset(("-u", "-B", "-E", "-I", "-O", "-OO", "-s", "-S", "-P"))
"""Options of Python that change nothing here; the others are not followed."""


@dataclass(frozen=True)
class Words:
    """A program as one types it: `words` of a script, or of a module behind `-m`, and what a launcher has added.

    `environment` has what the launcher sets; `ranks` and `ranks_here` are how many processes it starts, in all and on
    one machine, None without a launcher that says.
    """

    words: tuple[str, ...]
    is_module: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int | None = None
    ranks_here: int | None = None

    @property
    def launcher(self) -> str | None:
        """The module of the launcher that stands in front, if one does."""
        first = self.words[0] if self.words else ""
        if self.is_module:
            return first if first in MODULES else None
        return BY_NAME.get(os.path.basename(first))

    @property
    def is_python(self) -> bool:
        """Whether it is Python that stands in front."""
        name = os.path.basename(self.words[0]) if self.words and not self.is_module else ""
        return name.removesuffix(".exe").rstrip("0123456789.") == "python" and not name.endswith(".py")


def unwrapped(program: Words, n_gpus: int | None, rank: int = 0) -> Words:
    """The program that a launcher would start as one of its ranks, on a machine with so many GPUs (None: one).

    Raises: ValueError for a launcher that starts nothing of Python, or other than `n_gpus` ranks, and for an option of
            Python that is not followed; ModuleNotFoundError for a launcher that is not installed.

    >>> unwrapped(Words(("python", "-u", "train.py", "--lr", "1")), None).words
    ('train.py', '--lr', '1')
    """
    while True:
        if program.is_python:
            program = _behind_python(program)
        elif program.launcher is not None:
            program = _started(program, program.launcher, n_gpus, rank)
        else:
            break
    if n_gpus is not None and program.ranks not in (None, n_gpus):
        raise ValueError(
            f"--ranks must be what the launcher starts: got --ranks {n_gpus}, and it starts {program.ranks}; "
            "leave --ranks out."
        )
    return program


def _behind_python(program: Words) -> Words:
    rest = list(program.words[1:])
    while rest and rest[0] in _ALONE:
        del rest[0]
    if rest and rest[0].startswith("-m") and (len(rest[0]) > 2 or len(rest) > 1):
        module = [rest[0][2:]] if len(rest[0]) > 2 else []
        return replace(program, words=(*module, *rest[1:]), is_module=True)
    if not rest or rest[0].startswith("-"):
        said = f"got {rest[0]!r}" if rest else "got none"
        raise ValueError(f"behind python must stand a script, or -m and a module: {said}; try every-byte run train.py.")
    return replace(program, words=tuple(rest))


def _started(program: Words, module: str, n_gpus: int | None, rank: int) -> Words:
    """The launcher's rank of that number."""
    name = " ".join(program.words[:2])
    found = _asked(module, program, n_gpus)
    if not found:
        raise ValueError(f"{name} must start a program: it started none; try every-byte run --ranks 8 train.py.")
    command, environment = next((each for each in found if each[1].get("RANK") == str(rank)), found[0])
    before = {**os.environ, **program.environment}
    changed = {key: value for key, value in environment.items() if before.get(key) != value}
    all_ = environment.get("WORLD_SIZE")
    here = environment.get("LOCAL_WORLD_SIZE", environment.get("LOCAL_SIZE"))  # as PyTorch, and as DeepSpeed says it
    words = tuple(word.replace("${local_rank}", str(rank % int(here or 1))) for word in command)
    environment = program.environment | changed
    inner = Words(words, False, environment, int(all_) if all_ else None, int(here) if here else None)
    if not inner.is_python:
        raise ValueError(f"{name} must start a program of Python: got {words[0]!r}; leave --no-python out.")
    return inner


def _asked(module: str, program: Words, n_gpus: int | None) -> list[tuple[list[str], dict[str, str]]]:
    """What it would start. A process of its own asks: a launcher, and what it imports, leave this one as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "started.json"
        asking = [sys.executable, "-m", "every_byte.cli.launching", str(path), str(n_gpus or 1), module]
        environment = {**os.environ, **program.environment}
        found = subprocess.run(
            [*asking, *program.words[1:]], env=environment, capture_output=True, text=True, check=False
        )
        if found.returncode:
            raise ValueError(f"{' '.join(program.words[:2])} starts nothing: {_last_line(found.stderr)}")
        sys.stderr.write(found.stderr)
        return [(command, environment) for command, environment in json.loads(path.read_text(encoding="utf-8"))]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return first_line(lines[-1]) if lines else "it ended without a word"


def take_environment(changed: dict[str, str]) -> None:
    """Let this process have what a launcher sets, paths of Python's modules too."""
    os.environ.update(changed)
    sys.path += [each for each in changed.get("PYTHONPATH", "").split(os.pathsep) if each and each not in sys.path]
