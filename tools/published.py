"""Writes book/measured_by_others.md, published figures beside simulated ones: `python -m tools.published`.

The table is tests/published/figures, who published it is in sources.toml there, and the programs are in rebuilt.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, groupby
from multiprocessing import get_context
from pathlib import Path

from every_byte.measure.comparing import differences
from every_byte.measure.suite import NOT_FOLLOWED
from every_byte.whole_files import write_whole
from tools.measured_summary import section

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "measured_by_others.md"
CARDS = ROOT / "tests" / "reference" / "cards"
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("helpers", "published")]

from published import UNITS, Figure, figures, sources  # noqa: E402

HEAD = """# Measured by others

Other people measured memory on real cards and published what they saw: in the benchmark of Liger-Kernel, in reports of
PyTorch's and other repositories, and in the training logs of models on Hugging Face. We rewrote each of their programs
(`tests/published/rebuilt`: a row names a file, a function in it and its arguments) and ran it on the simulated card. Of
{n} figures from {n_sources} sources, published from {first} to {last}, {met} are met in every digit that the source
prints; the other {off} differ, and the tables say why. The sources name these cards: {cards}.

A figure is *met* when the simulated number, printed in the source's unit and with the source's digits, is the same
text. Liger-Kernel keeps its figures as float32 numbers of MiB, so the simulated ones are rounded to float32 too. We
allow no other tolerance, fit no program to its figure, and list every figure that we tried. Those of models on Hugging
Face are of one thing, the weights brought to the card (`init_mem_gpu_alloc_delta`); what the same logs say of training
was not tried. The simulated card follows the rules of the book's PyTorch whatever version a source used, so what
PyTorch has changed since shows as a difference. Where a source does not name its card, the program ran on a simulated
A100. The many figures of 2018 that differ are one report's, of an allocator that PyTorch no longer has.

Written by `python -m tools.published`; `make nightly` compares every figure again.
"""
SENT_IN = """
## With `every-byte measure`

[`every-byte measure`](command.md#every-byte-measure) runs one suite on a card and on its simulation, and compares seven
counters at each of its instants. Files that were sent in are in `tests/reference/cards`. *Recorded over stand-ins*
means that PyTorch's CUDA build ran, and no card: such a row says that the suite works, and nothing about the card.

| card | PyTorch | driver | | instants that agree |
|---|---|---|---|--:|
"""
UNCONFIRMED = """
## What no published figure has confirmed yet

- **Fused attention, in published figures.** No published figure comes from a program that runs flash attention or
  memory-efficient attention.
- **cuDNN's workspaces, but for attention.** The simulated card has none for convolutions and recurrent layers. Above,
  convolutions agree where cuDNN asked for none and differ where it asked for one.
- **Optimizers.** Two of the programs above take steps: PyTorch's recipe of mixed precision with SGD, which keeps no
  state, and the training of LLMs-from-scratch with AdamW. No figure is of a fused, 8-bit or factored optimizer.
- **Several cards.** Every figure above comes from one card.
- **A full card.** No figure above is of fragmentation, `expandable_segments` or an out-of-memory error.
  {n_reserved} are of reserved memory; one of them is of a training run.
- **These cards**, which the simulated GPU knows and no source above names: {unseen}.
"""


def main() -> None:
    """Run every program, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.published", description=__doc__.split("\n")[0])
    parser.add_argument("-j", "--processes", type=int, default=1, help="how many at a time (default: 1)")
    with get_context("spawn").Pool(parser.parse_args().processes) as pool:
        write_whole(PAGE, page(dict(pool.imap_unordered(_simulated, figures()))))
    print(PAGE.relative_to(ROOT))


def _simulated(figure: Figure) -> tuple[str, int]:
    return figure.key, figure.simulated()


def page(simulated: dict[str, int]) -> str:
    """The page, in Markdown, of what each simulated run gave, by the figure's key."""
    every = figures()
    met = [figure for figure in every if figure.is_met(simulated[figure.key])]
    years = sorted(filter(None, map(_year, every)))
    cards = sorted({figure.on for figure in every if figure.on})
    head = HEAD.format(
        n=len(every),
        n_sources=len({figure.source for figure in every}),
        first=years[0],
        last=years[-1],
        met=len(met),
        off=len(every) - len(met),
        cards=", ".join(cards),
    )
    parts = _counts(every, simulated), section(), _sent_in(), _tables(every, simulated), [_unconfirmed(every)]
    return "".join([head, *chain(*parts)])


def _year(figure: Figure) -> str:
    return figure.date[:4]


def _counts(every: tuple[Figure, ...], simulated: dict[str, int]) -> Iterator[str]:
    """How many figures, and how many are met, by card and by year."""
    yield "\n## By card and by year\n"
    for what, of in (("card, as its source names it", lambda figure: figure.on or "not named"), ("year", _year)):
        yield _counted(what, of, every, simulated)


def _counted(what: str, of: Callable[[Figure], str], every: tuple[Figure, ...], simulated: dict[str, int]) -> str:
    tried, met = Counter(map(of, every)), Counter(of(one) for one in every if one.is_met(simulated[one.key]))
    rows = "".join(f"| {name or 'not dated'} | {tried[name]} | {met[name]} |\n" for name in sorted(tried))
    return f"\n| {what} | figures | met |\n|---|--:|--:|\n{rows}"


def _sent_in() -> Iterator[str]:
    """The files of `every-byte measure`: a row each."""
    yield SENT_IN
    for path in sorted(CARDS.glob("*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        rows = [row for one in held["programs"] if one["name"] not in NOT_FOLLOWED for row in one["rows"]]
        agree = sum(not differences(row) for row in rows)
        cells = held["device_name"], held["torch"], held["driver"] or "", held["origin"], f"{agree} of {len(rows)}"
        yield f"| {' | '.join(cells)} |\n"


def _tables(every: tuple[Figure, ...], simulated: dict[str, int]) -> Iterator[str]:
    """A table for each source, in the order of the files."""
    told = sources()
    for source in dict.fromkeys(figure.source for figure in every):
        of_source = [figure for figure in every if figure.source == source]
        n_met = sum(figure.is_met(simulated[figure.key]) for figure in of_source)
        said = told[source]
        facts = ", ".join(filter(None, (said["date"], f"licence: {said['licence']}")))
        yield f"\n## {said['title']}\n\n<{said['url']}>, {facts}. {n_met} of {len(of_source)} met.\n\n"
        yield "| program | arguments | card | PyTorch | date | published | simulated | difference |\n"
        yield "|---|---|---|---|---|--:|--:|--:|\n"
        for _, group in groupby(of_source, lambda figure: (figure.program, figure.on)):
            yield from _rows(list(group), simulated)
        yield from _reasons(of_source)


def _rows(group: list[Figure], simulated: dict[str, int]) -> Iterator[str]:
    """Figures of one program and card, whose names stand in the first row alone."""
    for i, figure in enumerate(group):
        first = [f"`{figure.program}`", figure.on or "not named"] if i == 0 else ["", ""]
        n_bytes = simulated[figure.key]
        cells = [first[0], _arguments(figure), first[1], figure.torch, figure.date]
        told = figure.printed(n_bytes) if n_bytes or figure.is_met(0) else "does not fit"
        cells += [f"{figure.published} {figure.unit}", told, _difference(figure, n_bytes)]
        yield f"| {' | '.join(cells)} |\n"


def _arguments(figure: Figure) -> str:
    told = [f"{name} {value}" for name, value in json.loads(figure.arguments).items() if value != ""]
    return ", ".join(told).replace("torch.", "").replace("_", r"\_")


def _difference(figure: Figure, n_bytes: int) -> str:
    """Nothing where a figure is met; else in bytes, as exactly as the source's digits allow."""
    if figure.is_met(n_bytes):
        return "0"
    if not n_bytes:
        return ""
    return f"{n_bytes - round(float(figure.published) * UNITS[figure.unit]):+,d} bytes"


def _reasons(of_source: list[Figure]) -> Iterator[str]:
    """Why figures differ, each reason with the programs that it is for."""
    differing = sorted((figure for figure in of_source if figure.why), key=lambda figure: figure.why)
    for why, group in groupby(differing, lambda figure: figure.why):
        programs = [figure.program for figure in group]
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(programs))
        yield f"\nWhy {len(programs)} of {names} differ: {why}.\n"


def _unconfirmed(every: tuple[Figure, ...]) -> str:
    from every_byte.gpu.memory.specs import SPECS

    seen = {figure.card for figure in every if figure.on}
    return UNCONFIRMED.format(
        unseen=", ".join(name for name in SPECS if name not in seen),
        n_reserved=sum("reserved" in figure.what for figure in every),
    )


if __name__ == "__main__":
    main()
