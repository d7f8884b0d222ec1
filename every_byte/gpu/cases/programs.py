"""Files of cases: which of them are chosen, each run in a process of its own, and a line printed for each."""

import fnmatch
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

# Settings that change what PyTorch allocates: a case is run without them, but for those that it names.
SETTINGS = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
)


class Case(Protocol):
    """A program whose memory is recorded, on cards of these names; what it is given has a device and notes marks.

    It may also have `settings`, variables of its environment, and `memory_bytes`, that of the GPU.
    """

    cards: tuple[str, ...]
    cudnn_sdp: bool

    def __call__(self, env: Any, /) -> object: ...


def load_module(path: Path) -> ModuleType:
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(str(path), path)
    if spec is None or spec.loader is None:
        raise ValueError(f"a module must be a Python file: got {path}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def load_cases(path: Path) -> dict[str, Case]:
    """The `CASES` of a file such as tests/reference/cases.py, by name.

    Raises: ValueError for a file that does not exist.
    """
    if not path.is_file():
        raise ValueError(f"--cases must be a Python file with a dict CASES: got {path}, which does not exist.")
    cases: dict[str, Case] = load_module(path).CASES
    return cases


def settings_of(case: Case) -> dict[str, str]:
    """The variables of the environment in which a case is to run, `case.settings`; most cases name none."""
    settings: dict[str, str] = getattr(case, "settings", {})
    return settings


def summary(result: Mapping[str, Any], path: Path) -> str:
    """What was recorded, in a line."""
    peak = max((mark["peak"] for mark in result["marks"]), default=0)
    return f"largest peak {peak:,d} bytes: {path}"


def chosen(names: list[str], cases: Mapping[str, object]) -> list[str]:
    """The cases that one of the names stands for, in the order of the file; all of them without names.

    Raises: ValueError for a name that stands for none.
    """
    for name in names:
        if not any(fnmatch.fnmatchcase(case, name) for case in cases):
            raise ValueError(
                f"names must be those of cases, with * and ?: got {name!r}; try one of {', '.join(cases)}."
            )
    return [case for case in cases if not names or any(fnmatch.fnmatchcase(case, name) for name in names)]


def run_in_a_process(command: list[str], unset: Iterable[str], **settings: str) -> tuple[bool, str]:
    """Record one case in a process of its own: whether that went well, and the last that it said."""
    environment = {key: value for key, value in os.environ.items() if key not in unset} | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return False, done.stderr.strip()[-1500:]
    return True, done.stdout.strip().split("\n")[-1]


def say(title: str, good: bool, line: str) -> bool:
    """Print in a line how one case went."""
    print(f"{title:44s} {line if good else f'FAILED: {line}'}", flush=True)
    return good


def report(outcomes: list[bool]) -> int:
    """Print how many cases went well, and return the command's exit status: 1 if one did not."""
    print(f"{sum(outcomes)} recorded, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1
