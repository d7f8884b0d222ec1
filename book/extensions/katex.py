"""Mathematics as HTML and MathML, made by KaTeX when the site is built: one node process for all formulas."""

import json
import subprocess
from functools import cache
from html import unescape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

PROGRAM = Path(__file__).with_suffix(".js")


class Katex:
    """A running node that renders one formula at a time; `close` ends it.

    Raises: ExtensionError for a formula that KaTeX does not understand, and where node is missing.
    """

    def __init__(self, module: Path):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        try:
            self._node = subprocess.Popen(["node", str(PROGRAM), str(module)], **pipes)
        except FileNotFoundError:
            raise ExtensionError("mathematics is rendered by node, which is not on the PATH; install Node.js") from None
        self.html = cache(self._render)

    def _render(self, latex: str, display: bool) -> str:
        self._node.stdin.write(json.dumps({"latex": latex, "display": display}) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        answer = json.loads(line) if line else {"error": "node ended without an answer"}
        if "error" in answer:
            raise ExtensionError(f"KaTeX cannot render {latex!r}: {answer['error']}")
        return answer["html"]

    def close(self) -> None:
        self._node.stdin.close()
        self._node.wait()


def _renderer(writer) -> Katex:
    app = writer.builder.app
    if not hasattr(app, "every_byte_katex"):
        app.every_byte_katex = Katex(Path(app.config.katex_module))
    return app.every_byte_katex


def inline(writer, node: nodes.math) -> None:
    """A formula within a line."""
    html = _renderer(writer).html(unescape(node.astext()), False)
    writer.body.append(f'<span class="math">{html}</span>')
    raise nodes.SkipNode


def block(writer, node: nodes.math_block) -> None:
    """A formula on lines of its own; beside it its number, which extensions/equations.py took out of its LaTeX."""
    html = _renderer(writer).html(unescape(node.astext()), True)
    number = node.get("equation")
    anchor = f' id="{node["ids"][0]}"' if number else ""
    writer.body.append(f'<div class="math equation"{anchor}><div class="formula">{html}</div>')
    if number:
        link = f'<a class="number" href="#{node["ids"][0]}" aria-label="Equation ({number})">({number})</a>'
        writer.body.append(link)
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def _close(app: Sphinx, _failure) -> None:
    if hasattr(app, "every_byte_katex"):
        app.every_byte_katex.close()


def setup(app: Sphinx) -> dict:
    app.add_config_value("katex_module", "", "html")
    app.add_html_math_renderer("every_byte_katex", (inline, None), (block, None))
    app.connect("build-finished", _close)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
