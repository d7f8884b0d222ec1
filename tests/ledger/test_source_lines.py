"""What lines are called: without the folders that all share, a notebook's cell as such; and which are a library's."""

import pytest

from every_byte.ledger.source_lines import Line, LineNames, is_internal, is_of_a_library


def test_one_file_is_called_by_its_name():
    line = Line("/project/train.py", 41, "main")
    assert LineNames([line]).of(line) == "train.py:41"
    assert LineNames([line]).of(None) == ""


def test_of_several_files_the_common_folder_is_left_out():
    lines = [Line("/p/train.py", 4, "<module>"), Line("/p/models/block.py", 12, "forward")]
    names = LineNames(lines)
    assert [names.of(line) for line in lines] == ["train.py:4", "models/block.py:12"]


def test_a_cell_of_a_notebook_is_called_so():
    cell = Line("/scratch/ipykernel_4211/2093811.py", 3, "<module>")
    assert LineNames([cell]).of(cell) == "cell:3"
    own = Line("train.ipynb, cell 3", 2, "<module>")
    assert LineNames([own]).of(own) == "train.ipynb, cell 3:2"


def test_the_text_is_the_lines_own(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n    y  =  2\n", encoding="utf-8")
    assert Line(str(path), 2, "f").text == "y = 2"
    assert Line(str(path), 9, "f").text == ""
    assert Line("/nowhere/b.py", 1, "f").text == ""


@pytest.mark.parametrize(
    ("filename", "is_library"),
    [
        ("/env/lib/python3.11/site-packages/transformers/trainer.py", True),
        ("/usr/lib/python3.12/functools.py", True),
        ("/src/torch/nn/modules/linear.py", True),
        ("/project/train.py", False),
        ("/project/torch_train/train.py", False),
    ],
)
def test_what_is_a_librarys(filename, is_library):
    assert is_of_a_library(filename) == is_library


def test_what_is_no_file():
    assert is_internal("<string>")
    assert is_internal("<frozen runpy>")
    assert not is_internal("<ipython-input-3-abc>")
    assert not is_internal("train.py")
