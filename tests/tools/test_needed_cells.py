"""Which cells a cell needs, and that they run once, in their order."""

import pytest
from nbformat import v4

from tools.needed_cells import Running, cells_for, names


@pytest.mark.parametrize(
    ("source", "reads", "binds"),
    [
        ("import a.b\nfrom c import d as e", "", "a e"),
        ("x = f(x)", "f x", "x"),
        ("x = 1\ny = x", "", "x y"),
        ("x += 1", "x", "x"),
        ("for n in m:\n    k = n + x", "m x", "k n"),
        ("with open(a) as b:\n    b.read()", "a open", "b"),
        ("[i + j for i in z]", "j z", ""),
        ("{k: v for k, v in i.items() if k in w}", "i w", ""),
        ("g = lambda q: q + r", "r", "g"),
        ("def f(p, *, q=1):\n    t = p + u\n    return t", "u", "f"),
        ("class A(B):\n    c = d", "B d", "A"),
        ("try:\n    a\nexcept E as b:\n    c", "E a c", ""),
        ("x.y = z", "x z", ""),
    ],
)
def test_names(source, reads, binds):
    assert names(source) == (set(reads.split()), set(binds.split()))


def notebook(**sources):
    return v4.new_notebook(cells=[v4.new_code_cell(source, id=name) for name, source in sources.items()])


def needed(**sources):
    *_, last = sources
    return [cell.id for cell in cells_for(notebook(**sources), last)]


def test_the_last_one_that_binds_a_name_is_needed():
    assert needed(old="x = 1", other="y = 2", new="x = 3", uses="x + 1") == ["new", "uses"]


def test_one_that_changes_it_needs_the_one_before():
    assert needed(old="x = 1", new="x += 1", uses="x") == ["old", "new", "uses"]
    assert needed(imports="import a", old="x = a.b", uses="f = lambda: x") == ["imports", "old", "uses"]


def test_what_stands_behind_is_not_needed():
    assert [cell.id for cell in cells_for(notebook(x="x = 1", uses="x", later="x = 2"), "uses")] == ["x", "uses"]


def test_each_runs_once_and_prints_nothing(capsys):
    running = Running(
        notebook(start="calls = []", many="calls.append(1); n = 5; print(n)", uses="n + len(calls)", more="n")
    )
    assert running.shown_by("uses") == 6
    assert running.shown_by("more") == 5
    assert running.value_of("len(calls)") == 1
    assert capsys.readouterr().out == ""


def test_one_that_may_fail_does():
    cells = notebook(fails="x = 1\n1 / 0", uses="x")
    with pytest.raises(ZeroDivisionError):
        Running(cells).shown_by("uses")
    cells.cells[0].metadata["tags"] = ["raises-exception"]
    assert Running(cells).shown_by("uses") == 1
