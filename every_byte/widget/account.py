"""What an explorer sets beside its prediction: an account of the bytes, or one sentence that says why there is none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from every_byte.gpu.capacity import Fit
from every_byte.gpu.replay import Replay
from every_byte.ledger.trace import ORIGINS

from .controls import ChoiceControl
from .moving_map import MovingMap
from .stages import UNNAMED, Terms, terms_by_stage
from .timeline import Timeline

Answer: TypeAlias = dict[str, Any]  # as a page has it: JSON
Judge: TypeAlias = Callable[[Any], Fit]  # of a value of the choice that judges


@dataclass(frozen=True)
class Account:
    """The bytes of each term as a GPU keeps them, and where that GPU stands.

    Counts: `terms` in the order of the formula; a name that the formula lacks becomes a row without a prediction. For
            a formula in stages they are {stage: {term: bytes}}, with every stage of it. `timeline`, `moving_map` and
            `fit` are shown above them: a step event by event, the allocator's map request by request, and whether it
            all fits on the GPU; with a choice that judges, `judge(value)` gives the verdict for a value of it, once
            that is asked for, and `fit` is that of the first, if it is known. `remark` is what else there is to say.
            `beside`, of a measured account: the same, simulated.
    Unit:   bytes, exact.
    Raises: ValueError for an unknown origin, TypeError for bytes that are not whole numbers.
    """

    terms: Terms
    origin: str = "simulated"  # by the simulated GPU; "measured" on a real one; "recorded" in a file
    device: str = ""
    note: str = field(default="")  # what else the reader should know, such as "PyTorch 2.13 rules"
    timeline: Timeline | None = None
    moving_map: MovingMap | None = None
    fit: Fit | Replay | None = None
    remark: str = ""
    beside: "Account | None" = None
    judge: Judge | None = None

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"origin must be one of {', '.join(ORIGINS)}: got origin={self.origin!r}.")
        for stage, terms in terms_by_stage(self.terms).items():
            for name, n_bytes in terms.items():
                if type(n_bytes) is not int:
                    where = f"[{name!r}]" if stage == UNNAMED else f"[{stage!r}][{name!r}]"
                    raise TypeError(
                        f"terms must hold bytes as int: got terms{where}={n_bytes!r}; round nothing, count storages."
                    )

    @property
    def badge(self) -> str:
        """Where the account comes from, in a few words."""
        place = f"{self.origin} on {self.device}" if self.device else self.origin
        return f"{place}, {self.note}" if self.note else place

    def answer(self) -> Answer:
        """What a page gets of it, without the verdicts that are still to be asked for."""
        return self._counted() | {
            "error": "", "timeline": self.timeline and self.timeline.spec(),
            "map": self.moving_map and self.moving_map.spec(), "fit": self.fit and _verdict(self.fit),
            "fit_with": None if self.judge is None else {},
            "remark": self.remark, "beside": self.beside and self.beside._counted(),
        }  # fmt: skip

    def _counted(self) -> Answer:
        """The bytes and where they come from: all that a page gets of an account beside another."""
        return {"terms": dict(self.terms), "origin": self.origin, "badge": self.badge}


def _verdict(fit: Fit | Replay) -> Answer:
    return {"fits": fit.fits, "headline": fit.headline, "reasons": fit.reasons}


def check_verdicts(account: Account, choice: ChoiceControl | None) -> None:
    """Raises ValueError for an account that judges without a choice to do so by, and for one that cannot."""
    if (choice is None and account.judge) or (choice is not None and account.fit and not account.judge):
        there = f"the choice {choice.symbol!r}" if choice else "no such choice"
        raise ValueError(
            "judge must give the verdict for each option of a choice that judges, and be left out without one: got "
            f"judge={account.judge!r} and {there}."
        )


def judged(answer: Answer, judge: Judge, choice: ChoiceControl, options: Iterable[str]) -> Answer:
    """An answer with the verdicts for these options: that of the first option is `fit`, others are in `fit_with`."""
    first, fit, others = next(iter(choice.values)), answer["fit"], dict(answer["fit_with"])
    for option in options:
        if option == first:
            fit = fit or _verdict(judge(choice.values[option]))
        elif option not in others:
            others[option] = _verdict(judge(choice.values[option]))
    return answer | {"fit": fit, "fit_with": others}


def failed(error: str) -> Answer:
    """What a page gets where there is no account."""
    nothing = {"timeline": None, "map": None, "fit": None, "fit_with": None, "remark": "", "beside": None}
    return {"terms": None, "origin": "", "badge": "", "error": error, **nothing}


def said_of(answer: Answer, judge: ChoiceControl | None, option: str, *more: str) -> str:
    """What an answer says beside its numbers: why there is no account; or its badge, the verdict, the peak.

    `option` is that of the choice that judges, if there is one.
    """
    beside = f"; next to it: {answer['beside']['badge']}" if answer["beside"] else ""
    sentences: list[str] = [answer["error"] or f"{answer['badge']}{beside}"]
    if fit := (answer["fit_with"] or {}).get(option, answer["fit"]):
        sentences += [f"{fit['headline']}.", fit["reasons"]]
    if answer["remark"]:
        sentences.append(answer["remark"])
    if answer["timeline"]:
        sentences.append(answer["timeline"]["caption"])
    if judge and answer["timeline"] and option in (answer["fit_with"] or {}):
        sentences.append(f"The peak is of {judge.label} {next(iter(judge.values))}.")
    if answer["map"]:
        sentences.append(answer["map"]["steps"][-1]["said"])
    first, *others = [*sentences, *more]
    return " ".join([f"{first.rstrip('.')}.", *others]) if others else first
