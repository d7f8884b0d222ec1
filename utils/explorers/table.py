"""An explorer's table without a page: plain HTML for a notebook that is read with no kernel."""

from html import escape

from utils.units import short

_HEAD = "<tr><th>term</th><th>formula</th><th>predicted bytes</th><th>{origin} bytes</th><th>difference</th></tr>"


def as_html(title: str, settings: str, terms: list[dict], predicted: dict[str, int], answer: dict) -> str:
    """Predicted and accounted bytes, term by term, as an HTML table; or the sentence that stands for the account.

    Counts: a term that only one side knows keeps its row, with a dash on the other side.
    """
    accounted = answer["terms"]
    texts = {term["name"]: term["text"] for term in terms}
    names = dict.fromkeys([*predicted, *(accounted or {})])
    rows = [_row(name, texts.get(name, ""), predicted.get(name), (accounted or {}).get(name)) for name in names]
    total = None if accounted is None else sum(accounted.values())
    rows.append(_row("total", "", sum(predicted.values()), total))
    said = answer["error"] or answer["badge"]
    head = _HEAD.format(origin=escape(answer["origin"] or "accounted"))
    return (
        f"<table><caption>{escape(title)}: {escape(settings)}</caption><thead>{head}</thead>"
        f"<tbody>{''.join(rows)}</tbody></table><p>{escape(said)}</p>"
    )


def _row(name: str, text: str, predicted: int | None, accounted: int | None) -> str:
    difference = None if predicted is None or accounted is None else accounted - predicted
    cells = [_bytes(predicted), _bytes(accounted), "–" if difference is None else f"{difference:,d}"]
    body = "".join(f'<td style="text-align:right">{cell}</td>' for cell in cells)
    return f"<tr><th>{escape(name)}</th><td>{escape(text)}</td>{body}</tr>"


def _bytes(n_bytes: int | None) -> str:
    return "–" if n_bytes is None else f"{n_bytes:,d} ({short(n_bytes)})"
