"""The exercises of chapter 8, on a reader's own model: what no batch changes, what one more costs, what fits."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from every_byte.account.of_model import Account
from every_byte.advice.runs import Ran
from every_byte.advice.search import bench_of, bytes_of
from every_byte.formula.expressions import in_order
from every_byte.ledger.ledger import Ledger
from every_byte.snapshots.snapshot import read_snapshot
from every_byte.step.batch import unfilled
from every_byte.step.training_step import END_OF_FORWARD, PRECISIONS
from every_byte.units import exact
from utils.recordings import SNAPSHOTS

from .judge import NO_ANSWER, Verdict, check, no_function, not_yet, of_part, raised, right

STANDING = ("parameters", "gradients", "optimizer state")
N_SIZES = 4


def standing(mine: Account, answer: Mapping[str, int] | None) -> Verdict:
    """Exercise 1: the requested bytes of parameters, of their gradients and of the optimizer state on the GPU."""
    if answer is None or isinstance(answer, Mapping) and None in answer.values():
        return NO_ANSWER
    if not isinstance(answer, Mapping) or set(answer) != set(STANDING):
        return not_yet(f"the answer is a dict with the bytes of {', '.join(STANDING)}: got {answer!r}.")
    parameters = [p for p in mine.step._model().parameters() if p.requires_grad]
    weights, _ = PRECISIONS[mine.step.precision]  # the type that the model is moved to, if any
    truth = {
        "parameters": mine.ledger.of(category="parameters").requested_bytes,
        "gradients": sum(p.numel() * (weights or p.dtype).itemsize for p in parameters),
        "optimizer state": mine.ledger.of(category="optimizer state").requested_bytes,
    }
    n = sum(p.numel() for p in parameters)
    mistakes = {
        n: "That is the number of elements. How many bytes does each take?",
        16 * n: "That is all three together.",
        truth["optimizer state"]
        + 4 * len(parameters): "Unless it is fused, AdamW keeps its step counters in host memory.",
    }
    if str(mine.step.optimizer).startswith("Adam"):
        mistakes[truth["optimizer state"] // 2] = "Adam and AdamW keep two averages of each parameter."
    for name in STANDING:
        if not (verdict := check(answer[name], truth[name], {k: v for k, v in mistakes.items() if k != truth[name]})):
            return of_part(name, verdict)
    return right(f"together they take {exact(sum(truth.values()))}, whatever the batch.")


def one_more(mine: Account, letter: str, answer: int | None) -> Verdict:
    """Exercise 2: by how many requested bytes the peak grows when a letter grows by one."""
    if answer is None:
        return NO_ANSWER
    if (wrong := _no_letter(mine, letter)) is not None:
        return wrong
    here = mine.letters[letter]
    try:
        first, second = (mine.at(**{letter: here + more}).requested_bytes for more in (1, 2))
    except Exception as error:
        return not_yet(f"{raised(error, f'at {letter}={here + 1}, your model')}. Choose another letter.")
    grown = first - mine.requested_bytes
    hint = f"Not everything at the peak grows with {letter}."
    verdict = check(answer, grown, {mine.requested_bytes // here: hint})
    if not verdict:
        return verdict
    if second - first == grown:
        return right(f"{exact(grown)}, and the next one costs the same.")
    return right(
        f"{exact(grown)}. The next one costs {exact(second - first)}, because a kernel rounds, or another one runs."
    )


def kept(mine: Account, function: Callable[..., int] | None) -> Verdict:
    """Exercise 3: the requested bytes of activations at the end of forward, as a function of the model's letters."""
    if (wrong := no_function(function)) is not None:
        return wrong
    assert function is not None
    n_right = 0
    for account in _at_sizes(mine):
        shown = ", ".join(f"{letter}={n:,d}" for letter, n in account.letters.items())
        try:
            answer = function(**account.letters)
        except Exception as error:
            return not_yet(f"for {shown} {raised(error)}")
        if answer is None:
            return NO_ANSWER
        ledger = Ledger.at(account.report.trace, END_OF_FORWARD).of(category="activations")
        if not (verdict := check(answer, ledger.requested_bytes, _hints(ledger, answer))):
            return of_part(f"For {shown}", verdict)
        n_right += 1
    others = f" and at {n_right - 1} others, drawn at random" if n_right > 1 else ""
    return right(f"your function is exact to the byte at the account's sizes{others}.")


def fits(mine: Account, letter: str, gpu: str, answer: int | None) -> Verdict:
    """Exercise 4: the largest value of a letter that fits on a GPU, by running it and not by division."""
    if answer is None:
        return NO_ANSWER
    if (wrong := _no_letter(mine, letter)) is not None:
        return wrong
    if isinstance(answer, bool) or not isinstance(answer, int) or answer < 1:
        return not_yet(f"the answer must be a whole number, 1 or more: got {answer!r}.")
    bench, batch = bench_of(gpu, mine.n_steps, mine.settings, None), mine.step.batch
    step = mine.step if callable(batch) else replace(mine.step, batch=unfilled(batch))

    def ran(value: int) -> Ran:
        return bench.run(replace(step, letters=mine.letters | {letter: value}), counts=False)

    try:
        here = ran(answer)
        if not here.fits:
            return not_yet(
                f"{letter}={answer:,d} does not fit. Pieces of segments stay free, so more is reserved than allocated."
            )
        larger = [answer + more for more in (1, 2, 3) if ran(answer + more).fits]
    except Exception as error:
        return not_yet(raised(error, f"at {letter}={answer:,d} or a little more, your model"))
    if larger:
        return not_yet(f"{letter}={answer:,d} fits, but so does {larger[-1]:,d}.")
    unknown = "" if here.is_exact else " This leaves out what the account names as unknown."
    return right(f"the segments need {exact(here.needed_bytes)} of {exact(here.room_bytes)}.{unknown}")


def _no_letter(mine: Account, letter: str) -> Verdict | None:
    if letter in mine.letters:
        return None
    known = ", ".join(mine.letters) or "none"
    return not_yet(f"letter must be one of the account's letters ({known}): got {letter!r}.")


def rest_of_no_room(answer: int | str | None) -> Verdict:
    """Exercise 6: what would be left free where `no_room.a100.pickle` ends, had all free memory been in one piece."""
    if answer is None:
        return NO_ANSWER
    failed = read_snapshot(SNAPSHOTS / "no_room.a100.pickle").out_of_memory[-1]
    asked, driver, in_segments = failed.n_bytes, failed.driver_bytes, failed.room.free_bytes
    assert driver is not None
    mistakes = {
        in_segments - asked: "The driver had some memory left, too.",
        driver + in_segments: "That was free before the request took its part.",
        driver + failed.room.largest_bytes - asked: "In one piece, all free memory counts, not only the largest piece.",
    }
    try:
        answer = bytes_of(answer) if isinstance(answer, str) else answer
    except ValueError as error:
        return not_yet(str(error))
    return check(answer, driver + in_segments - asked, mistakes)


def _at_sizes(mine: Account) -> Iterator[Account]:
    """The reader's own sizes, then others, drawn from the same seed each time, without those that the model refuses."""
    yield mine
    drawn, n_found, seen = Random(0), 1, [mine.letters]
    for _ in range(6 * N_SIZES):
        letters = {}
        for letter in in_order(mine.letters):
            size = mine.letters[letter]
            letters[letter] = drawn.choice([size, 2 * size, size + 1, max(1, size - 1)])
        if letters in seen:
            continue
        seen.append(letters)
        try:
            yield mine.at(**letters)
        except Exception:  # heads that do not divide a width, and the like
            continue
        n_found += 1
        if n_found == N_SIZES:
            return


def _hints(ledger: Ledger, answer: object) -> dict[int, str]:
    """What a wrong answer leaves out or counts twice, if one kind of module and operation keeps just that."""
    if not isinstance(answer, int):
        return {}
    truth = ledger.requested_bytes
    kinds: dict[str, int] = {}
    for row in ledger:
        where = re.sub(r"[0-9]+", "*", row.module) or "no module"
        kind = f"the result of {row.operation} that is kept for {', '.join(row.kept_for)} in {where}"
        kinds[kind] = kinds.get(kind, 0) + row.n_bytes
    of_size: dict[int, list[str]] = {}
    for kind, n in kinds.items():
        of_size.setdefault(n, []).append(kind)
    left_out = {truth - n: f"You seem to leave out {', or '.join(named)}." for n, named in of_size.items()}
    return left_out | {truth + n: f"You seem to count twice {', or '.join(named)}." for n, named in of_size.items()}
