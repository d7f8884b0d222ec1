"""Draws the folders of the code in the order in which a tensor passes them, each with the sentence that it begins with.

python -m tools.architecture        writes book/images/architecture.svg
"""

import ast
import textwrap
from html import escape
from pathlib import Path

from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
DRAWING = ROOT / "book" / "images" / "architecture.svg"
PATH = {
    "A program runs": ("utils/models", "every_byte/remedies"),
    "Each call is accounted for": (
        "every_byte/gpu/cuda",
        "every_byte/gpu/compiling",
        "every_byte/gpu/patches",
        "every_byte/gpu/dispatch",
        "every_byte/gpu/operators",
        "every_byte/gpu/operators/attention",
        "every_byte/gpu/operators/launch",
        "every_byte/gpu/known",
        "every_byte/gpu/memory",
        "every_byte/gpu/observer",
        "every_byte/gpu",
        "every_byte/stand_ins/flash_attn",
    ),
    "On a machine with a GPU, in their place": (
        "every_byte/gpu/live",
        "every_byte/gpu/cases",
        "every_byte/measure",
        "every_byte/verify",
    ),
    "Whose bytes they are": ("every_byte/ledger",),
    "What they should be": ("every_byte/formula", "utils/formulas"),
    "What a reader sees": (
        "utils/experiments",
        "every_byte/figures",
        "utils/figures",
        "every_byte/widget",
        "every_byte/report",
        "every_byte/report/render",
        "every_byte/step",
        "every_byte/closed_form",
        "every_byte/advice",
        "every_byte/trials",
        "every_byte/account",
        "every_byte/snapshots",
        "every_byte/cli",
        "every_byte/plugin",
        "every_byte/magics",
        "utils/explorers",
        "utils/exercises",
    ),
}
WIDTH, MARGIN, LINE, GAP = 420, 8, 18, 16
FILLS = {"every_byte": "#dbeafe", "utils": "#fef3c7"}
STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2937}"
    ".folder{font-family:ui-monospace,monospace;font-weight:700}"
    ".step{font-weight:700;fill:#5b5f66}"
)


def sentence(folder: str) -> str:
    """What a package says of itself: the docstring of its __init__.py."""
    source = (ROOT / folder / "__init__.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


def drawing() -> str:
    """The drawing as SVG, one column, so that it can be read on a telephone."""
    parts, y = [], MARGIN
    for step, folders in PATH.items():
        y += LINE
        parts.append(f'<text class="step" x="{MARGIN}" y="{y - 4}">{escape(step)}</text>')
        for folder in folders:
            lines = textwrap.wrap(sentence(folder), 52)
            height = LINE * (1 + len(lines)) + 10
            fill = FILLS[folder.split("/")[0]]
            box = f'x="{MARGIN}" y="{y}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="5"'
            parts.append(f'<rect {box} fill="{fill}" stroke="#6b7280"/>')
            parts.append(f'<text class="folder" x="{MARGIN + 8}" y="{y + LINE}">{escape(folder)}</text>')
            for i, line in enumerate(lines, start=2):
                parts.append(f'<text x="{MARGIN + 8}" y="{y + LINE * i}">{escape(line)}</text>')
            y += height + 4
        y += GAP
        x = WIDTH // 2
        parts.append(f'<path d="M{x - 7} {y - GAP + 2}h14l-7 9z" fill="#6b7280"/>')
    parts.pop()
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP + MARGIN}" role="img"'
    title = "<title>The folders of the code in the order in which a tensor passes them</title>"
    return "\n".join([f"{head}>", title, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def main() -> None:
    """Writes the drawing."""
    write_whole(DRAWING, drawing())


if __name__ == "__main__":
    main()
