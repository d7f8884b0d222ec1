"""The tool that changes numbers in formulas finds the chapters that have them, and sees them object."""

from importlib.util import find_spec

import pytest

from tools.mutate_formulas import FILES, Book, constants, module, outcome

CHAPTER = "02_mlp_memory.ipynb"


@pytest.mark.parametrize("file", FILES)
def test_each_file_is_a_module_with_numbers(file):
    assert find_spec(module(file))
    assert constants(file)


@pytest.mark.nightly
def test_a_changed_number_is_caught(tmp_path):
    book = Book(tmp_path / "book")
    passes, noted = book.run(CHAPTER)
    assert passes
    number = next(constant for constant in constants("mlp") if "4*b*s*d" in constant.text)
    assert outcome(book, number, {CHAPTER: noted}) == {"02": "fails"}
