"""Writes the formula sheet of chapters 2 to 4, one page to print, from the formulas that the book computes with.

    python tools/formula_sheet.py        writes book/formula_sheet.html

Print it from a browser: A4, landscape. tests/tools/test_formula_sheet.py checks that it is up to date.
"""

import re
from html import escape
from pathlib import Path

from every_byte import rounding
from every_byte.formula.expressions import LETTER_ORDER, ROUNDING_BYTES, Expression
from every_byte.formula.formula import Formula, Term
from every_byte.units import short
from every_byte.whole_files import write_whole
from utils.formulas.block import ATTENTIONS, PARTS, block_parts, block_saved
from utils.formulas.estimates import (
    autocast_activations,
    gpt_weights,
    half_precision_activations,
    parameter_count,
    peak_estimate,
    steady_state,
)
from utils.formulas.gpt import held_after_forward, held_in_embedding, held_in_loss
from utils.formulas.mlp import mlp_saved
from utils.formulas.settings import A100_WORKSPACE_BYTES, GPTSettings
from utils.models.gpt import SIZES, letters

PAGE = Path(__file__).resolve().parent.parent / "book" / "formula_sheet.html"
LETTERS = {
    "b": "batch",
    "s": "sequence length, and context",
    "d": "model width",
    "a": "attention heads",
    "L": "layers",
    "V": "vocabulary",
    "t": "tensor-parallel GPUs",
    "e": "bytes of an element",
}
ESTIMATES = {
    "between steps, gradients kept": ("16*N + 4*L*s**2 + 16*b*s", steady_state),
    "activations under autocast": ("L*(36*Ne + 6*Na) + 6*Ne + 6*Nl", autocast_activations),
    "activations, all at 2 bytes": ("L*(10*Ne + 24*Ne/t + 5*Na/t)", half_precision_activations),
    "peak": ("16*N + 4*L*s**2 + L*(36*Ne + 6*Na) + 6*Ne + 10*Nl", peak_estimate),
}
"""Published estimates as people write them, and the formula that each must equal, which the tests check."""
MOMENTS = {"in the loss": held_in_loss, "in the embedding": held_in_embedding}
WHERE = {
    "in the loss": "the gradient of the log-probabilities, and the 1 that backward begins with",
    "in the embedding": "all gradients, a second one of the embedding, the stream's, the 1; for b·s ≤ 3,072 tokens",
}
_STYLE = """
@page { size: A4 landscape; margin: 8mm; }
body { font: 7.3pt/1.27 "DejaVu Sans", "Segoe UI", sans-serif; margin: 0; color: #111; background: #fff;
       columns: 3; column-gap: 6mm; column-fill: auto; height: 193mm; }
h1 { font-size: 12pt; margin: 0 0 1mm; } p { margin: .4mm 0; }
h2 { font-size: 9pt; margin: 2.5mm 0 .5mm; border-bottom: .4mm solid #1f64a8; break-after: avoid; }
table { border-collapse: collapse; width: 100%; break-inside: avoid; }
caption { text-align: left; font-weight: bold; padding: 1.2mm 0 .2mm; }
sub { font-size: 78%; line-height: 0; }
td { padding: 0 1.5mm 0 0; vertical-align: top; } td.why { color: #444; font-size: 6.3pt; }
table.numbers { font-size: 5.9pt; white-space: nowrap; } table.numbers td + td { text-align: right; }
@media screen { body { height: auto; max-width: 285mm; padding: 8mm; margin: auto; column-fill: balance; } }
@media screen and (max-width: 900px) { body { columns: 1; font-size: 11pt; } td.why, table.numbers { font-size: 9pt; } }
"""


def main() -> None:
    """Write the page."""
    write_whole(PAGE, page())


def page() -> str:
    """The whole sheet as HTML."""
    parts = [_head(), _allocator(), *_chapter_2(), *_chapter_3(), *_chapter_4()]
    title = "Every Byte: formula sheet"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n' + "\n".join(
        (*parts, "</body></html>\n")
    )


def _head() -> str:
    known = ", ".join(f"<b>{letter}</b> {LETTERS[letter]}" for letter in LETTER_ORDER)
    rounded = Expression("blocks(x)")
    return (
        f"<h1>Every Byte: formula sheet</h1><p>{known}. Sizes are requested bytes. The allocator rounds each "
        f"request x up to {rounded}, a multiple of {ROUNDING_BYTES}. “Kept” counts each storage kept for backward "
        "once, without parameters and output. PyTorch 2.13's rules.</p>"
    )


def _chapter_2() -> list[str]:
    totals = {
        "GELU": mlp_saved(activation="gelu"),
        "ReLU, or any that saves its output": mlp_saved(activation="relu"),
        "GELU, dropout": mlp_saved(activation="gelu", dropout=True),
    }
    kept = mlp_saved(activation="gelu", dropout=True)
    return ["<h2>2 An MLP: d → 4d → d</h2>", _terms("Kept, with GELU and dropout", kept), _sums("In total", totals)]


def _chapter_3() -> list[str]:
    parts = block_parts(attention="flash", activation="gelu", dropout=True)
    tables = [_terms(f"{part}, with dropout", parts[part]) for part in PARTS if part in ("norm1", "attention")]
    attentions = {f"{name}, GELU": block_saved(attention=name, activation="gelu") for name in ATTENTIONS}
    more = {
        "flash, ReLU": block_saved(attention="flash", activation="relu"),
        "explicit, GELU, dropout": block_saved(attention="explicit", activation="gelu", dropout=True),
    }
    return [
        "<h2>3 A block: norm1, attention, norm2 (as norm1), mlp</h2>",
        *tables,
        _sums("In total, by attention and activation", attentions | more),
    ]


def _chapter_4() -> list[str]:
    flash = held_after_forward(GPTSettings())
    explicit = held_after_forward(GPTSettings(attention="explicit"))
    known = {term.name for term in flash.terms}
    instead = "With explicit attention, instead of logsumexp and random state"
    estimates = [(name, Expression(text), "") for name, (text, _) in ESTIMATES.items()]
    weights = [(term.name, Expression(term.elements), term.why) for term in gpt_weights().terms]
    return [
        "<h2>4 A GPT in nanoGPT's shape</h2>",
        _table("N, the number of parameters", [*weights, ("in total, without biases", parameter_count(), "")]),
        _table(
            "Held after forward: autocast, flash attention, fused AdamW", [_in_n(row) for row in map(_row, flash.terms)]
        ),
        _table(instead, [_row(term) for term in explicit.terms if term.name not in known]),
        _table("Where the peak may fall", [_moment(name, flash, held) for name, held in MOMENTS.items()]),
        _table("Published estimates: Ne = b·s·d, Na = a·b·s², Nl = b·s·V", estimates),
        _models(),
    ]


def _moment(name: str, forward: Formula, held) -> tuple[str, str, str]:
    """What exists at a moment of backward: which of the rows after forward, and what is added to them."""
    there = held(GPTSettings()).terms
    names = {term.name for term in forward.terms}
    stays = [term.name for term in there if term.name in names]
    comes = [_in_n(_row(term))[1] for term in there if term.name not in names]
    what = "all rows after forward" if set(stays) == names else " + ".join(stays)
    return name, f"{what} + {' + '.join(comes)}", WHERE[name]


def _in_n(row: tuple[str, Expression, str]) -> tuple[str, str, str]:
    """The same row with N for the number of parameters."""
    name, size, why = row
    count = str(parameter_count())
    return name, str(size).replace(f"({count})", "N").replace(count, "N").replace("1·V", "V"), why


def _models() -> str:
    """The four published sizes in numbers."""
    head = ["bytes", "parameters", "after forward", "in the loss", "in embedding"]
    rows = []
    for name in SIZES:
        sizes = letters(name) | {"b": 1}
        held = [
            moment(GPTSettings()).bytes(**sizes) for moment in (held_after_forward, held_in_loss, held_in_embedding)
        ]
        rows.append([name, *(f"{number:,d}" for number in (parameter_count().value(sizes), *held))])
    cells = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in (head, *rows)]
    return (
        f'<table class="numbers"><caption>The four GPT-2s as above, b = 1, s = 1,024</caption>{"".join(cells)}</table>'
    )


def _allocator() -> str:
    own, small = short(rounding.OWN_SEGMENT_BYTES), short(rounding.LARGEST_SMALL_BYTES)
    rows = [
        ("a block", "⌈x⌉ to 512 B, and any remainder not split off", ""),
        (f"up to {small}", f"in segments of {short(rounding.SMALL_SEGMENT_BYTES)}", ""),
        (f"below {own}", f"in segments of {short(rounding.LARGE_SEGMENT_BYTES)}", ""),
        ("larger", f"a segment of its own, a multiple of {short(rounding.SEGMENT_ROUNDING_BYTES)}", ""),
        ("split off", f"a remainder of 512 B or more (small), above {small} (large)", ""),
    ]
    return _table("The caching allocator: allocated counts whole blocks, reserved whole segments", rows)


def _row(term: Term) -> tuple[str, Expression, str]:
    of_an_a100 = f", {A100_WORKSPACE_BYTES:,d} each on an A100" if term.element_bytes == A100_WORKSPACE_BYTES else ""
    return term.name, term.size, term.why + of_an_a100


def _terms(title: str, formula: Formula) -> str:
    return _table(title, [_row(term) for term in formula.terms])


def _sums(title: str, formulas: dict[str, Formula]) -> str:
    return _table(title, [(name, formula.text, "") for name, formula in formulas.items()])


def _table(title: str, rows: list[tuple]) -> str:
    cells = [
        f"<tr><td>{escape(name)}</td><td>{_shown(size)}</td>"
        + (f'<td class="why">{escape(why)}</td>' if why else "")
        + "</tr>"
        for name, size, why in rows
    ]
    return f"<table><caption>{_shown(title)}</caption>{''.join(cells)}</table>"


def _shown(size: object) -> str:
    """As HTML, with Ne, Na and Nl in subscripts."""
    return re.sub(r"\bN([eal])\b", r"N<sub>\1</sub>", escape(str(size)))


if __name__ == "__main__":
    main()
