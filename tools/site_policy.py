"""Gives each page of the built site a Content-Security-Policy: its own files run, its own inline scripts, and no other.

Sphinx and its theme write a few scripts into pages, which are allowed by their digests. KaTeX, notebooks and drawings
write `style` attributes, which no digest allows: each becomes a class of one style sheet, as strong as the attribute.
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterable
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

SHEET = Path("_static", "attributes.css")
_ATTRIBUTE = re.compile(r"""\s+([^\s=>/"']+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_CHARSET = re.compile(r"<meta charset=[^>]*>", re.IGNORECASE)
_OWN = re.compile(r"""<meta http-equiv=["']Content-Security-Policy""", re.IGNORECASE)
# An id that nothing has, three times: stronger than any selector here, weaker than `!important` and a script's word.
_AS_STRONG = ":not(#_)" * 3


class _Reader(HTMLParser):
    """Where a page's start tags are that have a style, and what its inline scripts and style elements say."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._inside = ""
        self.styled: list[tuple[int, str]] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self.handlers: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names, said = dict(attrs), self.get_starttag_text()
        if "style" in names:
            line, column = self.getpos()
            self.styled.append((self._starts[line - 1] + column, said))
        self.handlers += [said for name in names if name.startswith("on")]
        self.handlers += [said for value in names.values() if (value or "").strip().lower().startswith("javascript:")]
        if tag == "style" or (tag == "script" and "src" not in names and "json" not in (names.get("type") or "")):
            self._inside = tag
            self.inline[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.inline[self._inside][-1] += data


def give_policies(html: Path) -> int:
    """A policy for each page in a folder that has none of its own, and the sheet of what were `style` attributes.

    Returns: how many pages have one.
    Raises: ValueError for a page with a script in an attribute, as `onclick`, which would not run.
    """
    styles: dict[str, str] = {}
    pages = sorted(path for path in html.rglob("*.html") if SHEET.parent.name not in path.parts)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if not _OWN.search(text):
            sheet = Path(os.path.relpath(html / SHEET, page.parent)).as_posix()
            page.write_text(with_policy(text, styles, sheet), encoding="utf-8")
    (html / SHEET).parent.mkdir(parents=True, exist_ok=True)
    (html / SHEET).write_text(_sheet(styles), encoding="utf-8")
    return len(pages)


def with_policy(text: str, styles: dict[str, str], sheet: str) -> str:
    """A page with its policy, without `style` attributes; what these said is added to `styles`, by name of class."""
    read = _Reader(text)
    if read.handlers:
        raise ValueError(f"a page must have no script in an attribute: got {read.handlers[0]}; add a listener instead.")
    parts, end = [], 0
    for start, tag in read.styled:
        parts += [text[end:start], _by_class(tag, styles)]
        end = start + len(tag)
    text = "".join([*parts, text[end:]])
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy(**read.inline)}">'
    if read.styled:
        head += f'\n<link rel="stylesheet" href="{escape(sheet)}">'
    charset = _CHARSET.search(text)
    if charset is None:
        raise ValueError(f"a page must say its charset before its policy: got {text[:200]!r}.")
    return f"{text[: charset.end()]}\n{head}{text[charset.end() :]}"


def policy(script: Iterable[str], style: Iterable[str]) -> str:
    """What a page may do that has these scripts and style elements in it; it may ask its own site alone."""
    return "; ".join((
        "default-src 'self'",
        " ".join(["script-src 'self'", *_digests(script)]),
        " ".join(["style-src 'self'", *_digests(style)]),
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ))  # fmt: skip


def _digests(texts: Iterable[str]) -> list[str]:
    found = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return [f"'sha256-{one}'" for one in dict.fromkeys(found)]


def _by_class(tag: str, styles: dict[str, str]) -> str:
    """A start tag whose `style` is a class, behind those that it has."""
    attributes = [(found[1], found[2], found[0]) for found in _ATTRIBUTE.finditer(tag)]
    first = next(_ATTRIBUTE.finditer(tag)).start()
    values = {name.lower(): unescape(value.strip("\"'") if value else "") for name, value, _ in attributes}
    style = values["style"].strip()
    classes = " ".join(filter(None, (values.get("class", ""), _named(style, styles) if style else "")))
    said_of_class = f' class="{escape(classes)}"' if classes else ""
    kept = "".join(said for attribute, _, said in attributes if attribute.lower() not in ("style", "class"))
    end = "/>" if tag.endswith("/>") else ">"
    return f"{tag[:first]}{said_of_class}{kept}{end}"


def _named(style: str, styles: dict[str, str]) -> str:
    """The class that says what a `style` did."""
    if {"{", "}"} & {*style}:
        raise ValueError(f"a style must be declarations alone: got {style!r}.")
    name = f"s-{hashlib.sha256(style.encode()).hexdigest()[:8]}"
    if styles.setdefault(name, style) != style:
        raise ValueError(f"two styles have the digest {name}: {style!r} and {styles[name]!r}.")
    return name


def _sheet(styles: dict[str, str]) -> str:
    return "".join(f".{name}{_AS_STRONG} {{{style}}}\n" for name, style in sorted(styles.items()))
