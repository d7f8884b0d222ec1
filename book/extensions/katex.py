"""Mathematics as HTML and MathML, made by KaTeX when the site is built: one node process for all formulas."""

import json
import re
import subprocess
from functools import cache
from html import unescape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform

PROGRAM = Path(__file__).with_suffix(".js")
SHORT = 30  # characters of LaTeX; a longer formula may have to be broken
OPENING = re.compile(r"[(“]+$")
CLOSING = re.compile(r"[.,;:?)”’]+")


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
        self._node.stdout.close()
        self._node.wait()


class KeepTogether(SphinxPostTransform):
    """Notes with each short formula the bracket or comma beside it, so that no line ends between the two."""

    default_priority = 900

    def run(self, **_kwargs) -> None:
        for formula in [node for node in self.document.findall(nodes.math) if len(node.astext()) <= SHORT]:
            around, place = formula.parent, formula.parent.index(formula)
            if place and (found := OPENING.search(before := around[place - 1].astext())):
                self.take(formula, "before", around, place - 1, found[0], before[: found.start()])
            if place + 1 < len(around) and (found := CLOSING.match(after := around[place + 1].astext())):
                self.take(formula, "after", around, place + 1, found[0], after[found.end() :])

    @staticmethod
    def take(formula: nodes.math, side: str, around: nodes.Element, place: int, words: str, rest: str) -> None:
        if isinstance(around[place], nodes.Text):
            formula[side] = words
            around[place] = nodes.Text(rest)


class Mathematics:
    """What Sphinx's writer calls for each formula of a site. Node is started for the first one."""

    def __init__(self, app: Sphinx):
        self._app = app
        self._katex: Katex | None = None

    def html(self, node: nodes.Element, display: bool) -> str:
        self._katex = self._katex or Katex(Path(self._app.config.katex_module))
        return self._katex.html(unescape(node.astext()), display)

    def inline(self, writer, node: nodes.math) -> None:
        """A formula within a line."""
        kind = "math together" if "before" in node or "after" in node else "math"
        inside = f"{node.get('before', '')}{self.html(node, False)}{node.get('after', '')}"
        writer.body.append(f'<span class="{kind}">{inside}</span>')
        raise nodes.SkipNode

    def block(self, writer, node: nodes.math_block) -> None:
        """A formula on lines of its own; beside it its number, which numbered.py took out of its LaTeX."""
        number, html = node.get("equation"), f'<div class="formula">{self.html(node, True)}</div>'
        if number:
            anchor = node["ids"][0]
            link = f'<a class="number" href="#{anchor}" aria-label="Equation ({number})">({number})</a>'
            writer.body.append(f'<div class="math equation" id="{anchor}">{html}{link}</div>\n')
        else:
            writer.body.append(f'<div class="math equation">{html}</div>\n')
        raise nodes.SkipNode

    def close(self, *_event) -> None:
        if self._katex:
            self._katex.close()


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    mathematics = Mathematics(app)
    app.add_config_value("katex_module", "", "html")
    app.add_html_math_renderer("every_byte_katex", (mathematics.inline, None), (mathematics.block, None))
    app.add_post_transform(KeepTogether)
    app.connect("build-finished", mathematics.close)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
