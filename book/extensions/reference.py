"""The reference of the package, written from its signatures and docstrings: what `help` tells, as a page."""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CONTRACT = re.compile(r"^(Shapes|Counts|Unit|Raises|Source|Example):\s+", re.MULTILINE)
"""The words that begin a docstring's last lines."""
_OURS = ("every_byte", "utils")
_LONG_NAMES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")  # modules in front of classes
_MARKDOWN = re.compile(r'`[^`]+`|"[\w:./]*"|[*_\[<]')


def found(path: str) -> object:
    """What a path such as `every_byte.ledger.rows.Row` names.

    Raises: ImportError or AttributeError for what there is not.
    """
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def signature(thing: object, name: str) -> str:
    """How it is called: a property has its name and type alone, a method no `self` and no `cls`."""
    if isinstance(thing, property | cached_property):
        getter = thing.fget if isinstance(thing, property) else thing.func
        returns = inspect.signature(getter).return_annotation
        return name + ("" if returns is inspect.Signature.empty else f": {_type(returns)}")
    function = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
    described = inspect.signature(function)
    given = [one for one in described.parameters.values() if one.name not in ("self", "cls")]
    given = [one for one in given if not one.name.startswith("_")]
    typed = [one.replace(annotation=_Plain.of(one.annotation), default=_default(one.default)) for one in given]
    is_class = inspect.isclass(thing)
    returns = inspect.Signature.empty if is_class else _Plain.of(described.return_annotation)
    return f"{name}{described.replace(parameters=typed, return_annotation=returns)}"


class _Plain(str):
    """A type as it is to be written, without quotes."""

    __slots__ = ()

    @classmethod
    def of(cls, annotation: object) -> object:
        return annotation if annotation is inspect.Signature.empty else cls(_type(annotation))

    def __repr__(self) -> str:
        return str(self)


def _type(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _LONG_NAMES.sub(lambda modules: "torch." if modules[0] == "torch." else "", text).replace("NoneType", "None")


def _default(value: object) -> object:
    """A default as it is written; of what is made anew each time, that."""
    return _Plain("…") if "factory" in repr(value) else value


def members(thing: type) -> Iterator[tuple[str, object]]:
    """The public properties and methods of a class, properties first: those of public classes of ours that it extends,
    then its own, as they stand in their files."""
    ours = [base for base in reversed(thing.__mro__) if base.__module__.startswith(_OURS) and base.__name__[0] != "_"]
    own = {name: one for base in (*ours, thing) for name, one in vars(base).items() if not name.startswith("_")}
    fields = getattr(thing, "__dataclass_fields__", {})
    kinds = (property, cached_property), (classmethod, staticmethod, type(members))
    for kind in kinds:
        yield from ((name, one) for name, one in own.items() if isinstance(one, kind) and name not in fields)


def docstring(thing: object) -> str:
    """What it says of itself, "" where it says nothing."""
    if isinstance(thing, property | cached_property):
        thing = thing.fget if isinstance(thing, property) else thing.func
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def parts(text: str) -> tuple[str, list[tuple[str, str]]]:
    """A docstring's text, and its contract: each word of it with what it says."""
    first = CONTRACT.search(text)
    if first is None:
        return text, []
    pieces = CONTRACT.split(text[first.start() :])[1:]
    contract = zip(pieces[::2], pieces[1::2], strict=True)
    lines = [(word, _example(piece) if word == "Example" else " ".join(piece.split())) for word, piece in contract]
    return text[: first.start()].rstrip(), lines


def _example(text: str) -> str:
    """An example's lines without the indentation that they share."""
    return textwrap.dedent(f"    {text}" if text.startswith(">>>") else text).strip()


def as_markdown(text: str) -> str:
    """A docstring's text: code in backticks and a string in quotes are code, and what else would be markup is none."""

    def written(one: re.Match) -> str:
        return {"`": one[0], '"': f"`{one[0]}`"}.get(one[0][0], f"\\{one[0]}")

    return _MARKDOWN.sub(written, text)


class Reference(SphinxDirective):
    """A class or a function with its members: ```{reference} every_byte.ledger.rows.Row```.

    With `:as: every_byte.SimulatedGPU`, members that say nothing of themselves and that this class has too are named
    in one sentence.

    Raises: ValueError for a member that says nothing of itself.
    """

    required_arguments = 1
    option_spec = {"as": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        path = self.arguments[0]
        thing, name = found(path), path.rpartition(".")[2]
        self.env.note_dependency(inspect.getsourcefile(thing))
        content = [self.signature(signature(thing, name)), *self.said(docstring(thing))]
        if not inspect.isclass(thing):
            return content
        like = found(self.options["as"]) if "as" in self.options else None
        own, alike = [], []
        for member, one in members(thing):
            if docstring(one):
                own.append(self.member(name, member, one))
            elif like is not None and docstring(getattr(like, member, None)):
                alike.append(member)
            else:
                raise ValueError(f"{path}.{member} must say what it is: it has no docstring.")
        if alike:
            names = ", ".join(f"`{member}`" for member in alike)
            content += self.parsed(f"As of a `{like.__name__}`: {names}.")
        return [*content, *([nodes.definition_list("", *own, classes=["simple", "members"])] if own else [])]

    def signature(self, text: str) -> nodes.paragraph:
        anchor = nodes.make_id(f"reference-{self.arguments[0]}")
        return nodes.paragraph("", "", nodes.literal("", text), classes=["signature"], ids=[anchor])

    def member(self, owner: str, name: str, thing: object) -> nodes.definition_list_item:
        shown = signature(thing, f"{owner}.{name}" if isinstance(thing, classmethod | staticmethod) else name)
        term = nodes.term("", "", nodes.literal("", shown), ids=[f"{owner}.{name}"])
        term["names"] = [f"{owner}.{name}"]
        return nodes.definition_list_item("", term, nodes.definition("", *self.said(docstring(thing))))

    def said(self, text: str) -> list[nodes.Node]:
        words, contract = parts(text)
        items = [
            nodes.field("", nodes.field_name("", word), nodes.field_body("", *self.value(word, text)))
            for word, text in contract
        ]
        return [*self.parsed(as_markdown(words)), *([nodes.field_list("", *items)] if items else [])]

    def value(self, word: str, text: str) -> list[nodes.Node]:
        """What stands beside a word of the contract: an example is code, all else is text."""
        if word == "Example":
            return [nodes.literal_block(text, text, language="pycon" if text.startswith(">>>") else "python")]
        return self.parsed(as_markdown(text))

    def parsed(self, markdown: str) -> list[nodes.Node]:
        box = nodes.container()
        self.state.nested_parse(StringList(markdown.splitlines(), source=self.arguments[0]), self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_directive("reference", Reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
