"""The account of a reader's model: a step of its training on a simulated GPU, from the model and a batch in letters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from torch import nn

from every_byte.gpu.memory.specs import GPUSpec, spec_here, with_context, with_rules_of
from every_byte.ledger.ledger import Ledger
from every_byte.report.report import Report
from every_byte.step.training_step import AS_IT_IS, END_OF_FORWARD, TrainingStep, copies_of
from every_byte.units import exact

if TYPE_CHECKING:
    from every_byte.advice.advice import Advice
    from every_byte.advice.largest import Largest
    from every_byte.closed_form.closed_form import ClosedForm


@dataclass(frozen=True, repr=False)
class Account:
    """A step of training a model, run and reported: printed, it is the report of `every-byte run`.

    `step` is what was run, `report` what came of it: its peak, whose every byte is, on which GPUs it fits. Where it
    `ran_out` of memory, its sizes are of the same on such a GPU with room for all. `at` has the same of other sizes.

    Unit:   bytes.
    """

    step: TrainingStep
    report: Report
    n_steps: int
    settings: str = ""

    @property
    def letters(self) -> dict[str, int]:
        """The sizes."""
        return dict(self.step.letters)

    @property
    def gpu(self) -> str:
        """On which simulated GPU."""
        return self.report.spec.name

    @property
    def ran_out(self) -> bool:
        """Whether memory ran out on that GPU, so that `report` ends there."""
        return self.report.ran_out

    @cached_property
    def with_room(self) -> Report:
        """The report of the whole run: where memory ran out, that of the same on such a GPU with room for all."""
        if not self.ran_out:
            return self.report
        from every_byte.advice.runs import spec_with_room

        return self.step.run(spec_with_room(self.report.spec), self.n_steps, self.settings)

    @property
    def ledger(self) -> Ledger:
        """Whose each byte is, at the peak, or where memory ran out."""
        return self.report.account

    @property
    def peak_bytes(self) -> int:
        """What is allocated at the peak, in whole blocks: what the step needs, also where the GPU has less."""
        return self.with_room.peak.allocated_bytes

    @property
    def requested_bytes(self) -> int:
        """What was asked for of it."""
        return self.with_room.peak.requested_bytes

    @property
    def most_requested_bytes(self) -> int:
        """The most that is asked for at one time, which a formula of the peak says.

        As a rule that is `requested_bytes`: seldom is most requested at another moment than most allocated.
        """
        from every_byte.closed_form.keys import totals

        return max((n_bytes for _, n_bytes, _ in totals(self.with_room.trace)), default=0)

    def at(self, **letters: int) -> "Account":
        """The account of other sizes; those that are not named stay.

        Raises: ValueError for a letter that this one does not have.
        """
        if unknown := letters.keys() - self.step.letters.keys():
            raise ValueError(
                f"letters must be among {', '.join(self.step.letters)}: got {sorted(unknown)[0]!r}; give it a value "
                "in account(…) first."
            )
        step = replace(self.step, letters=self.letters | letters)
        return replace(self, step=step, report=step.run(self.report.spec, self.n_steps, self.settings))

    def formula(
        self, moment: str = "peak", letters: Iterable[str] | None = None, *, n_checks: int = 8, seed: int = 0
    ) -> "ClosedForm":
        """What is held at the peak, or at "end of forward", in letters: derived from runs, and checked at others.

        The letters are the account's own, or those of them that are named: fewer take fewer runs. `n_checks` sizes are
        drawn at random to check it, from this seed.

        Raises: ValueError for another moment, for a letter that the account does not have, where it has none, and for
                `n_checks` that is no whole number.
        """
        from every_byte.closed_form.finding import closed_form
        from every_byte.closed_form.keys import at_mark

        if moment not in ("peak", END_OF_FORWARD):
            raise ValueError(f"moment must be 'peak' or {END_OF_FORWARD!r}: got {moment!r}.")
        if not self.letters:
            raise ValueError("an account must have letters to have a formula: got none; write a size as 'b', and b=8.")
        at = None if moment == "peak" else at_mark(END_OF_FORWARD)
        step = self.step if letters is None else self.step.of_letters(letters)
        return closed_form(
            step, self.report.spec, moment=at, title=f"{moment}, requested", n_steps=self.n_steps,
            settings=self.settings, n_checks=n_checks, seed=seed,
            fixed={letter: n for letter, n in self.letters.items() if letter not in step.letters},
        )  # fmt: skip

    def advice(
        self, gpu: str | GPUSpec | None = None, budget: int | str | None = None, *, sizes: bool = True
    ) -> "Advice":
        """What would take fewer bytes, each tried: the same step with each remedy, and with several, is run.

        `budget` is what segments may take, in bytes or as "24GiB"; by default all that the GPU has for them. With
        `sizes` it has the largest batch and the longest sequence that fit, for which as many steps are run again.

        Raises: ValueError for a budget that is no size.
        """
        from every_byte.advice.search import advice_for

        return advice_for(self.step, self.n_steps, self.settings, self._or_own(gpu), budget, sizes)

    def largest(self, letter: str, gpu: str | GPUSpec | None = None, budget: int | str | None = None) -> "Largest":
        """The largest value of a letter that fits on a GPU, found by running it and its neighbours.

        Raises: ValueError for a letter that this one does not have, and for a budget that is no size.
        """
        from every_byte.advice.largest import largest_of
        from every_byte.advice.search import bench_of

        bench = bench_of(self._or_own(gpu), self.n_steps, self.settings, budget)
        return largest_of(bench, self.step, letter)

    def _or_own(self, gpu: str | GPUSpec | None) -> GPUSpec:
        return with_rules_of(gpu, self.report.spec) if gpu else self.report.spec

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._need, repr(self.report)]))

    def _repr_html_(self) -> str:
        need = f"<p><strong>{escape(self._need.strip())}</strong></p>" if self._need else ""
        return need + self.report._repr_html_()

    @property
    def _need(self) -> str:
        """What the step needs, where memory ran out; else nothing."""
        if not self.ran_out:
            return ""
        reserved = exact(self.with_room.peak_reserved_bytes)
        return (
            f"It ran out of memory on {self.gpu}. With room for all it allocates {exact(self.peak_bytes)} at its\n"
            f"peak, and reserves {reserved}. What follows is up to where memory ran out.\n"
        )


def account(
    model: nn.Module | Callable[..., nn.Module],
    batch: object,
    *,
    loss: Callable[..., Any] | None = None,
    optimizer: str | Callable[..., Any] = "AdamW",
    precision: str = AS_IT_IS,
    targets: object = None,
    keeps_output: bool = False,
    gpu: str | GPUSpec = "a100-80gb",
    steps: int = 2,
    settings: str = "",
    torch: str = "",
    context_bytes: int | str | None = None,
    **letters: int,
) -> Account:
    """Train a model for some steps on a simulated GPU, and say whose each byte of its memory is.

    `model` is a module, which stays as it is, or a function that makes one, whose arguments are letters; one that is
    set to evaluate as a whole is set to train. `batch` is made of `tokens("b", "s", below=50257)`,
    `numbers("b", 3, 224, 224)` and tensors: a dict is given to the model by name, a tuple by place; or it is a function
    of letters that returns such. What the loss alone takes is given as `targets`, in the same way:
    `targets=tokens("b", below=10), loss=nn.functional.cross_entropy`. `loss` takes the model's output and the targets,
    or the batch where there are none; without it, the output has a loss, or is one.

    `optimizer` is a name as "AdamW, fused", "none", or a function that takes the parameters; `precision` is "as it is",
    each weight in its own type, or one of "float32", "bfloat16" and "float16" (weights, and the batch's floating-point
    numbers), "autocast" (to bfloat16, with weights in float32) and "autocast float16". With `keeps_output` the output
    keeps a name through backward, as in `output = model(x)`; without, it is gone as in `loss = model(x).loss`. The
    letters are the sizes: `account(model, batch, b=8, s=1024)`. `torch` is the version of PyTorch whose rules are
    followed, as "2.15", by default the one that runs here; where it is another one, that is said, once. `context_bytes`
    is the size of the CUDA context where it is known, as "863MiB".

    Raises: ValueError for a letter without a value, one that nothing uses, a precision, optimizer or version that
            there is not, and fewer steps than one; IndexError for a row that an embedding does not have; whatever
            the model raises.
    Example: print(account(lambda d: nn.Linear(d, d), numbers("b", "d"), loss=lambda y, _: y.sum(), b=8, d=64))
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number from 1 on: got {steps!r}.")
    make = copies_of(model) if isinstance(model, nn.Module) else model
    step = TrainingStep(
        make, batch, loss, optimizer, precision, letters, targets=targets, keeps_output=keeps_output
    )  # fmt: skip
    if unused := set(letters) - step.wanted:
        raise ValueError(
            f"a letter must be a size of the batch or the targets, or an argument of the model: got "
            f"{sorted(unused)[0]!r}; "
            f"they have {', '.join(sorted(step.wanted)) or 'none'}."
        )
    return Account(step, step.run(with_context(spec_here(gpu, torch), context_bytes), steps, settings), steps, settings)
