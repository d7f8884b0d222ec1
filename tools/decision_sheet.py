"""Writes the decision sheet of chapter 7, one page to print: what a failed run shows, how to check, what helps.

    python tools/decision_sheet.py        writes book/decision_sheet.html

Print it from a browser: A4, landscape. tests/tools/test_decision_sheet.py checks that it is up to date and that its
numbers come from the formulas.
"""

from html import escape
from pathlib import Path

import torch

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula
from every_byte.remedies.eight_bit import BLOCK
from every_byte.units import short
from every_byte.whole_files import write_whole
from utils.experiments.remedy_step import ROWS
from utils.formulas.llama_block import llama_block_saved
from utils.formulas.llama_counts import llama_parameter_count
from utils.formulas.llama_settings import LlamaSettings
from utils.models.llama import letters as of_model

PAGE = Path(__file__).resolve().parent.parent / "book" / "decision_sheet.html"
TITLE = "It does not fit: what now?"
MODEL, NAME, CONTEXT = "llama-3-8b", "Llama 3 8B", 8192
KEPT = Formula("kept by a block", tuple(llama_block_saved(LlamaSettings(), n="1"))).text
SIDES = Expression("9*d + 2*g*d/a + 3*f")
LETTERS = {
    "N": "parameters",
    "b": "sequences",
    "s": "tokens in each",
    "d": "width",
    "f": "the MLP's width",
    "a": "heads",
    "g": "heads of keys and values",
    "L": "layers",
    "V": "vocabulary",
    "c": "rows of a chunk",
    "r": "rank of adapters",
    "n": "GPUs",
    "K": f"bytes that a block keeps, {KEPT}",
    "w": f"rows and columns of its seven matrices, {SIDES}",
}


def letters() -> dict[str, int]:
    """Those of the sheet's numbers: one sequence, chunks as the chapter's, adapters of rank 8, eight GPUs."""
    sizes = of_model(MODEL) | {"b": 1, "s": CONTEXT}
    counts = {"N": llama_parameter_count().value(sizes), "K": Expression(KEPT).value(sizes), "w": SIDES.value(sizes)}
    return sizes | counts | {"c": ROWS, "r": 8, "n": 8}


SYMPTOMS = [
    (
        "one request is larger than an empty card",
        "# “Tried to allocate …”, in bytes / 2 or / 4: which shape is it?",
        "attention scores: flash. Logits: a chunked loss, and no logits for tokens without a target. Then a smaller b",
        "it is small: only the last straw",
    ),
    (
        "nvidia-smi shows much more than PyTorch reserves",
        "free, total = torch.cuda.mem_get_info()\ntotal - free - torch.cuda.memory_reserved()",
        "end the other process; fewer NCCL groups; one pool for CUDA graphs",
        "it is a few hundred MiB: the CUDA context",
    ),
    (
        "much is “reserved by PyTorch but unallocated”",
        "torch.cuda.memory_reserved() - torch.cuda.memory_allocated()",
        "PYTORCH_ALLOC_CONF=expandable_segments:True; few lengths, padded; a chunked loss",
        "it is less than the failed request",
    ),
    (
        "it grows from step to step",
        "torch.cuda.memory_allocated()  # after zero_grad, in steps 2 and 3",
        "keep loss.item(), not loss; find hooks and lists that keep tensors; retry outside except",
        "only the first step adds: optimizer state",
    ),
    (
        "only in evaluation",
        "loss.grad_fn is None  # False: there is a graph",
        "torch.no_grad(); keep numbers, not outputs",
        "it is True, and no list keeps outputs",
    ),
    (
        "while loading",
        "torch.cuda.max_memory_allocated()  # before the first batch",
        "load to the CPU or on meta, not twice; bfloat16; shards",
        "it is the weights, once",
    ),
    (
        "in forward, or when backward begins",
        "torch.cuda.memory._record_memory_history()  # before the step; after it:\n"
        "torch.cuda.memory._dump_snapshot('m.pickle')",
        "del logits; chunked loss; flash; micro-batches; checkpoints; activations to the host",
        "activations and logits are small compared with weights and state",
    ),
    (
        "when backward ends",
        "2 * sum(p.numel() * p.element_size() for p in model.parameters())  # and gradients",
        "bfloat16; step in backward; smaller averages; adapters; state to the host; shards",
        "the peak is in the loss: see above",
    ),
    (
        "in the optimizer's step, mostly the first",
        "torch.cuda.max_memory_allocated()  # before and after optimizer.step()",
        "fused=True; 8-bit or factored averages; SGD; state to the host; shards",
        "forward needs more",
    ),
]
"""What you see, what to type, the remedies from the cheapest on, and when the cause is another."""
_LOST = round(2 / torch.finfo(torch.bfloat16).eps)  # an update of half the distance to the next number is lost
REMEDIES = [
    ("gradients go before forward", "optimizer.zero_grad(set_to_none=True)", "2*N", "0", "nothing, it is the default",
     "the peak is in backward or in the step"),
    ("no name for logits", "del logits", "2*b*s*V", "0", "nothing", "the peak is not in the loss's backward"),
    ("no graph in evaluation", "with torch.no_grad(): ...", "L*K", "0", "nothing", "it happens in training"),
    ("fused step", "torch.optim.AdamW(params, fused=True)", "2*N - 2*(2*L + 1)*d", "0", "nothing",
     "the peak is not in the step, where foreach's square roots are"),
    ("flash attention", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "2*L*a*b*s**2", "4*L*a*b*s",
     "nothing, but a mask cannot be a tensor", "a fused kernel already runs"),
    ("chunked loss", "checkpoint(loss_of, h_chunk, use_reentrant=False)", "12*b*s*V", "12*c*V",
     "the head's forward again; nothing if forward makes the gradients",
     "the peak is in a block or later"),
    ("micro-batches", "(sum_of_losses / n_targets).backward()", "L*K + 12*b*s*V", "(L*K + 12*b*s*V)/2 + 2*N",
     "take the mean over all tokens; gradients stay through forward", "the peak is at backward's end"),
    ("checkpoint of each block", "checkpoint(block, x, use_reentrant=False)", "L*K", "2*(L - 1)*b*s*d + K",
     "most of the blocks' forward again", "the peak is at backward's end or later"),
    ("bfloat16 weights, state", "model.to(torch.bfloat16)", "16*N", "8*N",
     f"updates below 1/{_LOST} of a weight are lost", "never; but float32 logits stay"),
    ("step in backward", "p.register_post_accumulate_grad_hook(step)", "2*N", "2*V*d",
     "no clipping by norm, no accumulation, no scaler", "the peak is in the loss; few weights train"),
    ("8-bit averages", "bitsandbytes.optim.AdamW8bit(params)", "4*N", f"2*N + 8*N/{BLOCK}",
     f"rounding: {BLOCK} numbers share a scale", "never; but a step makes floats"),
    ("factored averages", "torch.optim.Adafactor(params)", "4*N", "2*(L*(w + 2*d) + 2*V + 3*d)",
     "a different update", "never; but a step takes a matrix"),
    ("adapters (LoRA)", "model.requires_grad_(False)  # and train A, B", "6*N", "8*L*r*w",
     "trains few parameters only", "never; but activations stay"),
    ("averages and gradients to the host", "CPUOffloadOptimizer(params, AdamW, offload_gradients=True)  # torchao",
     "6*N", "0", "2·N bytes each way, a step on the host; no accumulation", "never; but activations stay"),
    ("activations to the host", "with save_on_cpu(pin_memory=True): ...", "L*K", "0",
     "everything kept, each way; weights too", "the peak is at backward's end or later"),
    ("shards on n GPUs (FSDP2)", "fully_shard(block); fully_shard(model)", "8*N", "8*N/n",
     "gathers each block twice", "never; but activations stay"),
]  # fmt: skip
"""Name, what to type, the bytes without and with it, what it costs, and when it saves nothing.

There are two micro-batches, each of half the tokens."""
_STYLE = """
@page { size: A4 landscape; margin: 8mm; }
:root { color-scheme: light dark; }
body { font: 7pt/1.25 "DejaVu Sans", "Segoe UI", sans-serif; margin: 0; color: #111; background: #fff; }
h1 { font-size: 12pt; margin: 0 0 1mm; } p { margin: .4mm 0 1mm; }
h2 { font-size: 8.5pt; margin: 2mm 0 .5mm; border-bottom: .4mm solid #1f64a8; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
caption { text-align: left; padding: .3mm 0; }
th { text-align: left; padding: 0 1.5mm 0 0; }
td { padding: .3mm 1.5mm .3mm 0; vertical-align: top; border-top: .1mm solid #bbb; overflow-wrap: break-word; }
td:first-child { font-weight: bold; }
code { font: 6.2pt/1.25 "DejaVu Sans Mono", monospace; white-space: pre-wrap; }
td.bytes { white-space: normal; }
table.symptoms :is(th, td):nth-child(2) { width: 29%; } table.symptoms :is(th, td):nth-child(3) { width: 30%; }
table.remedies :is(th, td):nth-child(1) { width: 12%; } table.remedies :is(th, td):nth-child(2) { width: 23%; }
table.remedies :is(th, td):nth-child(3) { width: 27%; }
@media screen {
  body { max-width: 285mm; padding: 8mm; margin: auto; font-size: 9pt; } code { font-size: 8.2pt; }
}
@media screen and (max-width: 900px) {
  body { padding: 4mm; font-size: 11pt; } code { font-size: 9.5pt; } tr:first-child { display: none; }
  table, tbody, caption, tr, td { display: block; width: auto !important; }
  tr { padding: 2mm 0; border-top: .3mm solid #888; }
  td { border: 0; } td[data-label]::before { content: attr(data-label) ": "; color: #666; }
}
@media screen and (prefers-color-scheme: dark) {
  body { color: #ddd; background: #121212; } h2 { border-color: #6aa9e6; } td { border-color: #444; }
  td[data-label]::before { color: #aaa; }
}
"""


def main() -> None:
    """Write the page."""
    write_whole(PAGE, page())


def page() -> str:
    """The whole sheet as HTML."""
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Every Byte: {TITLE}</title>'
    )
    parts = [
        f"<h1>{TITLE}</h1><p>Find the symptom, run the check, and apply the first remedy that acts where the peak is. "
        "Then look again, because the peak has moved.</p>",
        "<h2>From the symptom to the cause</h2>",
        _symptoms(),
        "<h2>The remedies, cheapest first</h2>",
        _remedies(),
    ]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n' + "\n".join(
        (*parts, "</body></html>\n")
    )


def _symptoms() -> str:
    rows = [
        (escape(seen), f"<code>{escape(check)}</code>", escape(remedies), escape(not_it))
        for seen, check, remedies, not_it in SYMPTOMS
    ]
    return _table("symptoms", "", ("what you see", "check", "remedies, cheapest first", "not this if"), rows)


def _remedies() -> str:
    known = ", ".join(f"<b>{letter}</b> {what}" for letter, what in LETTERS.items())
    sizes = letters()
    example = ", ".join(f"{letter} = {sizes[letter]:,d}" for letter in "Ncrn")
    caption = (
        f"{known}. Bytes are requested bytes with AdamW, all in bfloat16, without → with the remedy. Brackets: {NAME} "
        f"on one sequence of {CONTEXT:,d} tokens, by formulas, with {example} and two micro-batches of half the tokens."
    )
    rows = [
        (escape(name), f"<code>{escape(code)}</code>", f"{_bytes(before)} → {_bytes(after)}", escape(price), escape(no))
        for name, code, before, after, price, no in REMEDIES
    ]
    return _table("remedies", caption, ("remedy", "code", "bytes", "price", "saves nothing if"), rows)


def _bytes(text: str) -> str:
    """A size in letters, and in brackets what it is for the sheet's model."""
    size = Expression(text)
    n_bytes = size.value(letters())
    return f"{escape(str(size))} ({short(n_bytes)})" if n_bytes else "0"


def _table(kind: str, caption: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    titles = "".join(f"<th>{title}</th>" for title in head)
    labels = ("", *(f' data-label="{title}"' for title in head[1:]))
    cells = ["".join(f"<td{label}>{cell}</td>" for label, cell in zip(labels, row, strict=True)) for row in rows]
    shown = f"<caption>{caption}</caption>" if caption else ""
    return f'<table class="{kind}">{shown}<tr>{titles}</tr>' + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


if __name__ == "__main__":
    main()
