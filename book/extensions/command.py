"""What the page of the command tells of it, from its own parser: an option's words, its usage, and the GPUs by name."""

import argparse

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from every_byte.account.run import parser
from every_byte.gpu.memory.specs import SPECS


def options() -> dict[str, argparse.Action]:
    """The command's options but for --help, each by the name that its heading has: `--steps N`."""
    shown = [one for one in parser()._actions if one.option_strings and one.dest != "help"]
    return {" ".join(filter(None, [one.option_strings[-1], one.metavar])): one for one in shown}


def words(name: str) -> str:
    """What the parser says of an option, as a sentence.

    Raises: ValueError for an option that there is not.
    """
    known = options()
    if name not in known:
        raise ValueError(f"an option must be one of {', '.join(known)}: got {name!r}.")
    one = known[name]
    text = " ".join((one.help or "").split()) % {"default": one.default}
    return f"{text[0].upper()}{text[1:]}."


class CommandOption(SphinxDirective):
    """What `every-byte run --help` says of an option: ```{command-option} --steps N```."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return [nodes.paragraph("", words(self.arguments[0]), classes=["command-option"])]


class CommandUsage(SphinxDirective):
    """How the command is called: ```{command-usage}```."""

    def run(self) -> list[nodes.Node]:
        text = parser().format_usage().removeprefix("usage: ").strip()
        return [nodes.literal_block(text, text, language="text")]


class CommandGPUs(SphinxDirective):
    """The table of GPUs that can be simulated: ```{command-gpus}```."""

    def run(self) -> list[nodes.Node]:
        head = ("name", "what PyTorch calls it", "memory, bytes")
        rows = [(spec.name, spec.device_name, f"{spec.total_bytes:,d}") for spec in SPECS.values()]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
        group += nodes.thead("", self.row(head))
        group += nodes.tbody("", *(self.row(row) for row in rows))
        return [nodes.table("", group)]

    @staticmethod
    def row(cells: tuple[str, ...]) -> nodes.row:
        words = [nodes.paragraph("", cell) for cell in cells]
        if cells[0] in SPECS:
            words[0] = nodes.paragraph("", "", nodes.literal("", cells[0]))
        return nodes.row(
            "", *(nodes.entry("", word, classes=["text-right"] if i > 1 else []) for i, word in enumerate(words))
        )


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_directive("command-option", CommandOption)
    app.add_directive("command-usage", CommandUsage)
    app.add_directive("command-gpus", CommandGPUs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
