"""The trees of a flame graph add up at every node, to what the allocator counts, and name the program's own lines."""

import csv
import io
import re
from functools import cache

import pytest
from reported import of_a_gpt, of_an_mlp, of_nothing, out_of_memory
from wrong_programs import program

from every_byte import Report, SimulatedGPU
from every_byte.report.flames import KINDS, NO_STACK, by_stack, lines_of
from every_byte.report.render.reporters import COLUMNS, table_in_csv, tree_in_text
from every_byte.units import short

REPORTS = [of_an_mlp, of_a_gpt, out_of_memory]
TEXT = program("""
def outer(x):
    return inner(x)
def inner(x):
    return model(x)
outer(batch()).sum().backward()
""")


@cache
def with_lines():
    """A report of a program that calls its model from a function within a function."""
    with SimulatedGPU(cuda=True, lines=True) as gpu:
        exec(compile(TEXT, "/somewhere/train.py", "exec"), {"__name__": "__main__"})
    return Report.of(gpu)


def adds_up(flame):
    inner = list(flame.within.values())
    if inner:
        assert sum(one.n_bytes for one in inner) == flame.n_bytes
        assert sum(one.n_allocations for one in inner) == flame.n_allocations
    return all(map(adds_up, inner))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("report", [*REPORTS, with_lines])
def test_each_tree_adds_up_to_what_is_allocated(report, kind):
    flame = KINDS[kind](report())
    assert flame.n_bytes == report().account.allocated_bytes
    assert flame.n_allocations == len(report().account)
    assert adds_up(flame)


def numbers_of(*words):
    return [1 + next(i for i, line in enumerate(TEXT.splitlines()) if word in line) for word in words]


def test_the_outermost_line_comes_first():
    flame, path = by_stack(with_lines()), []
    while flame.within and not flame.category:
        flame = flame.largest_first[0]
        path.append(flame.name)
    numbers = [int(found[1]) for name in path if (found := re.search(r"train\.py:(\d+)", name))]
    assert numbers == numbers_of("outer(batch())", "return inner", "return model")
    assert ": " in path[-1]  # what it is


def test_without_lines_all_is_of_no_line_and_the_page_has_no_such_tree():
    assert list(by_stack(of_an_mlp()).within) == [NO_STACK]
    text = of_an_mlp().html()
    assert '"flames":{"module":' in text
    assert '"flames":{"call stack":' in with_lines().html()


def test_the_tree_in_a_terminal_has_what_is_a_hundredth_and_no_less():
    lines = tree_in_text(with_lines()).splitlines()[1:]
    flame = by_stack(with_lines())
    shown = list(lines_of(flame))
    assert len(lines) == len(shown) > 5
    assert min(one.n_bytes for _, one in shown) * 100 >= flame.n_bytes
    for line, (depth, one) in zip(lines, shown, strict=True):
        assert line.startswith("  " * depth + one.name[:10])
        assert f" {short(one.n_bytes)} " in line
    assert lines[0].count("█") == 20
    assert tree_in_text(of_nothing()) == "Nothing was allocated."


@pytest.mark.parametrize("report", [*REPORTS, with_lines, of_nothing])
def test_the_table_has_each_allocation(report):
    head, *rows = csv.reader(io.StringIO(table_in_csv(report())))
    assert tuple(head) == COLUMNS
    found = [dict(zip(head, row, strict=True)) for row in rows]
    total = sum(int(row["requested_bytes"]) + int(row["slack_bytes"]) for row in found)
    assert total == (report().account.allocated_bytes if report().holds_something else 0)
    if report is with_lines:
        assert {row["file"] for row in found} == {"/somewhere/train.py"}
