"""The formula sheet and the decision sheet as pages of the site, from the files that are made to be printed."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class FormulaSheet(SphinxDirective):
    """The tables of a written sheet, a section for each of its headings: ```{formula-sheet} formula_sheet.html```."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        body = re.search(r"<body>\s*<h1>.*?</h1>(.*)</body>", path.read_text(encoding="utf-8"), re.DOTALL)[1]
        first, *rest = re.split(r"<h2>(.*?)</h2>", body)
        found = [self.tables(first)]
        for title, tables in zip(rest[::2], rest[1::2]):
            section = nodes.section("", nodes.title("", title), self.tables(tables), names=[nodes.make_id(title)])
            self.state.document.note_implicit_target(section, section)
            found.append(section)
        return found

    @staticmethod
    def tables(html: str) -> nodes.raw:
        return nodes.raw("", f'<div class="formula-sheet">{html}</div>', format="html")


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_directive("formula-sheet", FormulaSheet)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
