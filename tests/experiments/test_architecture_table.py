"""The stored table of architectures as chapter 8 shows it: a line of each, and what it names."""

import pytest

from utils.experiments.architecture_table import HEAD, ArchitectureTable, stored_table

MIB = 2**20


def row(**changed) -> dict:
    """A row as the tool stores it, small."""
    other = {"bytes": 2 * MIB, "percent": -50.0}
    return {
        "peak": 4 * MIB,
        "workspace": MIB,
        "not_modelled": [],
        "formula": {"is_exact": True, "n_checks": 8, "n_met": 8, "n_runs": 20, "seconds": 7},
        "others": {
            "parameters": 1000,
            "accelerate": other,
            "mem_tracker": {"fails": "no", "why": "it cannot"},
            "usual": other,
        },
    } | changed


def test_the_stored_one_has_a_line_of_each():
    table = stored_table()
    lines = repr(table).splitlines()
    assert [line.split("  ")[0] for line in lines[2 : 2 + len(table.rows)]] == list(table.rows)
    assert max(map(len, lines)) <= 132
    for name in table.rows:
        assert f">{name}</th>" in table._repr_html_()


def test_what_is_not_whole_is_named():
    missed = row(formula={"fails": "ValueError: no"}, not_modelled=["aten::convolution"])
    table = ArchitectureTable({"torch": "2.13.0"}, {"One": row(), "Two": missed})
    assert table.exact == ["One"]
    assert table.percents("accelerate") == {"One": -50.0, "Two": -50.0}
    assert table.percents("mem_tracker") == {}
    said = repr(table)
    assert said.startswith("Simulated, requested at the peak: torch 2.13.0\n")
    assert "8 of 8" in said.splitlines()[2]
    assert "not whole" in said.splitlines()[3]
    assert "fails" in said
    assert "MemTracker, One: it cannot." in said
    assert table.beside_workspaces == {}
    seen = row(others=row()["others"] | {"mem_tracker": {"bytes": 2 * MIB, "percent": -50.0}})
    assert ArchitectureTable({}, {"One": seen}).beside_workspaces == {"One": -25.0}
    assert "cuDNN's workspaces, which the account names: Two." in said
    assert "No whole formula was found for Two." in said
    assert len(HEAD) == len(table._cells("One"))


def test_a_part_of_it_has_the_rows_that_are_named():
    table = stored_table()
    part = table.only("T5", "GPT-2")
    assert list(part.rows) == ["T5", "GPT-2"]
    assert part.percents("accelerate") == {name: table.percents("accelerate")[name] for name in ("T5", "GPT-2")}
    assert part.versions == table.versions
    assert "Whisper" not in repr(part)
    with pytest.raises(KeyError, match="T6"):
        table.only("T6")
