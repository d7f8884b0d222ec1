"""A plugin for nbval: each cell of a chapter runs a second time after the first, and shows the same."""

from nbval.plugin import IPyNbCell


def pytest_collection_modifyitems(items):
    items[:] = [each for item in items for each in (item, _again(item))]


def _again(item: IPyNbCell) -> IPyNbCell:
    name = f"{item.name} again"
    same = {"cell_num": item.cell_num, "cell": item.cell, "options": item.options}
    return IPyNbCell.from_parent(item.parent, name=name, **same)
