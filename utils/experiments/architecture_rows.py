"""What a public architecture takes, by the account and its closed form, beside what others say of it: a row."""

import importlib
from typing import Any, TypeAlias

from every_byte.account import account
from every_byte.account.of_model import Account
from every_byte.closed_form.closed_form import ClosedForm, sentences

from .architectures import ARCHITECTURES, Architecture
from .other_estimates import n_parameters, of_accelerate, of_mem_tracker, of_usual_formula, why_not

LIBRARIES = ("torch", "transformers", "accelerate")
WORKSPACE = "cuBLAS workspace"
Figures: TypeAlias = dict[str, Any]  # plain JSON


def versions() -> dict[str, str]:
    """The libraries that figures depend on, each with its version. Raises: ImportError where one is not installed."""
    return {name: importlib.import_module(name).__version__.partition("+")[0] for name in LIBRARIES}


def row_of(name: str, *, with_formula: bool = True) -> Figures:
    """All figures of an architecture, as plain JSON.

    `peak` is what was requested at the account's peak, where most is allocated, and `most_requested` the most at any
    time, which is what a formula says; each of `others` has its bytes and how many percent they are off the peak, or in
    words why there are none. Without the formula it takes a second or two.

    Counts: a model's own classes, in training, float32, AdamW, two steps on a simulated A100.
    Unit:   bytes, seconds.
    """
    architecture = ARCHITECTURES[name]
    its = account(architecture.maker(), architecture.batch, **architecture.letters)
    row: Figures = {"class": architecture.library_class, "family": architecture.family}
    row |= {"letters": dict(architecture.letters)} | _accounted(its)
    if with_formula:
        row["formula"] = _derived(its)
    return row | {"others": _others(architecture, its)}


def _accounted(its: Account) -> Figures:
    report, parts = its.report, its.ledger.parts
    return {
        "ended": report.ended,
        "peak": its.requested_bytes,
        "most_requested": its.most_requested_bytes,
        "at": str(report.peak_place),
        "workspace": parts.get(WORKSPACE, 0),
        "not_modelled": sorted(map(str, report.trace.notes.unmodelled)),
        "values_read": sorted(map(str, report.trace.notes.values_read)),
    }


def _derived(its: Account) -> Figures:
    try:
        form = its.formula()
    except Exception as error:  # a row says so, and the other rows are still there
        return {"fails": f"{type(error).__name__}: {error}"[:300]}
    return {
        "is_exact": form.is_exact,
        "n_checks": len(form.checks),
        "n_met": sum(check.is_exact for check in form.checks),
        "n_runs": form.n_runs,
        "seconds": round(form.seconds),
        "at_these_sizes": _predicted(form),
        "moments": sorted(map(str, form.moments)),
        "missed": [] if form.is_exact else [s for s in sentences(form) if s.startswith(("No form", "Not met"))],
    }


def _predicted(form: ClosedForm) -> int | str:
    try:
        return form.bytes()
    except ValueError as error:
        return str(error)


def _others(architecture: Architecture, its: Account) -> Figures:
    model = architecture.maker()(**architecture.model_letters)
    states_bytes, activations_bytes = of_usual_formula(architecture, model)
    usual = _beside(states_bytes + (activations_bytes or 0), its)
    usual |= {"states": states_bytes, "activations": activations_bytes}
    if activations_bytes is None:
        usual["states_only"] = architecture.block
    return {
        "parameters": n_parameters(model),
        "accelerate": _beside(of_accelerate(model), its),
        "mem_tracker": _beside(of_mem_tracker(architecture), its),
        "usual": usual,
    }


def _beside(estimate: int | str, its: Account) -> Figures:
    """Bytes, and by how many percent of the account's they are more (+) or fewer (-)."""
    if isinstance(estimate, str):
        return {"fails": estimate, "why": why_not(estimate)}
    return {"bytes": estimate, "percent": round(100 * (estimate / its.requested_bytes - 1), 1)}
