"""Writes book/releases.md, what changed in PyTorch's memory from release to release: `python -m tools.releases`.

Every figure is one of a recording; tests/reference says how those are made. What a change is called, and where it is
spoken of, is in release_changes.py.
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

The same programs were run over the CUDA builds of {names}, and every allocation was recorded. No GPU was there:
stub libraries stand below PyTorch, whose own code asks for the memory ([how](how_we_know.md)). So these are the
bytes that PyTorch's allocator gives out; what cuDNN's kernels ask for in addition is not known, and not in them.

The builds are those on PyPI ({libraries}). Versions between those that were recorded are not told apart. Written
by `python -m tools.releases`.

The book follows PyTorch {book}, whatever you run. `every-byte run` and `account(…)` follow the version that you
have, or one that you name, as `SimulatedGPU` does: `every-byte run --torch 2.15`, `torch="2.15"`. In a clone
`every-byte verify` runs all recorded programs under your PyTorch, and says which agree.

Attention is computed by one of several kernels. Flash attention, memory-efficient attention and cuDNN's are
*fused*: they never hold all scores. Plain mathematics holds them, a number for each pair of query and key,
several times over. Which one is taken decides most of the differences below.

In each table *peak* is the most that was allocated at a time, in the whole program or in the phase that is named,
and *held* is what was still allocated after it. The card stands behind the program's name.
"""
STEPS = """
## What it comes to for a training step

The most that was allocated at a time, in bytes. What 2.15 takes less is mostly cuBLAS's workspaces, of which a training
kept two.

"""
COUNTED = """
## How many programs differ

Of each program that both versions ran, whether any figure at any of its marks differs, and how the most that was
allocated at a time does. Left out are programs that draw their settings at random, where one version refuses what the
other runs, so that they draw others from there on. A program that fills all that it is given has a larger peak where a
workspace no longer takes its share.

| from | to | programs | no figure differs | peak smaller | peak larger | peak as before, another figure differs |
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
            parts.append(f"\n## {version}, beside {before}\n")
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
        return "Found in the builds; we know of no thread about it."
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
