"""Which versions of PyTorch have rules, and which rules are followed, and what is said, where another version runs."""

import re
import warnings
from dataclasses import replace
from functools import cache

import torch

from .card import GPUSpec
from .rules import PYTORCH_2_11, PYTORCH_2_13, PYTORCH_2_14, PYTORCH_2_15, Rules

BOOK = "2.13"
"""The version whose rules the book follows, whatever runs."""

_NOT_VERIFIED = {"2.9": PYTORCH_2_11, "2.10": PYTORCH_2_11, "2.12": PYTORCH_2_13}
"""Those of the version next to them: nobody has held them to recordings."""

VERSIONS: dict[str, Rules] = {
    rules.torch_version: rules
    for rules in (
        *(replace(rules, torch_version=version, is_verified=False) for version, rules in _NOT_VERIFIED.items()),
        PYTORCH_2_11, PYTORCH_2_13, PYTORCH_2_14, PYTORCH_2_15,
    )
}  # fmt: skip
"""The rules of each version that has any."""


def rules_of(version: str) -> Rules:
    """The rules of a version: "2.15", or "2.15.1+cu132".

    Raises: ValueError for one that has none, and for a number: 2.10 is 2.1.
    """
    if not isinstance(version, str):
        raise ValueError(f"torch must be a version of PyTorch as text: got {version!r}, a number; try '2.15'.")
    if found := VERSIONS.get(_minor(version)):
        return found
    known = ", ".join(sorted(VERSIONS, key=_numbers))
    raise ValueError(
        f"torch must be a version of PyTorch that has rules, {known}: got {version!r}; name the one next to it."
    )


def rules_here() -> Rules:
    """The rules of the PyTorch that runs here; if it has none, those of the newest before it, or of the oldest.

    They are then no verified ones: nothing has held that version to a recording.
    """
    rules = _rules_for(_minor(torch.__version__))
    return replace(rules, is_verified=False) if _is_before_release(torch.__version__) else rules


_followed: list[str] = []


def follow(version: str = "") -> None:
    """Let `account` follow the rules of a version of PyTorch in this process, whichever runs.

    The book's chapters follow "2.13", so that their figures are the same for every reader. "": those of what runs.

    Raises: ValueError for a version that has no rules.
    """
    _followed[:] = [rules_of(version).torch_version] if version else []


def rules_followed() -> Rules:
    """The rules that `account` follows: those that `follow` named, else those of the PyTorch that runs here."""
    return rules_of(_followed[0]) if _followed else rules_here()


@cache
def _rules_for(version: str) -> Rules:
    if found := VERSIONS.get(version):
        return found
    before = [name for name in VERSIONS if _numbers(name) <= _numbers(version)]
    nearest = max(before, key=_numbers) if before else min(VERSIONS, key=_numbers)
    return replace(VERSIONS[nearest], is_verified=False)


def verified() -> tuple[str, ...]:
    """The versions that recordings hold the simulated GPU to."""
    return tuple(name for name, rules in VERSIONS.items() if rules.is_verified)


def runs_another(rules: Rules) -> bool:
    """Whether the PyTorch that runs is another one than the one whose rules are followed."""
    return _minor(torch.__version__) != rules.torch_version


def what_to_know(rules: Rules) -> str:
    """What should be said of figures by these rules here; "" if that version runs, and they are verified."""
    followed = f"the rules of PyTorch {rules.torch_version}"
    if _is_before_release(torch.__version__):
        return (
            f"PyTorch {torch.__version__} runs here, which is no release: a simulated GPU follows {followed}, and no "
            "recording holds the two together."
        )
    if runs_another(rules):
        return (
            f"PyTorch {torch.__version__} runs here, and a simulated GPU follows {followed}: its figures are that "
            "version's, but for what PyTorch's own Python and dispatch decide, and no recording holds the two together."
        )
    if not rules.is_verified:
        return f"A simulated GPU follows {followed}, which no recording has verified."
    return ""


BY_THE_RULES = "Figures are by the rules of {}, which no build on PyPI runs on this card."
_said: set[str] = set()


def say_once(rules: Rules) -> None:
    """Warn in one line, once for a process, of what should be known of figures by these rules."""
    if text := what_to_know(rules):
        _warn(text)


def say_once_of(spec: GPUSpec) -> None:
    """Warn once of a GPU by the rules of a version: what `say_once` says, and that no build has kernels for it."""
    say_once(spec.rules)
    if spec.has_no_kernels:
        _warn(f"{spec.has_no_kernels} {BY_THE_RULES.format(spec.torch_version)}")


def _warn(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn_explicit(text, UserWarning, "every_byte", 1)  # no line of code, which would be printed below it


def _is_before_release(version: str) -> bool:
    """Whether it is a nightly, a candidate or built from source: "2.15.0.dev20260801+cu132", "2.15.0a0+git1234"."""
    return bool(re.match(r"[\d.]+\.?(dev|a|b|rc)\d", str(version)))


def _minor(version: str) -> str:
    found = re.match(r"\d+\.\d+", str(version))
    return found[0] if found else str(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
