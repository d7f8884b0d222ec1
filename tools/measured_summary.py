"""Compares what a real card took with its simulation, in the words of book/measured_by_others.md.

It reads tests/reference/VERSION/measured and tests/reference/cards.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from every_byte.gpu.cases.files import read
from every_byte.measure.comparing import differences
from every_byte.measure.suite import NOT_FOLLOWED
from every_byte.units import MiB
from every_byte.verify.recordings import REFERENCE, unpacked
from tools.measured import ADDRESSES, NOT_MODELLED, UNKNOWN, VALUES

HEAD = """
## Measured by us, on one card

In November 2026 we could use an {gpu} for fifteen minutes, with PyTorch {torch} and driver {driver}. Everything in
this section ran on that card and, by the rules of that PyTorch, on its simulation. A program *agrees* when every
counter we read is the same on both. These are allocated, reserved and peak bytes and, except for the public programs,
requested bytes. For the recorded cases, every allocation and free must also have the same size and the same order,
although consecutive frees may change places. We ran the simulations on the day of the measurement.

| what ran | programs | agree | differ |
|---|--:|--:|---|
"""
WORDS = {
    ADDRESSES: "agree once the simulation uses the card's segment addresses",
    NOT_MODELLED: "have an operator that the report lists as not modelled",
    VALUES: "read values that only a card computes",
    UNKNOWN: "differ for reasons that we have not fully traced",
}
DETAILS = """
**Segment addresses.** Among free blocks of the same size, PyTorch takes the one with the lowest address. So the
driver's addresses can decide which block is split and therefore how much stays reserved. The simulated card hands out
addresses in ascending order, but this card's driver does not. If the simulation uses the driver's addresses,
{n_placed} more of the {n_cases} recorded cases agree. Without them, reserved bytes differ in {n_reserved} of these,
by at most {most_reserved:,d} bytes, and peak allocated bytes in {n_peak}, by at most {most_peak:,d}. We did not try
this with the other programs.

**cuDNN's attention.** We measured {n_attention} calls. Their workspace follows a formula that the simulated card now
uses. Forward takes 256 bytes. Backward takes 4 bytes for each number of the query and for each of its rows, and 256
more. If heads share keys and values, it also takes a gradient of both for each head of the query. Each part is rounded
up to 128 bytes. We do not know what forward takes for a single query.

**The CUDA context.** It took {first} MiB after the first tensor, {product} MiB after the first matrix product, and
{trained} MiB after training steps.
"""


def section() -> Iterator[str]:
    """The part of the page, for each card that was measured."""
    for path in sorted(REFERENCE.glob("*/measured/*.json.xz")):
        card = path.name.removesuffix(".json.xz")
        if "." not in card:  # else what one kind of program took, as compiled.h200.json.xz
            yield from _of_card(path, card)


def _of_card(path: Path, card: str) -> Iterator[str]:
    packed = unpacked(path)
    about, cases = packed["about"], [case["compared"] for case in packed["cases"].values()]
    yield HEAD.format(gpu=about["device_name"], torch=about["torch"], driver=about["driver"])
    suite = json.loads((REFERENCE / "cards" / f"{card}.json").read_text(encoding="utf-8"))
    held = [one for one in suite["programs"] if one["name"] not in NOT_FOLLOWED]
    off = [one for one in held if any(map(differences, one["rows"]))]
    yield _row("`every-byte measure`, its programs", len(held), "", len(off))
    yield _row("recorded cases, as in `tests/reference`", len(cases), *_reasons(cases))
    for what, name in (
        ("programs of this page, with their arguments", "published"),
        ("training programs drawn at random, three steps", "random"),
        ("public programs such as nanoGPT and Hugging Face's Trainer, three steps", "programs"),
    ):
        rows = read(path.with_name(f"{name}.{card}.json.gz"))["rows"]
        yield _row(what, len(rows), "", sum(row["measured"] != row["simulated"] for row in rows))
    yield DETAILS.format(
        n_cases=len(cases),
        n_placed=sum(case.get("why") == ADDRESSES for case in cases),
        **_largest(cases, "reserved"),
        **_largest(cases, "peak"),
        n_attention=len(read(path.with_name(f"attention.{card}.json.gz"))["rows"]),
        **dict(zip(("first", "product", "trained"), _mib(suite["context"]["sizes_bytes"]), strict=True)),
    )


def _row(what: str, n: int, why: str, n_off: int) -> str:
    return f"| {what} | {n:,d} | {n - n_off:,d} | {why or n_off or ''} |\n"


def _reasons(cases: list[dict]) -> tuple[str, int]:
    """Why cases differ, each reason with its number, and how many do."""
    counted = Counter(case["why"] for case in cases if "why" in case)
    return "; ".join(f"{n} {WORDS[why]}" for why, n in counted.most_common()), counted.total()


def _largest(cases: list[dict], figure: str) -> dict[str, int]:
    """In how many cases a figure differs by addresses alone, and by how much at most."""
    marks = [case["plain"]["marks"] for case in cases if case.get("why") == ADDRESSES]
    off = [abs(found[figure][1]) for found in marks if figure in found]
    return {f"n_{figure}": len(off), f"most_{figure}": max(off, default=0)}


def _mib(sizes: dict[str, int]) -> Iterator[int]:
    return (round(n_bytes / MiB) for n_bytes in sizes.values())
