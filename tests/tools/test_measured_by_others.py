"""The page of what others measured has every figure of the table, and says of each source how many are met."""

from published import figures, sources

from tools import published

TEXT = published.PAGE.read_text(encoding="utf-8") if published.PAGE.exists() else ""


def _met() -> int:
    return sum(not figure.why for figure in figures())


def test_the_page_has_a_row_for_every_figure():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    for figure in figures():
        cell = f"| {figure.published} {figure.unit} |"
        assert any(cell in row for row in rows), figure.key
    assert sum(row.count(" | ") == 7 and "---" not in row and "| program |" not in row for row in rows) == len(
        figures()
    )


def test_the_page_counts_what_the_table_has():
    first = TEXT.split("\n\n")[1].replace("\n", " ")
    n_sources = len({figure.source for figure in figures()})
    assert f"Of {len(figures())} figures from {n_sources} sources" in first, "run python -m tools.published"
    assert f", {_met()} are met" in first


def test_the_page_names_every_source():
    for source in sources().values():
        assert f"\n## {source['title']}\n\n<{source['url']}>" in TEXT
