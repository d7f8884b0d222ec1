"""The front page's answer to "Will my training run fit?", and how many published figures the simulation meets.

What ```{front-page}``` shows is stored in book/front_page.json, which `python -m tools.front_page` writes. All words
are made here, for every combination; the page's script, front_page.js, chooses among them.
"""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from every_byte.palette import colour_of
from every_byte.units import exact, short

STORED, FOLDER = "front_page.json", "front_page"
HEADROOM = 1.16  # of the picture over what is highest in it
OTHERS = "brown"  # the colour of what no band has
SOLD_WITH = (16, 24, 40, 80, 141, 180)  # gigabytes


def card_name(device_name: str, total_bytes: int) -> str:
    """What people call a card: "A100, 80 GB"."""
    name = device_name.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("Tesla ").split("-")[0]
    return f"{name.removesuffix(' 80GB HBM3')}, {_nominal(total_bytes)} GB"


def _nominal(total_bytes: int) -> int:
    """The gigabytes that a card is sold with: the next of the sizes there are."""
    return next(size for size in SOLD_WITH if total_bytes <= size * 2**30)


def answer(at: dict[str, Any], mountain: dict[str, Any]) -> str:
    """One sentence or two, as HTML: whether it fits, and by how much."""
    room, peak = short(at["room"]), short(mountain["peak"])
    if at["fits"]:
        free = short(at["room"] - at["needed"])
        words = f"<strong>It fits.</strong> It takes {short(at['needed'])} of {room} and leaves {free}."
    elif mountain["peak"] > at["room"]:
        missing = short(mountain["peak"] - at["room"])
        words = (
            f"<strong>It does not fit.</strong> Its tensors need {peak} in the {mountain['phase']} phase, "
            f"and there are {room}: {missing} too few."
        )
    else:
        words = (
            f"<strong>It does not fit.</strong> Its tensors, {peak}, would go into {room}. The allocator's segments, "
            f"{short(at['needed'])}, do not."
        )
    if at["in_doubt"]:
        words += " It is close: the size of the CUDA context, which we assume, decides."
    if not mountain["exact"]:
        words += " Recordings of other architectures alone hold some of its operators."
    return words


def picture(stored: dict[str, Any], at: dict[str, Any], mountain: dict[str, Any]) -> dict[str, Any]:
    """Where things are in the picture, in percent of its width and height from below, and how tall the mountain is."""
    top = max(mountain["peak"], at["room"]) * HEADROOM
    return {
        "scale": round(mountain["peak"] / top, 4),
        "room": round(100 * at["room"] / top, 2),
        "roomWords": f"the card has {short(at['room'])} for PyTorch",
        "column": round(100 * (mountain["column"] + 0.5) / mountain["columns"], 2),
        "peakWords": f"peak: {short(mountain['peak'])}",
        "over": not at["fits"],
    }


def owners(mountain: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(name, bytes in short, exact bytes) of each band that has some at the peak, from the ground up."""
    return [(name, short(n), exact(n)) for name, (n, _) in mountain["bands"].items() if n]


def phases(mountain: dict[str, Any]) -> list[tuple[str, float]]:
    """(name, percent of the width) from the left; what is between the phases that have names has none."""
    named = ("forward", "backward", "optimizer")
    return [
        (name if name in named else "", round(100 * (last - first + 1) / mountain["columns"], 2))
        for name, first, last in mountain["phases"]
    ]


def largest(stored: dict[str, Any], model: str, card: str) -> str:
    """The largest of the batches that fits: "8"; "none" if none does."""
    at = stored["models"][model]["at"]
    fitting = [batch for batch in stored["batches"] if at[f"{batch} {card}"]["fits"]]
    return str(max(fitting)) if fitting else "none"


def data_of(stored: dict[str, Any], model: str) -> dict[str, Any]:
    """All that the page's script needs of a model: what each combination says, and the mountains."""
    of_model = stored["models"][model]
    mountains = [
        {
            "bands": {name: path for name, (_, path) in mountain["bands"].items()},
            "owners": owners(mountain),
            "phases": phases(mountain),
        }
        for mountain in of_model["mountains"]
    ]
    at = {}
    for key, one in of_model["at"].items():
        mountain = of_model["mountains"][one["mountain"]]
        drawn = picture(stored, one, mountain)
        at[key] = {"answer": answer(one, mountain), "mountain": one["mountain"]} | drawn
    return {"mountains": mountains, "at": at}


def html_of(stored: dict[str, Any], address: str) -> str:
    """The controls, the answer, the picture of the default combination, its owners, and all answers as a table."""
    model, batch, card = stored["default"]
    data = data_of(stored, model)
    at = data["at"][f"{batch} {card}"]
    mountain = data["mountains"][at["mountain"]]
    parts = [
        f'<div class="fit" data-scripts="{escape(address)}" data-model="{model}">',
        _controls(stored),
        f'<p class="fit-answer" aria-live="polite" data-over="{str(at["over"]).lower()}">{at["answer"]}</p>',
        _figure(stored, at, mountain),
        "</div>",
        _table(stored),
    ]
    return "".join(parts)


def _controls(stored: dict[str, Any]) -> str:
    model, batch, card = stored["default"]
    models = {name: of_model["title"] for name, of_model in stored["models"].items()}
    batches = {str(n): f"{n} × {stored['length']:,} tokens" for n in stored["batches"]}
    cards = {name: card_name(*of_card) for name, of_card in stored["cards"].items()}
    chosen = {"model": ("Model", models, model), "batch": ("Batch × sequence", batches, str(batch))}
    chosen["card"] = ("Card", cards, card)
    labels = []
    for name, (title, options, value) in chosen.items():
        items = "".join(
            f'<option value="{key}"{" selected" * (key == value)}>{escape(text)}</option>'
            for key, text in options.items()
        )
        labels.append(f'<label><span>{title}</span><select name="{name}" autocomplete="off">{items}</select></label>')
    words = f'<p class="fit-fixed">{escape(models[model])}, {batches[str(batch)]}, on {escape(cards[card])}</p>'
    return f'{words}<form class="fit-controls">{"".join(labels)}</form>'


def _figure(stored: dict[str, Any], at: dict[str, Any], mountain: dict[str, Any]) -> str:
    names = [*mountain["bands"]]
    every = [*dict.fromkeys(name for one in stored["models"].values() for m in one["mountains"] for name in m["bands"])]
    names += [name for name in every if name not in names]
    paths = "".join(
        f'<path class="fit-{_slug(name)}" data-band="{name}" d="{mountain["bands"].get(name, "")}"/>'
        for name in reversed(names)
    )
    width, height = stored_columns(stored), stored["height"]
    svg = (
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="Memory over one step '
        f'of training: it rises in forward, is highest at its peak, and falls in backward">'
        f'<g transform="translate(0 {height}) scale(1 {-at["scale"]})">{paths}</g></svg>'
    )
    room = f'<span class="fit-room" style="bottom:{at["room"]}%"><span>{at["roomWords"]}</span></span>'
    place = f"left:{at['column']}%;bottom:{round(100 * at['scale'], 2)}%"
    peak = f'<span class="fit-peak" style="{place}"><span>{at["peakWords"]}</span></span>'
    spans = "".join(f'<span style="width:{width}%">{name}</span>' for name, width in mountain["phases"])
    owned = "".join(
        f'<li><i class="fit-{_slug(name)}"></i>{name} <b title="{all_of_it}">{text}</b></li>'
        for name, text, all_of_it in mountain["owners"]
    )
    caption = (
        "Memory over the second step of training, allocation by allocation, and what owns it at the peak, from the "
        "ground up. The weights are in float32, with autocast, AdamW and PyTorch’s own attention, and nothing else "
        "saves memory. Simulated, to the byte."
    )
    return (
        f'<figure class="fit-figure"><div class="fit-plot">{svg}{room}{peak}</div><div class="fit-phases" '
        f'aria-hidden="true">{spans}</div><ul class="fit-owners" aria-label="Owners at the peak">{owned}</ul>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def stored_columns(stored: dict[str, Any]) -> int:
    """How wide every mountain is."""
    (width,) = {mountain["columns"] for model in stored["models"].values() for mountain in model["mountains"]}
    return width


def _table(stored: dict[str, Any]) -> str:
    cards = {name: card_name(*of_card) for name, of_card in stored["cards"].items()}
    head = "".join(f"<th>{escape(name)}</th>" for name in ("largest batch that fits", *cards.values()))
    rows = "".join(
        f"<tr><td>{escape(of_model['title'])}</td>"
        f"{''.join(f'<td>{largest(stored, model, card)}</td>' for card in cards)}</tr>"
        for model, of_model in stored["models"].items()
    )
    most = max(stored["batches"])
    words = f"Of sequences of {stored['length']:,} tokens; {most} is the largest batch that we tried."
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return (
        f'<details class="fit-table"><summary>Every answer in one table</summary><p>{words}</p>'
        f'<div class="pst-scrollable-table-container">{table}</div></details>'
    )


def colours(stored: dict[str, Any]) -> str:
    """A rule for each band: the book's colour of that category, light and dark."""
    names = dict.fromkeys(name for one in stored["models"].values() for m in one["mountains"] for name in m["bands"])
    rules = []
    for name in names:
        colour = colour_of(OTHERS if name == "everything else" else name)
        rules.append(f".fit-{_slug(name)} {{ --tone: light-dark({colour.light}, {colour.dark}); }}\n")
    return "".join(rules)


class FrontPage(SphinxDirective):
    """Will my training run fit?: ```{front-page}```."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.app.confdir, STORED)
        self.env.note_dependency(str(path))
        self.env.metadata[self.env.docname]["front_page"] = True
        stored = json.loads(path.read_text(encoding="utf-8"))
        return [nodes.raw("", html_of(stored, f"_static/{FOLDER}"), format="html")]


COUNTED = re.compile(r"^\|(?:[^|\n]*\|){7}\s*([^|\n]*?)\s*\|$", re.MULTILINE)


def counted(page: str) -> tuple[int, int]:
    """How many figures the tables of the page "Measured by others" have, and how many of them are met exactly.

    Raises: ValueError where there is no such table.
    """
    differences = [found for found in COUNTED.findall(page) if found != "difference" and not found.startswith("--")]
    if not differences:
        raise ValueError("measured_by_others.md must have tables of eight columns, the last of them differences.")
    return len(differences), differences.count("0")


class Published(SphinxRole):
    """How many published figures there are, {published}`all`, or are met exactly, {published}`met`."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        path = Path(self.env.srcdir, "measured_by_others.md")
        self.env.note_dependency(str(path))
        every, met = counted(path.read_text(encoding="utf-8"))
        return [nodes.Text(f"{({'all': every, 'met': met})[self.text]:,d}")], []


def load(app: Sphinx, page: str, _template: str, context: dict, _doctree: nodes.document | None) -> None:
    """The page has its style and its script."""
    if app.env.metadata.get(page, {}).get("front_page"):
        app.add_css_file("front_page.css")
        app.add_js_file("front_page.js", loading_method="defer")


def write(app: Sphinx, error: Exception | None) -> None:
    """A script for each model, which the page loads when it is chosen, and the colours behind the style."""
    path = Path(app.confdir, STORED)
    if error or app.builder.name != "html" or not path.is_file():
        return
    stored = json.loads(path.read_text(encoding="utf-8"))
    folder = Path(app.outdir, "_static", FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for model in stored["models"]:
        data = json.dumps(data_of(stored, model), separators=(",", ":"), ensure_ascii=False)
        (folder / f"{model}.js").write_text(f"everyByteFit({json.dumps(model)}, {data});\n", encoding="utf-8")
    with Path(app.outdir, "_static", "front_page.css").open("a", encoding="utf-8") as style:
        style.write(colours(stored))


def setup(app: Sphinx) -> dict:
    """Tells Sphinx of it."""
    app.add_directive("front-page", FrontPage)
    app.add_role("published", Published())
    app.connect("html-page-context", load)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
