"""Steps of training a reader's model: made, run on a simulated GPU as a training loop would, and reported."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.report.report import Report
from every_byte.step.training import Training

from . import batch as batches
from .indices import watched_indices
from .initialization import without_initialization
from .letters import arguments, called_with, of_letters, with_numbers

AS_IT_IS = "as it is"
PRECISIONS = {
    AS_IT_IS: (None, None),
    "float32": (torch.float32, None),
    "bfloat16": (torch.bfloat16, None),
    "float16": (torch.float16, None),
    "autocast": (torch.float32, torch.bfloat16),
    "autocast float16": (torch.float32, torch.float16),
}
"""The type of the weights, None: as the model has them; and the one that autocast computes in."""
OPTIMIZERS: dict[str, Callable[..., Any]] = {
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
    function of letters that returns one, and all of it goes to the model. `targets` are more of that kind, which go to
    the loss alone. `loss` takes the model's output and the targets, or the batch where there are none; None: the output
    has it. A step has so many `micro_batches`, each of the letters' sizes: their gradients are added up, as those of a
    mean. With `keeps_output` the output has a name until the next one takes it, as in `output = model(batch)`; without,
    it is gone when backward begins, but for what backward needs.

    Raises: ValueError for a precision or an optimizer that there is not.
    """

    make: Callable[..., nn.Module]
    batch: object
    loss: Callable[..., Any] | None = None
    optimizer: str | Callable[..., Any] = "AdamW"
    precision: str = AS_IT_IS
    letters: Mapping[str, int] = field(default_factory=dict)
    micro_batches: int = 1
    targets: object = None
    keeps_output: bool = False

    def __post_init__(self) -> None:
        for what, known, function in (("precision", PRECISIONS, False), ("optimizer", OPTIMIZERS, True)):
            value = getattr(self, what)
            if value not in known and not (function and callable(value)):
                also = ", or a function of the parameters" if function else ""
                raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}{also}: got {value!r}.")

    @property
    def wanted(self) -> set[str]:
        """The letters that the model's function, the batch and the targets have."""
        return arguments(self.make) | _letters_of(self.batch) | _letters_of(self.targets)

    def of_letters(self, letters: Iterable[str]) -> "TrainingStep":
        """The same step with these letters alone: the others are numbers now.

        Raises: ValueError for a letter that it does not have, and for none.
        """
        kept = tuple(letters)
        if unknown := [letter for letter in kept if letter not in self.letters]:
            raise ValueError(f"letters must be among {', '.join(self.letters)}: got {unknown[0]!r}.")
        if not kept:
            raise ValueError(f"letters must be some of {', '.join(self.letters)}: got none.")
        fixed = {letter: n for letter, n in self.letters.items() if letter not in kept}
        return replace(
            self, make=with_numbers(self.make, fixed), batch=_with_numbers(self.batch, fixed),
            targets=_with_numbers(self.targets, fixed),
            letters={letter: n for letter, n in self.letters.items() if letter in kept},
        )  # fmt: skip

    def run(self, gpu: str | GPUSpec, n_steps: int = 2, settings: str = "", *, notes_calls: bool = False) -> Report:
        """So many steps on a fresh simulated GPU that stands for "cuda", and their report; out of memory is reported.

        What is written is what a training script does: model, `.to("cuda")`, optimizer; then, step by step, the batch,
        forward, loss, backward, the optimizer's step, `zero_grad`. With `notes_calls` its trace has those.

        Raises: IndexError for a row that an embedding does not have; whatever the model raises.
        """
        start, ended, exit_code = time.perf_counter(), f"{n_steps} steps were run", 0
        model = self._model()
        with SimulatedGPU(gpu, cuda=True, settings=settings) as simulated, _reported():
            simulated.trace.notes.calls = {} if notes_calls else None
            with watched_indices(model), Training(simulated) as training:
                try:
                    self._train(model, n_steps, lambda: simulated.trace.mark(END_OF_FORWARD))
                except torch.OutOfMemoryError as error:
                    ended, exit_code = f"torch.OutOfMemoryError: {str(error).splitlines()[0]}", 1
            return Report.of(
                simulated, steps=training.steps(), ended=ended, exit_code=exit_code,
                seconds=time.perf_counter() - start,
            )  # fmt: skip

    def train(self, n_steps: int) -> None:
        """So many steps on whatever "cuda" is: the machine's own GPU, or a simulated one that is open."""
        self._train(self._model(), n_steps)

    def readings(self, gpu: GPU) -> dict[str, int]:
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

    def loss_on(self, model: nn.Module, device: str = "cuda") -> torch.Tensor:
        """The loss of a batch on a device, or on whatever "cuda" is, where a model goes for it."""
        model.to(device, PRECISIONS[self.precision][0])
        batch, targets = self._given(device)
        loss: torch.Tensor = self._forward(model, batch, targets, device)[1]
        return loss

    def _model(self) -> nn.Module:
        with _repeatable(), without_initialization():
            model: nn.Module = called_with(self.make, self.letters)
        return model if model.training else model.train()  # parts that were set to evaluate stay so

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
                batch, targets = self._given(device)
                output, loss = self._forward(model, batch, targets, device)
                if self.micro_batches > 1:
                    loss = loss / self.micro_batches
                at_end_of_forward()
                loss.backward()
            if optimizer is not None:
                optimizer.step()
            model.zero_grad()
            at_end_of_step(number)

    def _forward(self, model: nn.Module, batch: Any, targets: Any, device: str | torch.device) -> Any:
        """The output, if it is kept, and the loss."""
        computed = PRECISIONS[self.precision][1]
        with torch.autocast(torch.device(device).type, computed) if computed else nullcontext():
            output = self._output(model, batch)
            loss = self._loss(output, batch if self.targets is None else targets)
        return output if self.keeps_output else None, loss

    def _output(self, model: nn.Module, batch: Any) -> Any:
        """What a model returns for a batch: a dict's parts by name, a tuple's by place, anything else as the one."""
        try:
            if isinstance(batch, Mapping):
                return model(**batch)
            return model(*batch) if isinstance(batch, tuple | list) else model(batch)
        except TypeError as error:
            if self.targets is None and isinstance(batch, Mapping | tuple | list):
                error.add_note("All parts of the batch go to the model: give what the loss alone takes as targets=….")
            raise

    def _given(self, device: str | torch.device) -> Any:
        """A batch and its targets, on a device; what is computed with is drawn."""
        with nullcontext() if torch.device(device).type == "cpu" else without_initialization():
            given = (
                self._in_weights_type(self.batch),
                self.targets,
            )  # as it may be too large to cast
            made = [part if callable(part) else batches.made(part, self.letters) for part in given]
        batch, targets = (self._called(part) if callable(part) else part for part in made)
        return batches.moved(self._in_weights_type(batch), device), batches.moved(targets, device)

    def _in_weights_type(self, part: Any) -> Any:
        """A batch's floating-point numbers in the type of weights of half precision, as a script has to cast them."""
        weights, computed = PRECISIONS[self.precision]
        return batches.cast(part, weights) if weights in (torch.bfloat16, torch.float16) and not computed else part

    def _called(self, part: Callable[..., Any]) -> Any:
        with _repeatable():
            return batches.made(called_with(part, self.letters), self.letters)

    def _loss(self, output: Any, batch: Any) -> torch.Tensor:
        if self.loss is not None:
            found, of = self.loss(output, batch), "loss must return a number that depends on parameters"
        else:
            found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", output)
            of = "loss must be given where the model returns none"
        if isinstance(found, torch.Tensor) and found.dim() == 0 and found.requires_grad:
            return found
        shape = f" of shape {list(found.shape)}" if isinstance(found, torch.Tensor) else ""
        got = output if self.loss is None and not shape else found
        raise ValueError(
            f"{of}: got {type(got).__name__}{shape}; try loss=lambda output, batch: output.square().mean()."
        )


@contextmanager
def _reported() -> Iterator[None]:
    """Without the warnings of a simulated GPU, whose every one the report has by name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".* is not modelled\b", UserWarning)
        warnings.filterwarnings("ignore", "nothing is computed on a simulated GPU", UserWarning)
        yield


@contextmanager
def _repeatable() -> Iterator[None]:
    """With the same random numbers each time, and those of the process as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _letters_of(part: Any) -> set[str]:
    return arguments(part) if callable(part) else batches.letters_of(part)


def _with_numbers(part: Any, fixed: Mapping[str, int]) -> Any:
    """A batch, or targets, of fewer letters."""
    letters = _letters_of(part)
    if not letters & fixed.keys():
        return part
    if not callable(part):
        return of_letters(letters - fixed.keys(), lambda **values: batches.made(part, {**values, **fixed}), "a batch")
    return with_numbers(part, fixed)


def copies_of(model: nn.Module) -> Callable[[], nn.Module]:
    """A function that returns a copy of a model, which itself stays where it is and as it is."""
    return lambda: deepcopy(model)
