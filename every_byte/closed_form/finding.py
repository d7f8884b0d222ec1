"""From a step of training to its closed form: derived, checked at new sizes, and derived again where it fails."""

import time
from collections.abc import Mapping

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.progress import at_work
from every_byte.step.training_step import TrainingStep

from .closed_form import Check, ClosedForm, held_at
from .derive import PRESENCE, Derivation
from .keys import Key, Moment
from .samples import Sample, Samples

MOST_ROUNDS = 8
MOST_WIDENED = 3
"""So often are ranges widened for checks that are not all met: sizes become large, as a number of layers may."""


def closed_form(
    step: TrainingStep,
    spec: GPUSpec,
    *,
    moment: Moment | None,
    title: str,
    n_steps: int = 2,
    settings: str = "",
    n_checks: int = 8,
    seed: int = 0,
    fixed: Mapping[str, int] | None = None,
) -> ClosedForm:
    """The closed form of what a step holds at a moment, or at its peak (None).

    `fixed` are the letters of the account that are numbers in it, each with its value.

    Raises: ValueError for sizes that the program does not take, and for `n_checks` that is no whole number from 0 on.
    """
    if not isinstance(n_checks, int) or n_checks < 0:
        raise ValueError(f"n_checks must be a whole number from 0 on: got n_checks={n_checks!r}; 8 is usual.")
    start = time.perf_counter()
    samples = Samples(step, spec, n_steps, settings)
    with at_work(), samples.passed_over():
        derivation, checks, n_runs = _derived(samples, moment, n_checks, seed)
    base = dict(zip(samples.letters, samples.base, strict=True))
    return ClosedForm(
        title,
        base,
        derivation.ranges,
        derivation.forms,
        tuple(checks),
        n_runs,
        time.perf_counter() - start,
        derivation.is_alike,
        tuple(dict.fromkeys(name for sample in samples for name in sample.trace.notes.unmodelled)),
        samples.stages,
        dict(fixed or {}),
        n_checks,
        derivation.is_at_limit,
    )


def _derived(samples: Samples, moment: Moment | None, n_checks: int, seed: int) -> tuple[Derivation, list[Check], int]:
    """A derivation, its last checks, none of which it has, and of how many runs it is without these."""
    derivation = Derivation(samples, moment, seed)
    new, n_widened = derivation.more(n_checks), 0
    for i in range(MOST_ROUNDS + 1):
        checks = [_check(derivation, sample, moment) for sample in new]
        is_over = i == MOST_ROUNDS or derivation.is_at_limit or n_widened == MOST_WIDENED
        if is_over or all(check.is_exact for check in checks):  # or there are none: nothing is to be learned from them
            break
        ranges = derivation.ranges
        kept = derivation.more(1) or _half(new, checks)
        if len(kept) == len(new) and kept[0] is new[0]:
            break
        derivation.take([sample for sample in new if not any(sample is one for one in kept)])
        derivation.refine(without=kept)
        kept = [sample for sample in kept if not derivation.has(sample)]
        new = [*kept, *derivation.more(n_checks - len(kept))]
        n_widened += derivation.ranges != ranges
    return derivation, checks, len(samples) - len(checks)


def _half(samples: list[Sample], checks: list[Check]) -> list[Sample]:
    """Half of the runs at least, rather those whose checks were met: what is kept where a program takes no others."""
    in_order = sorted(zip(checks, samples, strict=True), key=lambda item: not item[0].is_exact)
    return [sample for _, sample in in_order[: (len(in_order) + 1) // 2]]


def _check(derivation: Derivation, sample: Sample, moment: Moment | None) -> Check:
    """Whether forms say of a new run what it holds at its own peak, or at the moment that was asked for."""
    own = moment or sample.peak
    held = derivation.held(sample, own) or {}
    forms = derivation.forms.get(own)
    predicted = held_at(forms, sample.point) if forms else None
    is_there = bool(forms and forms[PRESENCE].value(sample.point))
    is_met = predicted == {key: n for key, n in held.items() if n} and is_there
    others = [] if moment else [f for m, f in derivation.forms.items() if m != own and f[PRESENCE].value(sample.point)]
    higher = [other for f in others if (other := _total(held_at(f, sample.point))) is None or other > sample.peak_bytes]
    letters = dict(zip(derivation.samples.letters, sample.point, strict=True))
    return Check(letters, str(own), _total(predicted), sum(held.values()), is_met and not higher)


def _total(held: Mapping[Key, int] | None) -> int | None:
    return None if held is None else sum(held.values())
