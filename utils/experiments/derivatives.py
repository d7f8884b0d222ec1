"""What PyTorch's own table of derivatives, derivatives.yaml, says that an operation's backward reads."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_OF_THE_SHAPE = re.compile(r"\b(self|result)\.(scalar_type|sym_sizes?|dim|options|layout|is_\w+)\b")


def backward_reads(operation: str) -> tuple[str, ...]:
    """Of the operation's input, `self`, and its output, `result`: those whose values the gradient of `self` is made of.

    `operation` is PyTorch's own name for it; a final _ marks the in-place form: "relu", "leaky_relu_".

    Raises: ValueError for an operation that has no line of its own in the table.
    Source: derivatives.yaml of the installed PyTorch; held to autograd by tests/experiments/test_derivatives.py.
    """
    entry = re.search(rf"^- name: {re.escape(operation)}\(.*?(?=^- name: |\Z)", _table(), re.MULTILINE | re.DOTALL)
    formula = entry and re.search(r"^  self: (.*)$", entry[0], re.MULTILINE)
    if not formula:
        raise ValueError(
            f"operation must have a derivative in derivatives.yaml: got {operation!r}; try 'relu' or 'leaky_relu_'."
        )
    words = re.findall(r"\b(self|result)\b", _OF_THE_SHAPE.sub("", formula[1]))
    return tuple(sorted(set(words)))


@cache
def _table() -> str:
    folder = Path(find_spec("torchgen").origin).parent  # it comes with torch
    return (folder / "packaged" / "autograd" / "derivatives.yaml").read_text(encoding="utf-8")
