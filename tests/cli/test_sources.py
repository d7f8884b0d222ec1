"""What may be in a program's file: a notebook's code cells run in order; what is no Python code is told so."""

import codecs
import json
import textwrap

import pytest
from forked_runs import Runs, in_lines

from every_byte.cli.program import Program


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def notebook(*cells: str, language: str = "python", **metadata) -> str:
    """A notebook with these code cells; one that begins with "#md" is text."""
    made = [
        {"cell_type": "markdown", "metadata": {}, "source": cell}
        if cell.startswith("#md")
        else {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(keepends=True)}
        for cell in map(textwrap.dedent, cells)
    ]
    spec = {"kernelspec": {"name": "k", "language": language}} | metadata
    return json.dumps({"cells": made, "metadata": spec, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.long
def test_code_cells_run_in_order(run):
    cells = (
        "import torch, sys\nx = torch.zeros(1 << 20, device='cuda')",
        "#md what follows is null, true and false",
        "",
        "def f():\n    return len(sys.argv), __name__\nprint(f())",
        "x",
        "display(x.shape)\nsys.exit(4)",
        "print('never')",
    )
    found = run(notebook(*cells), arguments=("--lr", "1"), name="train.ipynb")
    assert (found.exit_code, found.out) == (4, "(3, '__main__')\ntorch.Size([1048576])\n"), found.err
    assert found.figures["peak"]["allocated_bytes"] == 1 << 22


@pytest.mark.long
def test_a_traceback_names_the_cell(run):
    found = run(notebook("def f(n):\n    return 1 / n", "a = 1\nf(0)"), name="train.ipynb")
    assert found.exit_code == 1
    assert 'File "train.ipynb, cell 2", line 2, in <module>\n    f(0)\n' in found.err
    assert 'File "train.ipynb, cell 1", line 2, in f\n    return 1 / n\n' in found.err
    assert found.figures["ended"] == "ZeroDivisionError: division by zero"
    found = run(notebook("a = 1", "b = = 2"), name="train.ipynb")
    assert 'File "train.ipynb, cell 2", line 1\n    b = = 2\n' in found.err


@pytest.mark.long
def test_magics_are_followed_or_left_out_with_a_word(run):
    cells = (
        "%matplotlib inline\n!pip install torch\nif True:\n    %load_ext autoreload\n"
        "print('%d' %\n  3)\nprint(5\n  % 3)",
        "%%time\nprint('timed')",
        "%%bash\nexit 1",
        "%env PYTORCH_ALLOC_CONF=expandable_segments:True\n%time y = 2\nfiles = !ls\nprint(y)\nprint?",
        "import os, asyncio\nprint(os.environ['PYTORCH_ALLOC_CONF'])\n"
        "await asyncio.sleep(0)\nprint(await asyncio.sleep(0, 7))",
        's = """\n%not a magic\n!nor this\n"""\nprint(len(s))',
        "%cd /\nprint(os.getcwd())",
    )
    found = run(notebook(*cells), name="train.ipynb")
    assert (found.exit_code, found.out) == (0, "3\n2\ntimed\n2\nexpandable_segments:True\n7\n24\n/\n"), found.err
    said = [line for line in found.err.splitlines() if line.startswith("every-byte: ")]
    left_out = "is Jupyter's, not Python's: the line was left out."
    assert said == [
        f"every-byte: train.ipynb, cell 1: %matplotlib inline {left_out}",
        f"every-byte: train.ipynb, cell 1: !pip install torch {left_out}",
        f"every-byte: train.ipynb, cell 1: %load_ext autoreload {left_out}",
        "every-byte: train.ipynb, cell 3: %%bash is Jupyter's, not Python's: the cell was left out.",
        f"every-byte: train.ipynb, cell 4: files = !ls {left_out}",
        f"every-byte: train.ipynb, cell 4: print? {left_out}",
    ]


@pytest.mark.long
def test_an_older_notebook_and_one_that_trains(run):
    old = {
        "worksheets": [{"cells": [{"cell_type": "code", "input": ["print(1)\n", "print(2)"], "language": "python"}]}]
    }
    assert run(json.dumps(old), name="old.ipynb").out == "1\n2\n"
    cells = (
        "import torch\nnet = torch.nn.Linear(64, 64).cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)",
        "for _ in range(9):\n    net(torch.zeros(2, 64, device='cuda')).sum().backward()\n"
        "    optimizer.step()\n    print('step')",
    )
    found = run(notebook(*cells), name="train.ipynb")
    assert (found.exit_code, found.out) == (0, "step\n" * 3)
    assert "stopped after 3 optimizer steps" in in_lines(found)


def refusal(path) -> str:
    with pytest.raises((ValueError, OSError)) as caught:
        Program(str(path)).check()
    return str(caught.value).replace(str(path), "P")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ipynb", b"", "a notebook must have code cells: got 'P', which has none; try another one."),
        ("a.ipynb", notebook("#md text", " \n").encode(), "a notebook must have code cells: got 'P', which has none;"),
        (
            "a.ipynb",
            notebook("1", language="R").encode(),
            "a notebook must be of Python: got 'P', whose language is R.",
        ),
        ("a.ipynb", b"import torch", "a notebook must be JSON: got 'P', Expecting value"),
        ("a.ipynb", b"[1]", "a notebook must have cells: got 'P', which has none;"),
        ("a.py", "print(1)".encode("utf-16"), "got 'P', text in UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 P"),
        ("a.py", codecs.BOM_UTF16_BE + "a".encode("utf-16-be"), "got 'P', text in UTF-16;"),
        ("a.py", b"a = 1\nb = '\0'", "got 'P', with a NUL byte in line 2; if it is text, save it anew, as UTF-8."),
        ("a.py", "print(1)".encode("utf-16-le"), "got 'P', with a NUL byte in line 1;"),
        ("a.py", b"print('\xe9')", "got 'P', which is not the text that it should be: invalid or missing encoding"),
        ("a.py", b"# coding: klingon\n", "got 'P', which is not the text that it should be: unknown encoding: klingon"),
        ("a.out", b"\x7fELF\2\1", "got 'P', a program of the machine; name the script, as train.py."),
        ("a.pt", b"PK\3\4", "got 'P', an archive;"),
        ("a.pkl", b"\x80\4", "got 'P', a pickle;"),
        ("a.pyc", b"\xa7\r\r\n", "got 'P', compiled code;"),
        ("a.py.gz", b"\x1f\x8b", "got 'P', a compressed file;"),
    ],
)
def test_what_is_no_program_is_told_so_before_anything_runs(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    assert said in refusal(tmp_path / name)


def test_a_link_that_leads_nowhere(tmp_path):
    (tmp_path / "train.py").symlink_to("gone.py")
    (tmp_path / "trail.py").write_text("")
    assert (
        refusal(tmp_path / "train.py")
        == "the program must be a file: got 'P', a link to 'gone.py', which is not there."
    )
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert "a link to 'loop.py', which is not there" in refusal(tmp_path / "loop.py")


@pytest.mark.parametrize("text", ["", "\ufeffprint(1)", "# coding: latin-1\n'\xe9'", "a = = 1", "x" * 5000])
def test_what_is_text_runs(tmp_path, text):
    encoding = "latin-1" if "latin" in text else "utf-8"
    (tmp_path / "train.py").write_bytes(text.encode(encoding))
    Program(str(tmp_path / "train.py")).check()


def test_the_command_says_it_and_ends_with_2(run):
    found = run(notebook("1", language="julia"), name="train.ipynb")
    assert found.exit_code == 2
    assert found.figures is None
    assert "a notebook must be of Python: got 'train.ipynb', whose language is julia." in found.err
