"""From a step of training to its closed form: derived, checked at new sizes, and derived again where it fails."""

import time

from every_byte.account.training_step import TrainingStep
from every_byte.gpu.memory.specs import GPUSpec

from .closed_form import Check, ClosedForm, held_at
from .derive import PRESENCE, Derivation
from .keys import Moment
from .samples import Sample, Samples

MOST_ROUNDS = 8


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
) -> ClosedForm:
    """The closed form of what a step holds at a moment, or at its peak (None).

    Raises: ValueError for sizes that the program does not take.
    """
    start = time.perf_counter()
    samples = Samples(step, spec, n_steps, settings)
    with samples.passed_over():
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
        tuple(dict.fromkeys(name for sample in samples for name in sample.trace.unmodelled)),
        samples.stages,
    )


def _derived(samples: Samples, moment: Moment | None, n_checks: int, seed: int) -> tuple[Derivation, list[Check], int]:
    """A derivation, its last checks, and of how many runs it is without these."""
    derivation = Derivation(samples, moment, seed)
    for _ in range(MOST_ROUNDS):
        n_runs, new = len(samples), derivation.more(n_checks)
        checks = [_check(derivation, sample, moment) for sample in new]
        if all(check.is_exact for check in checks):
            return derivation, checks, n_runs
        derivation.take(new)
        derivation.refine()
    n_runs, new = len(samples), derivation.more(n_checks)
    return derivation, [_check(derivation, sample, moment) for sample in new], n_runs


def _check(derivation: Derivation, sample: Sample, moment: Moment | None) -> Check:
    """Whether forms say of a new run what it holds at its own peak, or at the moment that was asked for."""
    own = moment or sample.peak
    held = derivation.held(sample, own) or {}
    forms = derivation.forms.get(own)
    predicted = held_at(forms, sample.point) if forms else None
    is_met = predicted == {key: n for key, n in held.items() if n} and bool(forms[PRESENCE].value(sample.point))
    others = [] if moment else [f for m, f in derivation.forms.items() if m != own and f[PRESENCE].value(sample.point)]
    higher = [other for f in others if (other := _total(held_at(f, sample.point))) is None or other > sample.peak_bytes]
    letters = dict(zip(derivation.samples.letters, sample.point, strict=True))
    return Check(letters, str(own), _total(predicted), sum(held.values()), is_met and not higher)


def _total(held: dict | None) -> int | None:
    return None if held is None else sum(held.values())
