"""The reference has every public name, what its methods return, and each docstring with its contract."""

import inspect
import re
from functools import cached_property

import pytest
from docutils import nodes
from small_book import resolved, write_book
from sphinx.testing.util import SphinxTestApp

import every_byte
import every_byte.account
from book.extensions.reference import as_markdown, docstring, found, members, parts, signature
from book.extensions.search_sections import sections
from every_byte.formula.formula import Formula
from tools.site import BOOK

PAGE = (BOOK / "reference.md").read_text(encoding="utf-8")
PATHS = re.findall(r"^```\{reference\} (\S+)$", PAGE, re.MULTILINE)
THINGS = {path.rpartition(".")[2]: found(path) for path in PATHS}
NOT_HERE = {
    "Accounted": "what a closed form is compared with: an account",
    "GPU": "what a simulated GPU and the machine's own have in common",
    "KeptSlot": "a slot of a node, with what it keeps",
    "ModuleNames": "what modules are called: a ledger's rows have it",
    "Notes": "what a simulated GPU noted of a program beside its memory: a report says it",
    "PageTerm": "a term of a formula, as a page gets it",
    "Attribution": "whose each allocation is at any instant: a ledger says it in rows",
    "Doubt": "what a verdict owes to the context's size: a report says it in a sentence",
    "Evidence": "which operators recordings hold: a report says it in a sentence, and its JSON in full",
    "Library": "a library that a program imported: a report says it in a sentence",
    "Growth": "what each step leaves more: a report says it in a sentence",
    "Environment": "settings of several variables, which a text or a dict says as well",
    "Owners": "what was observed: a ledger is made of it",
    "Roots": "the outermost modules: a report names others by them",
    "Rules": "what differs between PyTorch's versions",
    "Selector": "part of a formula's term",
    "Term": "part of a formula",
    "AsCuda": "cuda=True makes it",
    "Stream": "as torch.cuda's",
    "CallStack": "where the program was: a report names its line",
    "Line": "a line of the program: a report names it",
    "LineNames": "how lines are shown: a report shows them",
    "Owner": "a row of a report's table of owners",
    "Bench": "where a remedy is run: an advice has its room as budget_bytes",
    "Changed": "what a remedy makes of a step",
    "Condition": "where a form changes: printed, it says so",
    "Key": "a kind of rows: printed, it says which",
    "Moment": "an instant of a step: printed, it says which",
    "Pieces": "part of a closed form",
    "Ranges": "from where to where a closed form was looked for: a form that is printed says so",
}


def types_named(thing: type) -> set[str]:
    """The classes of the package that the signatures of a class and of its members name."""
    getters = [one.fget if isinstance(one, property) else getattr(one, "func", one) for _, one in members(thing)]
    functions = [thing, *(getattr(one, "__func__", one) for one in getters)]
    text = " ".join(signature(one, "") for one in functions)
    return {name for name in re.findall(r"(?<![.\w])[A-Z]\w+", text) if name in OURS}


def ours() -> set[str]:
    """All classes of the package that are loaded."""
    import sys

    modules = [module for name, module in sys.modules.items() if name.startswith("every_byte.")]
    return {name for module in modules for name, one in vars(module).items() if inspect.isclass(one)
            and one.__module__.startswith("every_byte.")}  # fmt: skip


OURS = ours()


def test_every_public_name_has_a_section():
    headings = re.findall(r"^##+ (\w+)$", PAGE, re.MULTILINE)
    assert headings == list(THINGS)
    public = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)
    assert sorted(set(public)) == sorted(public) == sorted([*every_byte.__all__, *every_byte.account.__all__])


def test_all_that_they_return_has_one_too():
    named = {one for thing in THINGS.values() if inspect.isclass(thing) for one in types_named(thing)}
    assert named - set(THINGS) - set(NOT_HERE) == set()
    assert set(NOT_HERE) <= OURS, "what is not there need not be excused"


def test_report_is_imported_when_it_is_asked_for():
    from every_byte.report.report import Report

    assert every_byte.Report is Report
    with pytest.raises(AttributeError, match=r"module 'every_byte' has no attribute 'Nothing'"):
        every_byte.Nothing  # noqa: B018


def test_how_a_signature_is_written():
    assert signature(every_byte.SimulatedGPU.memory_allocated, "memory_allocated") == "memory_allocated() -> int"
    assert signature(every_byte.Ledger.__dict__["now"], "Ledger.now") == "Ledger.now(gpu: GPU) -> Ledger"
    assert signature(every_byte.Report.peak, "peak") == "peak: Ledger"
    assert isinstance(inspect.getattr_static(every_byte.Report, "peak"), cached_property)
    assert [name for name, _ in members(every_byte.Report)][-4:] == ["place", "to_json", "html", "save"]
    assert {"peak", "fits", "shortage", "of"} < {name for name, _ in members(every_byte.Report)}
    text = signature(every_byte.Trace, "Trace")
    assert text.startswith("Trace(origin: str, gpu: str, torch_version: str = '', events: list[Event] = …,")
    assert "_attributed" not in text
    opened = signature(every_byte.open_gpu, "open_gpu")
    assert opened.startswith("open_gpu(name: str | GPUSpec = 'a100-80gb', settings: ")
    assert opened.endswith(
        "*, cuda: bool = False, torch: str = '', context_bytes: int | str | None = None) -> SimulatedGPU | LiveGPU"
    )


def test_a_docstring_is_its_text_and_its_contract():
    text, contract = parts("A sentence.\n\nMore: of it.\n\nCounts: all\n        of it.\nRaises: ValueError for `x`.")
    assert text == "A sentence.\n\nMore: of it."
    assert contract == [("Counts", "all of it."), ("Raises", "ValueError for `x`.")]
    assert parts("A sentence.\n\nUnit: bytes.\nExample: f(*x)")[1] == [("Unit", "bytes."), ("Example", "f(*x)")]
    assert parts("A.\n\nExample:\n    >>> f(2)\n    4")[1] == [("Example", ">>> f(2)\n4")]
    assert parts("A sentence. Raises: as `x`.") == ("A sentence. Raises: as `x`.", [])


def test_code_stays_and_nothing_else_is_markup():
    assert as_markdown('`a*b` is a*b, PYTORCH_CONF, "live" and [x]') == (
        '`a*b` is a\\*b, PYTORCH\\_CONF, `"live"` and \\[x]'
    )


def test_a_class_without_the_words_of_a_member_is_refused(tmp_path):
    app = small_reference(tmp_path, "```{reference} every_byte.LiveGPU\n```")
    with pytest.raises(ValueError, match=r"every_byte\.LiveGPU\.memory_allocated must say what it is"):
        app.builder.read()
    app.cleanup()


def test_what_the_page_has_of_a_class(tmp_path):
    text = "```{reference} every_byte.formula.formula.Formula\n```\n\n```{reference} every_byte.LiveGPU\n"
    app = small_reference(tmp_path, text + ":as: every_byte.SimulatedGPU\n```")
    app.builder.read()
    page = resolved(app, "index")
    (first, _) = (one for one in page.findall(nodes.definition_list) if "members" in one["classes"])
    shown = {item[0].astext(): item[1].astext() for item in first}
    expected = {signature(one, name): docstring(one) for name, one in members(Formula)}
    assert list(shown) == list(expected)
    assert [item[0]["ids"][0] for item in first] == [f"Formula.{name}" for name, _ in members(Formula)]
    for name, words in expected.items():
        assert " ".join(shown[name].split()).startswith(words.split(".")[0].split("`")[0].strip()[:20])
    searched = {anchor: words for anchor, _, words in sections(app.env.get_doctree("index"))}
    assert searched["Formula.letters"] == "The letters that need a value, in the book’s order."
    fields = [field[0].astext() for field in page.findall(nodes.field)]
    assert fields[:2] == ["Unit", "Raises"]
    alike = next(
        one.astext() for one in page.findall(nodes.paragraph) if one.astext().startswith("As of a SimulatedGPU")
    )
    assert "memory_allocated, max_memory_allocated" in alike
    app.cleanup()


def small_reference(folder, text: str) -> SphinxTestApp:
    """A book whose front page has these words."""
    write_book(folder)
    (folder / "index.md").write_text(f"# Front\n\n{text}\n", encoding="utf-8")
    conf = folder / "conf.py"
    conf.write_text(
        f'{conf.read_text(encoding="utf-8")}\nextensions.append("book.extensions.reference")\n', encoding="utf-8"
    )
    return SphinxTestApp("html", srcdir=folder)
