"""What the page says of settings of an explorer that it simulates itself, beside what the kernel says."""

import random
from typing import Any

from in_node import in_node

from every_byte.widget.explorer import Explorer, to_page
from tools.sequences.stored import drawn_from

ANSWERS = "given.values.map((value) => accountAt(given.name, given.sequences, given.spec, value))"


def random_settings(explorer: Explorer, n: int, seed: int) -> list[dict[str, Any]]:
    """So many settings, of sliders as often small as large."""
    draw = random.Random(seed)

    def one(control):
        return (
            drawn_from(control, draw)
            if control.spec()["kind"] == "range"
            else control.values[draw.choice(control.enabled)]
        )

    return [{symbol: one(control) for symbol, control in explorer.controls.items()} for _ in range(n)]


def answers_of_the_page(
    name: str, explorer: Explorer, sequences: dict, settings: list[dict[str, Any]]
) -> list[dict | None]:
    """Its answers, or None where it does not know what the program asks for."""
    values = [to_page(one, explorer) for one in settings]
    return in_node(ANSWERS, {"name": name, "sequences": sequences, "spec": explorer.spec, "values": values})


def differs(here: dict, there: dict) -> str:
    """What a page says otherwise than the kernel, or ""."""
    if here["error"] or there["error"]:
        return "" if is_said(here["error"], there["error"]) else f"{here['error']!r} and not {there['error']!r}"
    if here["terms"] != there["terms"]:
        return f"{here['terms']} and not {there['terms']}"
    said = f"{there['badge']}; in this page", there["remark"]
    return "" if (here["badge"], here["remark"]) == said else f"{here['badge']} {here['remark']} and not {said}"


def is_said(here: str, there: str) -> bool:
    """Whether a page says why there is no account as the kernel does: which numbers would do, the kernel alone says."""
    return here == there.split("; nearest: ")[0] + "." * ("; nearest: " in there)
