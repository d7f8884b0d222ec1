"""Steps of training a reader's model: made, run on a simulated GPU as a training loop would, and reported."""

import inspect
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU

from . import batch as batches
from .report import Report
from .training import Training
from .undrawn import undrawn

PRECISIONS = {
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "autocast": (torch.float32, torch.bfloat16),
    "autocast float16": (torch.float32, torch.float16),
}
"""The type of the weights, and the one that autocast computes in."""
OPTIMIZERS: dict[str, Callable] = {
    "AdamW": torch.optim.AdamW,
    "AdamW, fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "AdamW, loop": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
    "Adam": torch.optim.Adam,
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "SGD, momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "Adafactor": torch.optim.Adafactor,
    "none": lambda parameters: None,
}
"""By name, each with PyTorch's own defaults."""
END_OF_FORWARD = "end of forward"
"""The mark that each step sets in its trace when its loss is there."""


@dataclass(frozen=True)
class TrainingStep:
    """What a step of training is: how the model is made, what it gets, its loss, its optimizer and its precision.

    `make` returns a model for values of those letters that are its arguments; `batch` is as `batch.made` has it, or a
    function of letters that returns one. `loss` takes the model's output and the batch; None: the output has it.
    A step has so many `micro_batches`, each of the letters' sizes: their gradients are added up, as those of a mean.

    Raises: ValueError for a precision or an optimizer that there is not.
    """

    make: Callable[..., nn.Module]
    batch: object
    loss: Callable | None = None
    optimizer: str | Callable = "AdamW"
    precision: str = "float32"
    letters: Mapping[str, int] = field(default_factory=dict)
    micro_batches: int = 1

    def __post_init__(self) -> None:
        for what, known in (("precision", PRECISIONS), ("optimizer", OPTIMIZERS)):
            value = getattr(self, what)
            if isinstance(value, str) and value not in known:
                raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}: got {value!r}.")

    @property
    def wanted(self) -> set[str]:
        """The letters that the model's function and the batch have."""
        of_batch = _arguments(self.batch) if callable(self.batch) else batches.letters_of(self.batch)
        return _arguments(self.make) | of_batch

    def of_letters(self, letters: Iterable[str]) -> "TrainingStep":
        """The same step with these letters alone: the others are numbers now.

        Raises: ValueError for a letter that it does not have.
        """
        kept = tuple(letters)
        if unknown := [letter for letter in kept if letter not in self.letters]:
            raise ValueError(f"letters must be among {', '.join(self.letters)}: got {unknown[0]!r}.")
        fixed = {letter: n for letter, n in self.letters.items() if letter not in kept}
        make, batch = _with(self.make, fixed), self.batch
        if not callable(batch) and batches.letters_of(batch) & fixed.keys():
            batch = _of(batches.letters_of(batch), lambda **values: batches.made(self.batch, values))
        batch = _with(batch, fixed) if callable(batch) else batch
        return replace(self, make=make, batch=batch, letters={x: n for x, n in self.letters.items() if x in kept})

    def run(self, gpu: str | GPUSpec, n_steps: int = 2, settings: str = "", *, notes_calls: bool = False) -> Report:
        """So many steps on a fresh simulated GPU that stands for "cuda", and their report; out of memory is reported.

        What is written is what a training script does: model, `.to("cuda")`, optimizer; then, step by step, the batch,
        forward, loss, backward, the optimizer's step, `zero_grad`. With `notes_calls` its trace has those.
        """
        start, ended, exit_code = time.perf_counter(), f"{n_steps} steps were run", 0
        model = self._model()
        with SimulatedGPU(gpu, cuda=True, settings=settings) as simulated, _reported():
            simulated.trace.calls = {} if notes_calls else None
            with Training(simulated) as training:
                try:
                    self._train(model, n_steps, lambda: simulated.trace.mark(END_OF_FORWARD))
                except torch.OutOfMemoryError as error:
                    ended, exit_code = f"torch.OutOfMemoryError: {str(error).splitlines()[0]}", 1
            return Report.of(
                simulated, steps=training.steps(), ended=ended, exit_code=exit_code,
                seconds=time.perf_counter() - start, was_stopped=not exit_code,
            )  # fmt: skip

    def train(self, n_steps: int) -> None:
        """So many steps on whatever "cuda" is: the machine's own GPU, or a simulated one that is open."""
        self._train(self._model(), n_steps)

    def readings(self, gpu) -> dict[str, int]:
        """Two steps on an open GPU, live or simulated: what each of both has allocated at most, and at its end.

        Unit:   bytes.
        """
        found: dict[str, int] = {}

        def read(number: int) -> None:
            found[f"step {number}, at most"] = gpu.max_memory_allocated()
            found[f"step {number}, at its end"] = gpu.memory_allocated()
            gpu.reset_peak_memory_stats()

        with _reported():
            self._train(self._model(), 2, device=gpu.device, at_end_of_step=read)
        return found

    def loss_on(self, model: nn.Module, device: str = "cuda", *, is_drawn: bool = False) -> torch.Tensor:
        """The loss of a batch on a device, or on whatever "cuda" is, where a model goes for it.

        Where values matter, the batch's numbers are drawn: `is_drawn`.
        """
        model.to(device, PRECISIONS[self.precision][0])
        with nullcontext() if is_drawn else undrawn():
            batch = self._made_batch()
        return self._forward(model, batches.moved(batch, device), device)

    def _model(self) -> nn.Module:
        with undrawn():
            return called_with(self.make, self.letters).train()

    def _train(
        self,
        model: nn.Module,
        n_steps: int,
        at_end_of_forward: Callable[[], object] = lambda: None,
        *,
        device: str | torch.device = "cuda",
        at_end_of_step: Callable[[int], object] = lambda number: None,
    ) -> None:
        model.to(device, PRECISIONS[self.precision][0])
        make_optimizer = OPTIMIZERS[self.optimizer] if isinstance(self.optimizer, str) else self.optimizer
        optimizer = make_optimizer([p for p in model.parameters() if p.requires_grad])
        for number in range(1, n_steps + 1):  # batch and loss keep their names into the next step, as in a script
            for _ in range(self.micro_batches):
                batch = batches.moved(self._batch(), device)
                loss = self._forward(model, batch, device)
                if self.micro_batches > 1:
                    loss = loss / self.micro_batches
                at_end_of_forward()
                loss.backward()
            if optimizer is not None:
                optimizer.step()
            model.zero_grad()
            at_end_of_step(number)

    def _forward(self, model: nn.Module, batch, device: str | torch.device) -> torch.Tensor:
        computed = PRECISIONS[self.precision][1]
        with torch.autocast(torch.device(device).type, computed) if computed else nullcontext():
            return self._loss(_called(model, batch), batch)

    def _batch(self):
        with undrawn():
            return self._made_batch()

    def _made_batch(self):
        found = called_with(self.batch, self.letters) if callable(self.batch) else self.batch
        return batches.made(found, self.letters)

    def _loss(self, output, batch) -> torch.Tensor:
        if self.loss is not None:
            return self.loss(output, batch)
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", output)
        if isinstance(found, torch.Tensor) and found.dim() == 0 and found.requires_grad:
            return found
        raise ValueError(
            "loss must be given where the model returns none: got "
            f"{type(output).__name__}; try loss=lambda output, batch: output.square().mean()."
        )


@contextmanager
def _reported() -> Iterator[None]:
    """Without the warnings of a simulated GPU, whose every one the report has by name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".* is not modelled\b", UserWarning)
        warnings.filterwarnings("ignore", "nothing is computed on a simulated GPU", UserWarning)
        yield


def _called(model: nn.Module, batch):
    """What a model returns for a batch: a dict's parts by name, a tuple's by place, anything else as the one."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple | list) else model(batch)


def _arguments(function: Callable) -> set[str]:
    """The names of a function's arguments, letters all of them."""
    return set(inspect.signature(function).parameters)


def _with(function: Callable, fixed: Mapping[str, int]) -> Callable:
    """A function of letters without those that are numbers now."""
    names = _arguments(function)
    if not names & fixed.keys():
        return function
    given = {letter: n for letter, n in fixed.items() if letter in names}
    return _of(names - fixed.keys(), lambda **values: function(**values | given), function)


def _of(letters: Collection[str], function: Callable, like: Callable | None = None) -> Callable:
    """A function that says by its signature which letters it takes."""

    def made(**values: int):
        return function(**values)

    made.__name__ = getattr(like, "__name__", "a function")
    made.__signature__ = inspect.Signature(
        [inspect.Parameter(x, inspect.Parameter.KEYWORD_ONLY) for x in sorted(letters)]
    )
    return made


def called_with(function: Callable, letters: Mapping[str, int]):
    """What a function returns that has some of the letters as arguments.

    Raises: ValueError for one without a value.
    """
    wanted = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted):
        return function(**letters)
    required = [p.name for p in wanted if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if missing := [name for name in required if name not in letters]:
        name = getattr(function, "__name__", "a function")
        raise ValueError(
            f"every letter must have a value: {missing[0]} of {name} has none; try account(…, {missing[0]}=8)."
        )
    return function(**{p.name: letters[p.name] for p in wanted if p.name in letters})


def copies_of(model: nn.Module) -> Callable[[], nn.Module]:
    """A function that returns a copy of a model, which itself stays where it is and as it is."""
    return lambda: deepcopy(model)
