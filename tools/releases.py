"""Writes book/releases.md, what changed in PyTorch's memory from release to release: `python -m tools.releases`.

Every figure comes from a recording; tests/reference explains how those are made. The titles, texts and sources of the
changes are in release_changes.py.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from every_byte.gpu.memory.versions import VERSIONS
from every_byte.verify.recordings import BOOK, Recorded, Recordings, versions
from every_byte.verify.verify import jobs
from every_byte.whole_files import write_whole
from tools.release_changes import CHANGES, LIBRARIES, PROGRAMS, Change

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "releases.md"

HEAD = """# What changed in PyTorch's memory, release by release

We ran the same programs on the CUDA builds of {names} and recorded every allocation. No GPU was
involved. PyTorch's own code requests the memory, and stub libraries below it answer ([how](how_we_know.md)). The
figures are therefore the bytes that PyTorch's allocator hands out. What cuDNN's kernels request in addition is unknown
and not included.

The builds are those on PyPI ({libraries}).
A change that came in a version between two recorded ones appears under the later one. `python -m tools.releases` writes
this page.

The book follows PyTorch {book}, whichever version you run. `every-byte run` and `account(…)` follow the version you
have. You can name another one for these and for `SimulatedGPU`, as in `every-byte run --torch 2.15` or `torch="2.15"`.
In a clone, `every-byte verify` runs all recorded programs under your PyTorch and reports which agree.

PyTorch computes attention with one of several kernels. Flash attention, memory-efficient attention and cuDNN's
attention are *fused* and never hold all scores. The unfused form, plain attention, holds several tensors of scores,
with a number for each pair of query and key. Which kernel PyTorch chooses explains most of the differences below.

In each table, *peak* is the most bytes allocated at any one time in the program, or in the phase named, and *held* is
what is still allocated afterwards. The end of a program's name is its card.
"""
STEPS = """
## The effect on a training step

The table shows peak allocated bytes. Most of what 2.15 saves is cuBLAS's workspaces, of which a training run used to
keep two.

"""
COUNTED = """
## How many programs differ

For every program that both versions ran, the table counts whether any figure differs and how the peak changes. It omits
programs with random settings where one version refuses a setting that the other runs, because their later settings
differ. Some programs fill all the memory they are given. Their peak grows when a workspace no longer takes its share.

| from | to | programs | no figure differs | peak smaller | peak larger | same peak, another figure differs |
|---|---|--:|--:|--:|--:|--:|
"""
WHOLE = "after it"
"""The mark of a program that has no other."""
LINK = "https://github.com/pytorch/pytorch"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m tools.releases", description=__doc__.split("\n")[0]).parse_args()
    write_whole(PAGE, page())
    print(PAGE.relative_to(ROOT))


def page() -> str:
    """The page, in Markdown; it reads every recording."""
    return told() + COUNTED + "".join(_counted(_recorded()))


def told() -> str:
    """The page without the counts of programs, for which every recording is read."""
    recorded = _recorded()
    numbers = [recording.version for recording in recorded.values()]
    names = f"PyTorch {', '.join(numbers[:-1])} and {numbers[-1]}"
    libraries = "; ".join(f"{number}: {LIBRARIES[number]}" for number in numbers)
    parts = [HEAD.format(names=names, libraries=libraries, book=BOOK.rsplit(".", 1)[0])]
    parts += [STEPS, *_steps(recorded)]
    for version in reversed(list(recorded)):
        if changes := [change for change in CHANGES if change.version == version]:
            before, _ = _around(version, list(recorded))
            parts.append(f"\n## {version}, compared with {before}\n")
            parts += [_told(change, recorded) for change in changes]
    return "".join(parts)


@cache
def _recorded() -> dict[str, Recordings]:
    return {name: Recordings(folder) for name, folder in versions().items()}


def _steps(recorded: dict[str, Recordings]) -> Iterator[str]:
    first, *_, last = recorded
    yield f"| program | {' | '.join(recorded)} | {first} to {last} |\n|---|{'--:|' * (len(recorded) + 1)}\n"
    for name, what in PROGRAMS.items():
        one = _case(name)
        most = [_most(recordings[one]) for recordings in recorded.values()]
        yield f"| {what}, `{name}` | {' | '.join(f'{n:,d}' for n in most)} | {most[-1] - most[0]:+,d} |\n"


def _told(change: Change, recorded: dict[str, Recordings]) -> str:
    """A heading, what changed, and the figures of its small program before and after."""
    text = f"\n### {change.title}\n\n{change.text} {_sources(change)}\n"
    if not change.case:
        return text
    before, after = _around(change.version, list(recorded))
    one = _case(change.case)
    marks = list(zip(recorded[before][one]["marks"], recorded[after][one]["marks"], strict=True))
    rows = [
        (what, old[reading], new[reading])
        for old, new in marks
        for reading, what in (("peak", f"peak{_phase(new['name'])}"), ("allocated", f"held{_moment(new['name'])}"))
        if old[reading] != new[reading]
    ]
    body = "".join(f"| {what} | {old:,d} | {new:,d} | {new - old:+,d} |\n" for what, old, new in rows)
    return f"{text}\n| bytes, `{change.case}` | {before} | {after} | difference |\n|---|--:|--:|--:|\n{body}"


def _phase(mark: str) -> str:
    """What ends with a mark: ", in backward" of "after backward"; nothing where it is the whole program."""
    return "" if mark == WHOLE else f", {mark.replace('after ', 'in ')}"


def _moment(mark: str) -> str:
    """When that is: ", after backward"; nothing where the whole program has run."""
    return "" if mark == WHOLE else f", {mark}"


def _sources(change: Change) -> str:
    if not change.threads:
        return "We found this in the builds and know of no discussion of it."
    kinds = {"pull": "pull request", "issues": "issue"}
    links = [f"{kinds[kind]} [{number}]({LINK}/{kind}/{number})" for kind, number in change.threads]
    return f"In PyTorch: {', '.join(links)}."


def _counted(recorded: dict[str, Recordings]) -> Iterator[str]:
    names = list(recorded)
    for before, after in zip(names, names[1:], strict=False):
        old, new = recorded[before], recorded[after]
        both = [(old[one], new[one]) for one in jobs([]) if one in old and one in new]
        pairs = [pair for pair in both if _marks(pair[0]) == _marks(pair[1])]
        same = sum(one["marks"] == other["marks"] for one, other in pairs)
        smaller = sum(_most(other) < _most(one) for one, other in pairs)
        larger = sum(_most(other) > _most(one) for one, other in pairs)
        counts = (len(pairs), same, smaller, larger, len(pairs) - same - smaller - larger)
        yield f"| {before} | {after} | " + " | ".join(f"{n:,d}" for n in counts) + " |\n"


def _marks(recording: dict) -> list[str]:
    return [mark["name"] for mark in recording["marks"]]


def _around(version: str, names: list[str]) -> tuple[str, str]:
    """The recorded versions before and from a change on."""
    at = names.index(version)
    if not at:
        raise ValueError(f"a change must have a recorded version before it: got {version}, of {', '.join(names)}.")
    return names[at - 1], names[at]


def _most(recording: dict) -> int:
    return max(mark["peak"] for mark in recording["marks"])


def _case(name: str) -> Recorded:
    """The case of a name with its card, "release_linear.a100"."""
    case, card = name.rsplit(".", 1)
    return next(one for one in jobs([case]) if one.card == card)


def without_words() -> list[tuple[str, str]]:
    """The rules that a version changes, and that no change of that version names: (version, rule)."""
    told = {(change.version, name) for change in CHANGES for name in change.rules}
    names = list(versions())
    fields = vars(VERSIONS[names[0]]).keys() - {"torch_version", "is_verified"}
    changed = {
        (after, name)
        for before, after in zip(names, names[1:], strict=False)
        for name in fields
        if getattr(VERSIONS[before], name) != getattr(VERSIONS[after], name)
    }
    return sorted(changed - told) + sorted(told - changed)


if __name__ == "__main__":
    sys.exit(main())
