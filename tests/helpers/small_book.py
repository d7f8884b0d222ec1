"""A book of two small chapters, with all that the site's own extensions work on: what their tests build."""

import nbformat
from docutils import nodes

FIRST = """# 1. The first

**The question.** What is
kept?

**Time:** 40 minutes, and 10 for the exercises.

*The results are stored below the cells. Where the text says* **Predict**, *guess before you look. If you
started JupyterLab with* `make lab`*, each result stays hidden until you have guessed; anywhere else, use Edit → Clear
Outputs of All Cells first.*

Move it. (In JupyterLab, run the
cell first.) A storage, storages, a *Segment*, and its other name, a chunk. One slot. See
(1.1), (2.1) and (9.1), section 1.1, sections 1.1 and 2.1, chapter 2, exercise 1 of chapter 2, chapter 1, chapter 7;
`(1.1)` and "section 9.9"; chapters 1 and 2, chapters 1, 7 or 2.
Exercises 1, 9 and
2 of chapter 2; exercises 1 and 2.5 GB.

$$a = b \\tag{1.1}$$

## 1.1 A storage

In this section, storage and section 1.1.

### Exercise 1: a segment

## Sources

- A. Author, *A Deep Dive*, 2022, section 1.1: a figure.
- B. Author, [another](https://example.org/another), 2023.
"""
SECOND = """# 2. The second

## 2.1 Here

$$c = d \\tag{2.1}$$

| | kept |
|---|---|
| (2.2) | $d$, and (2.1) |

As (2.2) says. Two views, two slots, and storages.

## Exercises

### Exercise 1: again

See exercise 1, and (1.1).

### Exercise 2: more

Exercises 1 and 2; exercises 1 to 2.

Sections 1.1, 2.1 and 9.9; chapters 1, 2, and 3; chapters 1 to 1.5 GB; section 9.9, 2.1 GB.
"""
GLOSSARY = """# Glossary

:::{glossary}
segment
chunk
  A piece.
slot
  A name.
storage
  The bytes. Section 2.1.
view
  A word that is not linked.
:::
"""
BIBLIOGRAPHY = """# Bibliography

```{bibliography}
:all:
:style: plain
```
"""
BIB = """
@misc{deep, author = {A. Author}, title = {{A Deep Dive}}, year = {2022}}
@misc{another, author = {B. Author}, title = {{Something Else}}, year = {2023}, url = {https://example.org/another}}
"""
INDEX = """# Book

```{toctree}
:glob:

chapters/*
glossary
bibliography
```

## Run it

(1.1)
"""
CONF = """
extensions = ["myst_nb", "sphinxcontrib.bibtex"]
extensions += ["book.extensions." + name for name in ("numbered", "glossary", "sources", "page_notes", "explorers")]
myst_enable_extensions = ["dollarmath", "colon_fence"]
nb_execution_mode = "off"
bibtex_bibfiles = ["references.bib"]
glossary_unlinked = ["view"]
glossary_unlinked_in = {"chapters/01_first": ["slot"]}
"""


def chapter(*cells) -> str:
    """A notebook of these cells, as text."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    notebook.cells = [nbformat.v4.new_markdown_cell(one) if isinstance(one, str) else one for one in cells]
    return nbformat.writes(notebook)


def shows(cell_id: str, text: str, html: str | None = None):
    """A code cell with one stored output."""
    data = {"text/plain": text} | ({"text/html": html} if html else {})
    output = nbformat.v4.new_output("execute_result", data, execution_count=1)
    return nbformat.v4.new_code_cell("small_explorer()", id=cell_id, outputs=[output], execution_count=1)


EXPLORER = shows("the-explorer", "Explorer('What is kept', b=2)", "<table><tr><td>7</td></tr></table>")
SLIDER = shows("a-slider", "VBox(children=(IntSlider(value=1)))")


def write_book(folder, first=FIRST, second=SECOND):
    """Writes the book's sources into a folder."""
    (folder / "chapters").mkdir(parents=True)
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    (folder / "index.md").write_text(INDEX, encoding="utf-8")
    (folder / "glossary.md").write_text(GLOSSARY, encoding="utf-8")
    (folder / "bibliography.md").write_text(BIBLIOGRAPHY, encoding="utf-8")
    (folder / "references.bib").write_text(BIB, encoding="utf-8")
    (folder / "chapters" / "01_first.ipynb").write_text(chapter(first, EXPLORER, SLIDER), encoding="utf-8")
    (folder / "chapters" / "02_second.ipynb").write_text(chapter(second), encoding="utf-8")


def resolved(app, name: str) -> nodes.document:
    """A document with its references resolved."""
    return app.env.get_and_resolve_doctree(name, app.builder, tags=app.tags)


def links(app, name: str, kind: str) -> list[tuple[str, str]]:
    """(words, address) of each link of a kind."""
    found = [link for link in resolved(app, name).findall(nodes.reference) if kind in link["classes"]]
    return [(link.astext(), link["refuri"]) for link in found]
