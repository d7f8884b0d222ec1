"""Writes book/measured_by_others.md, which compares published figures with simulated ones: `python -m tools.published`.

The figures are in tests/published/figures, their sources in sources.toml there, and the programs in rebuilt.
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

Other people measured memory on real cards and published the results in Liger-Kernel's benchmark, in issues and
documents of PyTorch and other repositories, and in training logs of models on Hugging Face. We rewrote each program
(a row names a file in `tests/published/rebuilt`, a function and its arguments) and ran it on the simulated card. Of
{n} figures from {n_sources} sources, published from {first} to {last}, {met} are met in every digit that the source
prints. The other {off} differ, and a note below each table gives the reasons. The sources name these cards: {cards}.

A figure is *met* when the simulated number, printed in the source's unit with the source's digits, is the same text.
Liger-Kernel stores its figures as float32 numbers of MiB, so we round the simulated ones to float32 too. We allow no
other tolerance, fit no program to its figure, and list every figure we tried. The figures from Hugging Face cover only
the weights moved to the card (`init_mem_gpu_alloc_delta`). We did not try what those logs report about training. The
simulated card follows the rules of the book's PyTorch whatever version a source used, so anything PyTorch has changed
since shows as a difference. If a source does not name its card, the program ran on a simulated A100. The many differing
figures of 2018 come from one report, about an allocator that PyTorch no longer has.

`python -m tools.published` writes this page, and `make nightly` compares every figure again.
"""
SENT_IN = """
## With `every-byte measure`

[`every-byte measure`](command.md#every-byte-measure) runs a suite on a card and on its simulation, and compares seven
counters at every instant of the suite. Files we received are in `tests/reference/cards`. `recorded over stand-ins`
means that PyTorch's CUDA build ran without a card. Such a row shows that the suite works and nothing about the card.

| card | PyTorch | driver | | instants that agree |
|---|---|---|---|--:|
"""
UNCONFIRMED = """
## What no published figure has confirmed yet

- **Fused attention.** No published figure comes from a program that runs flash attention or memory-efficient attention.
- **cuDNN's workspaces, except for attention.** The simulated card has none for convolutions and recurrent layers. In
  the tables above, convolutions agree where cuDNN requested no workspace and differ where it requested one.
- **Optimizers.** Two of the programs above take optimizer steps. PyTorch's mixed-precision recipe uses SGD, which keeps
  no state, and LLMs-from-scratch uses AdamW. No figure covers a fused, 8-bit or factored optimizer.
- **Several cards.** Every figure above comes from a single card.
- **A full card.** No figure above covers fragmentation, `expandable_segments` or an out-of-memory error.
  {n_reserved} figures are of reserved memory, one of them from a training run.
- **These cards**, which the simulated GPU knows but no source above names: {unseen}.
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
    """Figures of one program and card; only the first row names them."""
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
    """Why figures differ, each reason with its programs."""
    differing = sorted((figure for figure in of_source if figure.why), key=lambda figure: figure.why)
    for why, group in groupby(differing, lambda figure: figure.why):
        programs = [figure.program for figure in group]
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(programs))
        what = "1 figure" if len(programs) == 1 else f"{len(programs)} figures"
        yield f"\nWhy {what} of {names} differ{'s' * (len(programs) == 1)}: {why}.\n"


def _unconfirmed(every: tuple[Figure, ...]) -> str:
    from every_byte.gpu.memory.specs import SPECS

    seen = {figure.card for figure in every if figure.on}
    return UNCONFIRMED.format(
        unseen=", ".join(name for name in SPECS if name not in seen),
        n_reserved=sum("reserved" in figure.what for figure in every),
    )


if __name__ == "__main__":
    main()
