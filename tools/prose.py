"""Turns of phrase that make a reader read twice, counted: `python -m tools.prose` lists them, with file and sentence.

Each has a plain word that does its work (`PLAIN`). The list is kept short on purpose: what is on it is wrong nearly
everywhere, and a sentence that needs it all the same is written anew. Code, equations and quotations do not count.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "book/*.md", "book/*.ipynb", "chapters/*.ipynb")
MOST_COLONS = 0.2  # a sentence: where they take the place of verbs and conjunctions there are twice as many

PLAIN = {
    r"\bbehind\b": "after; at the end of",
    r"\bbeside\b": "next to; besides; in addition to",
    r"\bthe rest\b|\ba rest\b": "the remainder; everything else",
    r"\b(?:stands?|standing|stood)\b": "is; there is",
    r"\b(?:lies|lying|lay)\b(?! out\b)": "is; there is",
    r"\b(?:nobody|somebody)\b": "no one; the part of the program that does it",
    r"\bwants?\b(?! to (?:know|see|try|train|learn|read|use|run|say|change|reproduce|check|add))": "needs",
    r"\bin place of\b": "instead of",
    r"\bwhoever\b|^Who\b(?!.*\?)": "if you",
    r"\ba training\b(?! (?:run|step|loop|script|program|job|set|time|memory|figure|budget|process))": "a training run",
    r"\btrips\b": "pitfalls",
    r"\b(?:is|are|was|were|be) (?:said|told)\b": "reports; prints",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bas a whole or not at all\b": "atomically",
    r"\bwhat is more\b|\bof late\b|\bhardly less\b|\bto be had\b|\bcan be had\b|\bin truth\b": "(plainer words)",
    r"\b(?:is|are|comes?) (?:it )?there (?:always|anyway)\b": "always exists",
    r"\bby (?:day|night)\b": "in the nightly tests",
}
"""What not to write, as a pattern, with the words that a native speaker would use."""

_NOT_PROSE = re.compile(
    r"```.*?```|~~~.*?~~~|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]*`|<!--.*?-->|</?[a-zA-Z][^>]*>|\]\([^)]*\)|https?://\S+"
    r"|^\s*\|.*?$|^:::.*?$|^\s*:\w[\w-]*:.*?$|^\(\w[\w-]*\)=$|\{[\w:-]+\}|^---$.*?^---$",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE = re.compile(r"(?<=[.!?])[*_)\"”]*\s+(?=[*_(\"“]*[A-Z0-9])|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


class Turn(NamedTuple):
    """One turn of phrase that reads badly, and the sentence that has it."""

    place: str
    words: str
    plain: str
    sentence: str


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """The prose of a file, each piece with its place: a notebook's by cell, a page's as one."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    if path.suffix != ".ipynb":
        yield name, path.read_text(encoding="utf-8")
        return
    for cell in nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT).cells:
        if cell.cell_type == "markdown" and not cell.source.startswith("## Sources"):
            yield f"{name}:{cell.id}", cell.source


def sentences(text: str) -> list[str]:
    """The sentences of a text, without its headings, tables, code and equations."""
    plain = _NOT_PROSE.sub(" X ", _HEADING.sub("", text))
    found = (" ".join(piece.split()) for piece in _SENTENCE.split(plain))
    return [piece for piece in found if re.search(r"[a-z]{2}", piece)]


def turns(text: str, place: str = "") -> Iterator[Turn]:
    """Each turn of phrase of `PLAIN` in a text."""
    for sentence in sentences(text):
        for pattern, plain in PLAIN.items():
            yield from (
                Turn(place, match[0].strip(), plain, sentence)
                for match in re.finditer(pattern, sentence, re.IGNORECASE)
            )


def colons(text: str) -> tuple[int, int]:
    """How many colons a text's sentences have, and how many sentences there are; labels in bold do not count."""
    found = sentences(re.sub(r"\*\*[^*\n]*(?::\*\*|\*\*:)", " ", text))
    return sum(len(re.findall(r":(?=\s|$)", sentence)) for sentence in found), len(found)


def pages() -> list[Path]:
    """Every file whose sentences a reader meets."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def main(arguments: list[str]) -> int:
    """Print each turn of phrase of the files named, or of all; exit code 1 if there is one."""
    n_turns = 0
    for path in [Path(name).resolve() for name in arguments] or pages():
        n_colons = n_sentences = 0
        for place, text in texts(path):
            for turn in turns(text, place):
                print(f"{turn.place}: {turn.words!r} -> {turn.plain}: {turn.sentence[:150]}")
                n_turns += 1
            more = colons(text)
            n_colons, n_sentences = n_colons + more[0], n_sentences + more[1]
        print(
            f"{path.name}: {n_sentences} sentences, {n_colons} colons ({n_colons / max(n_sentences, 1):.2f} a sentence)"
        )
    print(f"{n_turns} turns of phrase")
    return 1 if n_turns else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
