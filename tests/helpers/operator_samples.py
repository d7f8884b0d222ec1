"""PyTorch's own database of operators: its samples, brought to a GPU, and what they allocate there.

The database (`op_db`, which PyTorch's tests are made of) knows for each operator how it may be called: shapes, strides,
settings. The same samples are run over the CUDA build and on the simulated GPU, forward and backward; this file needs
nothing but PyTorch, so that both can read it.
"""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, pairwise

import torch

MODES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "autocast": torch.float32}
"""How samples are run: of which type they are; under autocast, they go to bfloat16."""
ON_A100 = {
    "complex64": torch.complex64,
    "float16": torch.float16,
    "float64": torch.float64,
    "int64": torch.int64,
    "bool": torch.bool,
}
"""Types of samples that are run on one card alone."""


@dataclass(frozen=True)
class Outcome:
    """What became of one sample: its allocations and frees forward and backward, the error that it raised, and whether
    the host waited for the GPU, which it does to read a value."""

    forward: str
    backward: str
    error: str = ""
    waits: bool = field(default=False, compare=False)


@cache
def operators() -> dict[str, object]:
    """The database, by full name."""
    with as_without_gpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {name_of(op): op for op in op_db}


def name_of(op) -> str:
    """An operator's name, and its variant's: PyTorch has several of a few."""
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def drawn(op, mode: str) -> Iterator:
    """The samples of an operator in a mode, on the CPU, the same in each process; none where it knows no such type."""
    dtype = (MODES | ON_A100)[mode]
    known = {*op.dtypes, *op.dtypesIfCUDA}
    if dtype not in known and not (dtype is torch.bfloat16 and torch.float16 in known):
        return  # bfloat16 is known of some operators on some GPUs alone
    torch.manual_seed(0)
    random.seed(0)
    differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    samples = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    while True:
        with as_without_gpu(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = next(samples, None)
        if sample is None:
            return
        yield sample


@contextmanager
def as_without_gpu() -> Iterator[None]:
    """PyTorch says that there is no GPU: with one, a few operators have more samples."""
    asked = torch.cuda.is_available
    torch.cuda.is_available = lambda: False
    try:
        yield
    finally:
        torch.cuda.is_available = asked


def signature(sample) -> str:
    """What a sample's tensors and settings are, for it to be told from others: their order is not always the same."""
    return " ".join(_described((sample.input, sample.args, sample.kwargs)))


def _described(value) -> Iterator[str]:
    if isinstance(value, torch.Tensor):
        yield f"{str(value.dtype)[6:]}{list(value.shape)}{list(value.stride())}".replace(" ", "")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from (f"{name}={text}" for text in _described(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _described(item)
    elif isinstance(value, (bool, int, float, complex, str, torch.dtype, type(None))):
        yield str(value).removeprefix("torch.")


def _mapped(value, function: Callable[[torch.Tensor], torch.Tensor]):
    """A value of lists, tuples and dicts with each tensor in it replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {name: _mapped(item, function) for name, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple, torch.Size):
        return type(value)(_mapped(item, function) for item in value)
    return value


def brought(sample, device: torch.device) -> tuple:
    """A sample's input, arguments and keywords on a device, with the strides that they have on the CPU."""

    def bring(x: torch.Tensor) -> torch.Tensor:
        if x.layout is not torch.strided:
            return x.detach().to(device).requires_grad_(x.requires_grad)
        whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to(device)
        there = whole.as_strided(x.shape, x.stride(), x.storage_offset())
        there = there.conj() if x.is_conj() else there
        there = torch._neg_view(there) if x.is_neg() else there
        return there.detach().requires_grad_(x.requires_grad)

    args, kwargs = _mapped((sample.args, sample.kwargs), bring)
    args = tuple(device if _is_cpu(value) else value for value in args)
    kwargs = {name: device if _is_cpu(value) else value for name, value in kwargs.items()}
    return _mapped(sample.input, bring), args, kwargs


def _is_cpu(value) -> bool:
    """Whether a sample says so that it wants the CPU: it was drawn there."""
    return value == "cpu" if isinstance(value, str) else isinstance(value, torch.device)


def run(op, mode: str, sample, device: torch.device, between: Callable[[], None], autocast: Callable) -> None:
    """One sample forward and backward; `between` is called before, between and after."""
    operand, args, kwargs = brought(sample, device)
    between()
    with autocast(torch.bfloat16) if mode == "autocast" else nullcontext():
        out = op(operand, *args, **kwargs)
    between()
    if any(x.requires_grad for x in _tensors((operand, args, kwargs))):
        outs = [x for x in _tensors(sample.output_process_fn_grad(out)) if x.requires_grad]
        if outs:
            torch.autograd.backward(outs, [torch.zeros_like(x) for x in outs])
        del outs
    del out
    between()


def _tensors(value) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _mapped(list(value) if isinstance(value, (list, tuple)) else value, lambda x: found.append(x) or x)
    return found


Event = tuple[bool, int, int]
"""Whether it is an allocation or a free, of which block, of how many bytes."""


def outcome(
    act: Callable[[Callable[[], None]], None], position: Callable[[], int], events: Callable[[], list]
) -> Outcome:
    """Run one sample by `act`, which is given what to call between its parts, and note what it allocated.

    `position` says how many events there are so far, `events` gives those since it was first asked: None for one that
    is neither an allocation nor a free.
    """
    marks: list[int] = []
    error = ""
    try:
        act(lambda: marks.append(position()))
    except Exception as raised:
        error = reason(raised)
    marks.append(position())
    held = events()
    parts = [[event for event in held[a - marks[0] : b - marks[0]] if event] for a, b in pairwise(marks)]
    forward, backward = in_words(parts[:2])
    return Outcome(forward, backward, error)


def reason(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def in_words(parts: list[list[Event]]) -> tuple[str, str]:
    """The events of the forward and of the backward pass, each in a line: "512 64 -1 -0".

    Bytes are what is allocated, with a minus the number of what is freed: of the blocks of this sample, in order; x is
    one that was there before. Frees that follow each other are sorted: their order differs between runs of PyTorch.
    """
    numbers: dict[int, int] = {}
    lines = ["", ""]
    for place, part in enumerate(parts):
        words: list[str] = []
        for is_allocation, run in groupby(part, key=lambda event: event[0]):
            if is_allocation:
                for _, block, n_bytes in run:
                    numbers[block] = numbers.setdefault(-1, -1) + 1
                    numbers[-1] += 1
                    words.append(str(n_bytes))
            else:
                words += sorted(f"-{numbers.pop(block, 'x')}" for _, block, _ in run)
        lines[place] = " ".join(words)
    return lines[0], lines[1]
