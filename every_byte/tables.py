"""Tables as plain text and as HTML."""


def text_table(title: str, head: list[str], rows: list[list[str]], *, numbers: int = 0) -> str:
    """A table in plain text below its title; the last `numbers` columns are set flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    flush = [str.ljust] * (len(head) - numbers) + [str.rjust] * numbers
    lines = [
        "  ".join(align(cell, width) for align, cell, width in zip(flush, row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join([title, *lines] if title else lines)


def html_table(title: str, head: list[str], rows: list[list[str]], *, numbers: int = 0) -> str:
    """The same as HTML, with the title as caption."""
    from html import escape  # brings a table of all entities, which text does without

    sides = ["left"] * (len(head) - numbers) + ["right"] * numbers
    top = "".join(_cell("th", side, escape(cell)) for side, cell in zip(sides, head, strict=True))
    tags = ["th"] + ["td"] * (len(head) - 1)
    body = "".join(f"<tr>{''.join(map(_cell, tags, sides, map(escape, row)))}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, side: str, escaped: str) -> str:
    return f'<{tag} style="text-align:{side}">{escaped}</{tag}>'
