"""A report as one page for a browser: nothing is fetched, no script but its own runs, and all text is escaped."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from every_byte.palette import Colour, assign
from every_byte.report.run import Run
from every_byte.terminal import json_of
from every_byte.widget.scripts import PAGE, classic

from .drawn import data_of
from .markup import Html, element, joined
from .moments import Moments
from .reporters import flames_to_json
from .sections import fit_box, sections, title_of

_HERE = Path(__file__).parent / "page"
_SHARED = ("elements.js", "numbers.js", "areas.js", "timeline.js")
_OWN = ("owners.js", "tree.js", "flame.js", "card.js", "segments.js", "report.js")


def html_of(report: Run) -> str:
    """The page of a report."""
    moments = Moments.of(report) if report.holds_something else None
    names = list(moments.timeline.columns) if moments else []
    content = element("main", joined(sections(report, names)), class_="eb eb-report")
    text = _json(data_of(report, moments)) if moments else ""
    data = element("script", Html(text), type="application/json", id="data") if moments else ""
    return document(f"{title_of(report)}: where its memory goes", assign(names), content, data, code=script())


def flame_page(report: Run) -> str:
    """A page of the flame graph alone, below the verdict."""
    moments = Moments.of(report) if report.holds_something else None
    names = list(moments.timeline.columns) if moments else []
    here = [element("div", id="flame-here")] if moments else []
    content = element("main", element("h1", title_of(report)), fit_box(report), *here, class_="eb eb-report")
    colours = moments.timeline.spec()["colours"] if moments else {}
    text = _json({"flames": flames_to_json(report), "colours": colours}) if moments else ""
    data = element("script", Html(text), type="application/json", id="data") if moments else ""
    code = classic([*(PAGE / name for name in _SHARED), _HERE / "flame.js", _HERE / "flame_page.js"])
    return document(f"{title_of(report)}: flame graph", assign(names), content, data, code=code)


def document(
    title: str, colours: dict[str, Colour], *body: object, code: str = "", styles: Sequence[str] = ("report.css",)
) -> str:
    """A whole page of these elements: with the colours as classes `c1`, `c2` and so on, and one script or none."""
    style = _style(colours, styles)
    head = joined((
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, code)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        element("style", Html(style)),
    ))  # fmt: skip
    last = [element("script", Html(code))] if code else []
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{joined([*body, *last])}</body></html>\n'


def _policy(style: str, script: str) -> str:
    """Nothing is allowed but this very style and this very script, if there is one."""
    scripts = _hash(script) if script else "'none'"
    return f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _style(colours: dict[str, Colour], own: Sequence[str]) -> str:
    tones = [f".c{i}{{--light:{c.light};--dark:{c.dark}}}" for i, c in enumerate(colours.values(), start=1)]
    files = PAGE / "explorer.css", *(_HERE / name for name in own)
    return "\n".join([*(file.read_text(encoding="utf-8") for file in files), *tones])


def script() -> str:
    """The page's script."""
    return classic(modules())


def modules() -> list[Path]:
    """The modules that it is made of, each of which imports earlier ones only."""
    return [*(PAGE / name for name in _SHARED), *(_HERE / name for name in _OWN)]


def _json(data: dict[str, Any]) -> str:
    """JSON that ends no script, whatever the texts in it are."""
    text = json_of(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
