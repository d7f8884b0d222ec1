"""What a page without a kernel gets of an explorer, as a script: its spec, and stored accounts of some settings."""

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .account import Answer
from .explorer import Explorer, to_page
from .settings import in_effect


def script_of(
    name: str,
    explorer: Explorer,
    settings: Iterable[Mapping[str, Any]] = (),
    sequences: Mapping[str, Any] | None = None,
) -> str:
    """The script of one explorer: all that page.js needs to draw it under this name, with these settings' accounts.

    `sequences` is what its program asks for at any setting, as page/sequence.js plays it, where that is known.

    Counts: whatever the explorer's accounts count; they are taken now, one after the other.
    Raises: whatever `explorer.controls` raise for a setting; an account that fails is stored as the sentence it gives.
    """
    answers = {key_of(explorer, setting): packed(explorer.answer_at(setting)) for setting in settings}
    badge = _commonest([answer["badge"] for answer in answers.values()] or [""])
    shared = {"badge": f"{badge}; stored with this page", "error": "", "remark": ""}
    data = {
        "spec": explorer.spec,
        "value": to_page({symbol: control.default for symbol, control in explorer.controls.items()}, explorer),
        "shared": shared,
        "answers": {
            key: {field: item for field, item in stored(answer).items() if field not in shared or item != shared[field]}
            for key, answer in answers.items()
        },
        "sequences": sequences,
    }
    return f"everyByte.explorer({json.dumps(name)}, {json.dumps(data, ensure_ascii=False, separators=(',', ':'))});\n"


def stored(answer: Answer) -> Answer:
    """An answer as a page stores it: its badge says so, and what is empty is left out."""
    badge = f"{answer['badge']}; stored with this page" if answer["badge"] else ""
    kept = answer | {"badge": badge}
    return {field: item for field, item in kept.items() if item is not None or field == "terms"}


def key_of(explorer: Explorer, settings: Mapping[str, Any]) -> str:
    """The key of a setting's answer."""
    items = in_effect(explorer.controls, to_page(dict(settings), explorer))
    return "|".join(str(items[symbol]) for symbol in explorer.controls)


def packed(answer: Answer) -> Answer:
    """An answer whose timeline has differences in place of numbers, which are shorter."""
    timeline = answer["timeline"]
    if timeline is None:
        return answer
    columns = {name: differences(numbers) for name, numbers in timeline["columns"].items()}
    shorter = {"columns": columns, "reserved": differences(timeline["reserved"])}
    return answer | {"timeline": timeline | shorter | {"places": differences(timeline["places"])}}


def differences(numbers: list[int]) -> list[int]:
    """Each number less the one before; the first as it is."""
    return [number - before for before, number in itertools.pairwise([0, *numbers])]


def _commonest(texts: list[str]) -> str:
    return max(texts, key=texts.count)
