"""Small programs that know "cuda" alone: what each is told, and what it takes, on any GPU.

A file of tests/reference/as_cuda holds programs, functions that yield what they were told. Over the CUDA build they
were recorded; on a simulated GPU that stands for "cuda" they are to be told, and to take, the same.
"""

import gc
import json
import warnings
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isgeneratorfunction, signature

import torch
from places import RECORDED, REFERENCE

FOLDER = REFERENCE / "as_cuda"
FILE = RECORDED / "as_cuda.a100.json"
COUNTERS = ("allocation.all.allocated", "requested_bytes.all.allocated", "allocation.all.freed",
            "requested_bytes.all.freed", "requested_bytes.all.peak")  # fmt: skip


def programs(subject: str) -> dict[str, Callable]:
    """The programs of one subject, by name: the generator functions of its file."""
    path = FOLDER / f"{subject}.py"
    spec = spec_from_file_location(f"as_cuda_{subject}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return {
        name: f
        for name, f in vars(module).items()
        if isgeneratorfunction(f) and set(signature(f).parameters) <= {"device"}
    }


def subjects() -> list[str]:
    """The names of the files."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def recorded(subject: str) -> dict[str, list]:
    """What was recorded of each program of a subject: [what it was told, what it took]."""
    return json.loads(FILE.read_text(encoding="utf-8"))["subjects"][subject]


def raised(function: Callable, *args, **kwargs) -> str:
    """The name of the error that a call raises; what a card says in it may be longer than what is told here."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def warm_up() -> None:
    """Take cuBLAS's workspaces, of both threads."""
    x = torch.zeros(2, 2, device="cuda", requires_grad=True)
    (x @ x).sum().backward()


def begun(program: Callable, device="cuda"):
    """A program, begun: some know their device, others are told."""
    return program(device) if signature(program).parameters else program()


def ran(program: Callable) -> list:
    """[What a program was told, what it took]: allocations, their bytes, frees, their bytes, and how high it went.

    It runs twice: PyTorch imports some of itself late, which leaves cycles behind.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(begun(program))
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    gc.disable()  # a parametrized module is a cycle: between its going and the next one's coming nothing may be found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = [repr(each) for each in begun(program)]
    finally:
        gc.enable()
    gc.collect()
    after = torch.cuda.memory_stats()
    in_use = before["requested_bytes.all.current"]
    *took, peak = (after[name] - (in_use if name.endswith("peak") else before[name]) for name in COUNTERS)
    return [told, [*took, peak]]
