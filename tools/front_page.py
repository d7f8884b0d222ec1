"""Stores what the front page answers: `python -m tools.front_page` writes book/front_page.json, in some twenty minutes.

For each model, batch and card of three lists, whether two steps of training fit, and the second step's memory over
time. Each account is a run of the model's own class on the simulated GPU with room for all; cards of one architecture
share a run, whose requests are then asked of each card's allocator. The page that is built from it runs nothing.
"""

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "book" / "front_page.json"
LENGTH = 1024
BATCHES = (1, 2, 4, 8, 16, 32)
CARDS = ("t4-16gb", "rtx4090-24gb", "a100-40gb", "a100-80gb", "h100-80gb", "h200-141gb")
DEFAULT = ("llama-1b", 4, "rtx4090-24gb")
COLUMNS, HEIGHT = 72, 600  # of a mountain, whose peak has this height
BANDS = ("parameters", "optimizer state", "autocast copies", "activations", "gradients", "temporaries")
OTHERS = "everything else"


@dataclass(frozen=True)
class Model:
    """A public model: its title, its class in transformers, and what of its configuration is not the default."""

    title: str
    library_class: str
    configuration: dict[str, Any]


def _llama(title: str, d: int, f: int, n_layers: int, heads: int, kv_heads: int, *, is_tied: bool) -> Model:
    sizes = {"hidden_size": d, "intermediate_size": f, "num_hidden_layers": n_layers, "num_attention_heads": heads}
    more = {"num_key_value_heads": kv_heads, "tie_word_embeddings": is_tied, "vocab_size": 128_256}
    return Model(title, "LlamaForCausalLM", sizes | more)


MODELS = {
    "gpt2": Model("GPT-2, 124M", "GPT2LMHeadModel", {}),
    "qwen-0.5b": Model(
        "Qwen2.5, 0.5B",
        "Qwen2ForCausalLM",
        {
            "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
            "num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": True,
        },
    ),
    "llama-1b": _llama("Llama 3.2, 1B", 2048, 8192, 16, 32, 8, is_tied=True),
    "llama-3b": _llama("Llama 3.2, 3B", 3072, 8192, 28, 24, 8, is_tied=True),
    "llama-8b": _llama("Llama 3.1, 8B", 4096, 14_336, 32, 32, 8, is_tied=False),
}  # fmt: skip


def accounts_of(model: str, batch: int, cards: Iterable[str]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What is stored for cards of one architecture: each card's name, its verdict, and the mountain that they share."""
    from every_byte.account import account, hugging_face, tokens
    from every_byte.advice.runs import spec_with_room
    from every_byte.gpu.memory.specs import find_spec
    from every_byte.report.fits import fits_on

    specs = [find_spec(name) for name in cards]
    of_model = MODELS[model]
    make = hugging_face(of_model.library_class, **of_model.configuration)
    words = tokens("b", "s", below=min(50_257, of_model.configuration.get("vocab_size", 50_257)))
    half = "autocast" if specs[0].capability >= (8, 0) else "autocast float16"
    run = account(
        make, {"input_ids": words, "labels": words}, b=batch, s=LENGTH, precision=half, gpu=spec_with_room(specs[0])
    ).report
    verdicts = {spec.name: fits_on(run.trace, run.steps, spec, others=()).own for spec in specs}
    drawn = mountain(run) | {"exact": run.is_exact}
    found = []
    for spec in specs:
        verdict = verdicts[spec.name]
        told = {
            "fits": verdict.fits, "needed": verdict.needed_bytes, "in_use": verdict.in_use_bytes,
            "room": verdict.room_bytes, "margin": verdict.margin_bytes, "in_doubt": verdict.hangs_on_context,
        }  # fmt: skip
        found.append((spec.name, told, drawn))
    return found


def mountain(run: Any) -> dict[str, Any]:
    """The last step of a run: the outline of each band as an SVG path, and what each owns at the step's peak.

    Counts: whole blocks. A band is drawn from the ground up, over what is above it in the stack. Of the instants that
            a column stands for it shows the highest.
    Unit:   bytes at the peak; in paths a column, and the peak's part in HEIGHT.
    """
    from every_byte.ledger.running import running
    from every_byte.report.owners import instants
    from every_byte.report.place import phase_name
    from every_byte.widget.timeline import highest_of_each_part, spans

    step, events, totals = run.steps[-1], [], []
    for i, (event, now) in enumerate(running(run.trace.events[: step.end])):
        if event.action in ("alloc", "free") and i >= step.begin:
            events.append(i)
            totals.append(now.allocated_bytes)
    chosen = highest_of_each_part(totals, COLUMNS)
    positions = [events[i] + 1 for i in chosen]
    levels = [_in_bands(instant.by_category) for instant in instants(run.trace, positions, n=1)]
    peak = max(range(len(chosen)), key=lambda column: totals[chosen[column]])
    names = [name for name in (*BANDS, OTHERS) if any(level[name] for level in levels)]
    outlines, below = {}, [0] * len(levels)
    for name in names:
        below = [height + level[name] for height, level in zip(below, levels)]
        outlines[name] = _path([round(HEIGHT * height / totals[chosen[peak]]) for height in below])
    return {
        "peak": totals[chosen[peak]],
        "phase": phase_name(run.trace.events[positions[peak] - 1].phase),
        "column": peak,
        "columns": len(chosen),
        "bands": {name: [levels[peak][name], outlines[name]] for name in names},
        "phases": spans([phase_name(run.trace.events[position - 1].phase) for position in positions]),
    }


def _in_bands(by_category: dict[str, int]) -> dict[str, int]:
    levels = dict.fromkeys((*BANDS, OTHERS), 0)
    for name, n_bytes in by_category.items():
        levels[name if name in levels else OTHERS] += n_bytes
    return levels


def _path(heights: list[int]) -> str:
    """Steps from the left to the right and back along the ground, upward; equal neighbours are one."""
    parts, before = ["M0 0"], 0
    for height, group in groupby(heights):
        parts.append(f"v{height - before}h{len(list(group))}")
        before = height
    return f"{''.join(parts)}v{-before}z"


def _by_architecture(cards: Iterable[str]) -> list[list[str]]:
    """The same cards, those of one architecture together, in order."""
    from every_byte.gpu.memory.specs import find_spec

    together: dict[tuple[int, int], list[str]] = {}
    for name in cards:
        together.setdefault(find_spec(name).capability, []).append(name)
    return list(together.values())


def _of(task: tuple[str, int, list[str]]) -> tuple[tuple[str, int, list[str]], list]:
    os.nice(5)
    return task, accounts_of(*task)


def document(results: Iterable[tuple[tuple[str, int, list[str]], list]]) -> dict[str, Any]:
    """All that is stored: equal mountains once, and for each model "batch card" with its verdict and its mountain."""
    from every_byte.gpu.memory.specs import find_spec

    stored: dict[str, Any] = {name: {"title": model.title, "mountains": [], "at": {}} for name, model in MODELS.items()}
    for (model, batch, _), found in results:
        mountains = stored[model]["mountains"]
        for card, told, drawn in found:
            if drawn not in mountains:
                mountains.append(drawn)
            stored[model]["at"][f"{batch} {card}"] = told | {"mountain": mountains.index(drawn)}
    cards = {name: [find_spec(name).device_name, find_spec(name).total_bytes] for name in CARDS}
    choices = {"length": LENGTH, "batches": BATCHES, "cards": cards, "default": DEFAULT, "height": HEIGHT}
    return choices | {"models": stored}


def tasks() -> list[tuple[str, int, list[str]]]:
    """Every run that is needed."""
    return [(model, batch, cards) for model, batch, cards in product(MODELS, BATCHES, _by_architecture(CARDS))]


def main() -> None:
    """Run all of them, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m tools.front_page", description=__doc__.split("\n")[0])
    parser.add_argument("-j", "--processes", type=int, default=1, help="how many at a time (default: 1)")
    results = []
    with get_context("spawn").Pool(parser.parse_args().processes, maxtasksperchild=24) as pool:
        for result in pool.imap(_of, tasks()):
            results.append(result)
            print(f"{len(results)} of {len(tasks())}  {' '.join(map(str, result[0][:2]))}", flush=True)
    write_whole(STORED, json.dumps(document(results), separators=(",", ":")) + "\n")
    print(STORED.relative_to(ROOT))


if __name__ == "__main__":
    main()
