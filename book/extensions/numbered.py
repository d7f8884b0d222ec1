r"""What chapters number and refer to: equations by their tags, sections, chapters and exercises by their headings.

Chapters are plain notebooks: they write `\tag{4.5}` in an equation, or "(4.5)" before a row of a table; and in the text
"(4.5)", "section 4.8", "sections 4.5, 4.6 and 4.8", "chapter 2", "chapters 0b to 4", "exercise 3 of chapter 2",
"exercises 1 and 2". Each number becomes a link to what it names; what names nothing stays text.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from .running_text import NUMBER_OF_A_ROW, link, replace_in_text

LOGGER = logging.getLogger(__name__)
TAG = re.compile(r"\s*\\tag\{([^}]+)\}")
ROW_NUMBER = re.compile(r"\((\d+\.\d+)\)")
CHAPTER_TITLE = re.compile(r"(\d+[a-z]?)\. ")
SECTION_TITLE = re.compile(r"(\d+\.\d+) ")
EXERCISE_TITLE = re.compile(r"Exercise (\d+)\b")

# "2022, section 4.1" is a section of what was published in 2022. After "sections", not after "section", several follow.
NUMBER = re.compile(r"\d+(?:\.\d+|[a-z]\b)?")
CHAPTER = r"\d+(?:[a-z]\b)?"
BETWEEN = r"(?:,\s(?:and\s|or\s)?|\s(?:and|or|to)\s)"
MENTION = re.compile(
    rf"""
    (?<![\w.(]) \((?P<equation>\d+\.\d+)\) (?![\w(])
    | (?<![\w.]) (?<!\d{{4}},\s) (?P<section>[Ss]ection (?: \s\d+\.\d+ | s\s\d+\.\d+ (?:{BETWEEN}\d+\.\d+)*))
    | (?<![\w.]) (?P<exercise>[Ee]xercise (?: \s\d+ | s\s\d+ (?:{BETWEEN}\d+ (?!\.?\d))*))
      (?:\sof\schapter\s(?P<of>{CHAPTER}))?
    | (?<![\w.]) (?P<chapter>[Cc]hapter (?: \s{CHAPTER} | s\s{CHAPTER} (?:{BETWEEN}{CHAPTER} (?!\.?\d))*))
    """,
    re.VERBOSE,
)


def numbered(env: BuildEnvironment) -> dict[tuple[str, str], tuple[str, str]]:
    """(kind, number) -> (document, anchor); an exercise's number is "chapter's document:3"."""
    if not hasattr(env, "every_byte_numbered"):
        env.every_byte_numbered = {}
    return env.every_byte_numbered


def collect(app: Sphinx, document: nodes.document) -> None:
    """Notes what this document numbers, and takes the tags out of its equations."""
    env, name = app.env, app.env.docname
    known = numbered(env)
    for equation in document.findall(nodes.math_block):
        if found := TAG.search(equation.astext()):
            equation["equation"] = found[1]
            equation["ids"] = [_note_equation(known, found[1], name)]
            latex = TAG.sub("", equation.astext())
            equation.clear()
            equation += nodes.Text(latex)
    for row in document.findall(nodes.row):  # a derivation in lines may be a table, its first column the numbers
        if found := ROW_NUMBER.fullmatch(row[0].astext().strip()):
            row[0]["ids"] = [_note_equation(known, found[1], name)]
            row[0]["classes"].append(NUMBER_OF_A_ROW)
    for section in document.findall(nodes.section):
        title, anchor = section[0].astext(), section["ids"][0]
        if found := SECTION_TITLE.match(title):
            known["section", found[1]] = name, anchor
        elif found := EXERCISE_TITLE.match(title):
            known["exercise", f"{name}:{found[1]}"] = name, anchor
        elif (found := CHAPTER_TITLE.match(title)) and name.startswith("chapters/"):
            known["chapter", found[1]] = name, ""


def _note_equation(known: dict, number: str, name: str) -> str:
    """The anchor of a numbered equation of the document `name`."""
    if ("equation", number) in known:
        raise ValueError(f"two equations have the tag {number}: in {known['equation', number][0]} and {name}")
    anchor = f"equation-{number.replace('.', '-')}"
    known["equation", number] = name, anchor
    return anchor


def forget(_app: Sphinx, env: BuildEnvironment, name: str) -> None:
    """Of a document that is read again."""
    known = numbered(env)
    for key in [key for key, (where, _) in known.items() if where == name]:
        del known[key]


def targets_of(found: re.Match, name: str, known: dict) -> list[tuple[str, tuple[str, str] | None]]:
    """The words of a mention in the document `name`, in pieces, each with what it leads to: None if to nothing."""
    if found["exercise"]:
        chapter = known.get(("chapter", found["of"]), (None, ""))[0] if found["of"] else name
        *pieces, (words, target) = _targets_in_a_list(found["exercise"], "exercise", name, known, f"{chapter}:")
        return [*pieces, (words + found[0].removeprefix(found["exercise"]), target)]
    if found["equation"]:
        target = known.get(("equation", found["equation"]))
        if not target and ("chapter", found["equation"].split(".")[0]) in known:
            LOGGER.warning(
                "%s names an equation that no chapter has: write 'section' if that is meant", found[0], location=name
            )
        return [(found[0], target)]
    return _targets_in_a_list(found[0], found.lastgroup, name, known)


def _targets_in_a_list(
    words: str, kind: str, name: str, known: dict, of: str = ""
) -> list[tuple[str, tuple[str, str] | None]]:
    """Of "sections 2.1 and 2.2": "sections 2.1", " and ", "2.2". A chapter does not lead to itself."""
    pieces, done = [], 0
    for number in NUMBER.finditer(words):
        start = number.start() if done else 0
        target = known.get((kind, of + number[0]))
        is_here = kind == "chapter" and target and target[0] == name
        pieces += [(words[done:start], None), (words[start : number.end()], None if is_here else target)]
        done = number.end()
    return [piece for piece in pieces if piece[0]]


def refer(app: Sphinx, document: nodes.document, name: str) -> None:
    """Links each mention in running text to what it names."""
    known = numbered(app.env)

    def replaced(found: re.Match) -> list[nodes.Node]:
        pieces = targets_of(found, name, known)
        return [
            link(app, name, target, words, ["cross-reference"]) if target else nodes.Text(words)
            for words, target in pieces
        ]

    replace_in_text(document, MENTION, replaced)


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("doctree-resolved", refer, priority=600)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
