"""Puts the style sheets and the scripts that pages share into two or three files, of what the site uses of them.

Sphinx, its theme and extensions bring some twenty files to every page, most of whose rules no page needs. PurgeCSS
leaves out the rules of classes that are in no page and no script, esbuild what only a reader of the files needs.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

_SHEET = re.compile(r'[ \t]*<link\b(?=[^>]*\brel="stylesheet")[^>]*\bhref="([^"?#]+)[^"]*"[^>]*>\n?')
_SCRIPT = re.compile(r'[ \t]*<script\b([^>]*)\bsrc="([^"?#]+)[^"]*"([^>]*)></script>\n?')
_URL = re.compile(r"""url\((["']?)(?!data:|https?:|#)([^"')]+)\1\)""")
_IMPORT, _CHARSET = re.compile(r'@import "([^"]+)";'), re.compile(r'@charset "[^"]+";')
_VIEWPORT = re.compile(r'[ \t]*<meta name="viewport"[^>]*>\n?')
_MADE_BY_SCRIPTS = ("show", "collapsing", "collapse", "modal-open", "modal-backdrop", "tooltip", "tooltip-inner")
STATIC = "_static"


def bundle(html: Path, modules: Path) -> None:
    """All pages in a folder load the bundles in place of what is in them, and say once how wide a screen is."""
    pages = {path: path.read_text(encoding="utf-8") for path in _pages(html)}
    named = _in_one_order(_local(_SHEET, 1, text, path, html) for path, text in pages.items())
    sheets = [name for name in named if (html / name).is_file()]  # explorers come later, with a sheet of their own
    style = _write(html, _without_unused(_joined_sheets(html, sheets), html, modules), "css", modules)
    blocking, deferred = _shared(pages, html)
    early = _write(html, _joined_scripts(html, blocking), "js", modules)
    late = _write(html, _joined_scripts(html, deferred), "js", modules)
    for path, text in pages.items():
        text = _replaced(_SHEET, text, path, html, sheets, '<link rel="stylesheet" href="{}">', style)
        text = _replaced(_SCRIPT, text, path, html, blocking, '<script src="{}"></script>', early)
        text = _replaced(_SCRIPT, text, path, html, deferred, '<script defer src="{}"></script>', late)
        path.write_text(_one_viewport(text), encoding="utf-8")


def _pages(html: Path) -> list[Path]:
    """Those that Sphinx made: a report has its own style and script in it."""
    found = (path for path in html.rglob("*.html") if STATIC not in path.relative_to(html).parts)
    return [path for path in sorted(found) if "data-content_root" in path.read_text(encoding="utf-8")]


def _local(pattern: re.Pattern, group: int, text: str, page: Path, html: Path) -> list[str]:
    """The files of the site that a page names, as paths in it, in order."""
    names = (os.path.normpath(page.parent / found[group]) for found in pattern.finditer(text))
    return [Path(name).relative_to(html).as_posix() for name in names]


def _in_one_order(lists: Iterable[list[str]]) -> list[str]:
    """All names of several lists, each after those that stand before it in the first list that has it."""
    order: list[str] = []
    for names in sorted(lists, key=len, reverse=True):
        for before, name in zip(["", *names], names):
            if name not in order:
                order.insert(order.index(before) + 1 if before in order else 0, name)
    return order


def _shared(pages: dict[Path, str], html: Path) -> tuple[list[str], list[str]]:
    """The scripts that every page has: those that a page waits for, and those that wait for the page."""
    kinds = []
    for is_deferred in (False, True):
        lists = [
            [
                Path(os.path.normpath(path.parent / found[2])).relative_to(html).as_posix()
                for found in _SCRIPT.finditer(text)
                if ("defer" in f"{found[1]}{found[3]}") is is_deferred
            ]
            for path, text in pages.items()
        ]
        kinds.append([name for name in lists[0] if all(name in names for names in lists)] if lists else [])
    return kinds[0], kinds[1]


def _joined_sheets(html: Path, names: list[str]) -> str:
    """One sheet of several, whose addresses lead where they led; what they import comes with them."""
    return "\n".join(_sheet(html / name, html / STATIC) for name in names)


def _sheet(path: Path, to: Path) -> str:
    """A sheet as it would stand in that folder."""

    def moved(found: re.Match) -> str:
        target, _, rest = found[2].partition("#")
        there = os.path.relpath(path.parent / target.partition("?")[0], to)
        return f'url("{Path(there).as_posix()}{"#" + rest if rest else ""}")'

    text = _CHARSET.sub("", path.read_text(encoding="utf-8"))
    parts = _IMPORT.split(text)  # text, address, text, …
    inlined = [_sheet(path.parent / part, to) if i % 2 else _URL.sub(moved, part) for i, part in enumerate(parts)]
    return "".join(inlined)


def _joined_scripts(html: Path, names: list[str]) -> str:
    """One script of several; the first sign keeps what one of them says of strictness from holding for all."""
    return ";\n" + ";\n".join((html / name).read_text(encoding="utf-8") for name in names)


def _without_unused(style: str, html: Path, modules: Path) -> str:
    """A sheet without the rules of classes and ids that neither a page nor a script has."""
    whole = html / STATIC / "whole.css"
    whole.write_text(style, encoding="utf-8")
    settings = {
        "css": [str(whole)],
        "content": [str(html / "**" / "*.html"), str(html / "**" / "*.js")],
        "skippedContentGlobs": [str(html / name) for name in ("searchindex.js", f"{STATIC}/search_sections.js")],
        "safelist": {"standard": list(_MADE_BY_SCRIPTS)},
        "keyframes": True,
    }
    program = (
        f"const {{ PurgeCSS }} = require({json.dumps(str(modules / 'purgecss'))});"
        "const settings = JSON.parse(process.argv[1]); settings.safelist.greedy = [/^eb(-|$)/];"  # explorers'
        "new PurgeCSS().purge(settings).then(([{ css }]) => process.stdout.write(css));"
    )
    done = subprocess.run(["node", "-e", program, json.dumps(settings)], capture_output=True, check=True, text=True)
    whole.unlink()
    return done.stdout


def _write(html: Path, text: str, kind: str, modules: Path) -> str:
    """The path of a bundle, named by its content, so that no browser keeps an old one."""
    command = [modules / ".bin" / "esbuild", f"--loader={kind}", "--minify", "--legal-comments=none"]
    done = subprocess.run([*command, "--log-level=error"], input=text, capture_output=True, check=True, text=True)
    name = f"{STATIC}/site-{hashlib.sha256(done.stdout.encode()).hexdigest()[:10]}.{kind}"
    (html / name).write_text(done.stdout, encoding="utf-8")
    return name


def _replaced(pattern: re.Pattern, text: str, page: Path, html: Path, names: list[str], tag: str, bundle: str) -> str:
    """A page that loads the bundle where it first loaded one of these, and none of the others."""
    group = 1 if pattern is _SHEET else 2
    is_there = False

    def change(found: re.Match) -> str:
        nonlocal is_there
        if Path(os.path.normpath(page.parent / found[group])).relative_to(html).as_posix() not in names:
            return found[0]
        if is_there:
            return ""
        is_there = True
        return f"{tag.format(Path(os.path.relpath(html / bundle, page.parent)).as_posix())}\n"

    return pattern.sub(change, text)


def _one_viewport(text: str) -> str:
    """Sphinx, docutils and the theme each say how wide a screen is."""
    for found in [*_VIEWPORT.finditer(text)][:0:-1]:
        text = text[: found.start()] + text[found.end() :]
    return text
