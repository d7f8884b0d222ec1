"""Wrong answers to exercises whose judge has no list of its own: each is put into the chapter's cell, and judged.

By the exercise's chapter and number: words for the page, and what is replaced in the cell by what. Where the cell as
the chapter has it is a wrong answer already, tools/answers.py adds it.
"""

from typing import NamedTuple


class Wrong(NamedTuple):
    """A wrong answer: what it is called, and the text of the cell that is replaced, once, by another."""

    words: str
    old: str
    new: str


def _answers(*values: object) -> list[Wrong]:
    """For a cell that says `answer = None`."""
    return [Wrong(f"`{value!r}`", "answer = None", f"answer = {value!r}") for value in values]


_FIRST, _SECOND, _THIRD = "the input of norm2", "the input of up", "the mask of the dropout after down"
_QKV, _OUT, _GATE, _UP = (f"aten.mm.default {n}" for n in range(1, 5))
_ATTENTION = "aten._scaled_dot_product_flash_attention.default 1"
_RIGHT_CAUSES = {"A": "another process", "B": "fragmentation", "C": "one request", "D": "its own tensors"}
_GIVEN = '"loss": "all logits",\n    "is_checkpointed": False'
_FITS_T4 = {"b": 6, "attention": "fused", "keeps_logits": False, "set_to_none": True}
_T4 = '{"b": 12, "attention": "explicit", "keeps_logits": True, "set_to_none": False}'
_AUTOGRAD = "        ctx.save_for_backward(x)\n"
_POLICY = """    from torch.utils.checkpoint import CheckpointPolicy

    return CheckpointPolicy.MUST_SAVE if operator is {kernel} else CheckpointPolicy.PREFER_RECOMPUTE
"""
_FLASH = "torch.ops.aten._scaled_dot_product_flash_attention"
_NAMED_OUTPUTS = """    torch.set_grad_enabled(False)
    for x in batches:
        y = model(x)
        total = total + y.mean()
    torch.set_grad_enabled(True)"""
_DRAWN_WITHIN = """    value = mean.clone()
    y = checkpoint(lambda x, weight: exercises.moody_layer(x, weight, value.clone()), x, weight)
    with torch.no_grad():
        mean.mul_(0.9).add_(torch.tanh(x @ weight).mean(), alpha=0.1)
    return y"""
_UNROUNDED = "return L * (4 * (17 * b * s * d + 8 * b * s + 4 * b * s) + 6 * b * s * d) + 4 * b * s * d"
_PIECES = """    def piece(x, targets):
        return nn.functional.cross_entropy(x @ weight.T, targets{how})

    pieces = list(zip(x.chunk(16), targets.chunk(16), strict=True))
    return sum({run} for rows in pieces) / {n}
"""

WRONG = {
    "0.3": _answers("a", "c", "d", "e", "f"),
    "0b.1": _answers(["first"], ["losses"], ["first", "losses", "few"]),
    "0b.2": [
        Wrong("means that are detached", "model(x).mean()", "model(x).mean().detach()"),
        Wrong(
            "no graph, and a name for each output",
            "    for x in batches:\n        total = total + model(x).mean()",
            _NAMED_OUTPUTS,
        ),
    ],
    "0b.4": _answers("expandable_segments:True", "max_split_size_mb:64"),
    "1.4": [
        Wrong("losses that are detached", "losses.append(loss)", "losses.append(loss.detach())"),
        Wrong(
            "numbers, and no graph retained; the same layers frozen",
            "loss.backward(retain_graph=True)\n        optimizer.step()\n        optimizer.zero_grad()\n        "
            "losses.append(loss)",
            "loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n        "
            "losses.append(float(loss.detach()))",
        ),
    ],
    "1.5": _answers(64, 199, 256),
    "1.6": [
        Wrong(
            "on which side of 0, and 0 on one of them",
            f"{_AUTOGRAD}        return x.abs()",
            "        ctx.save_for_backward((x > 0) * 2 - 1)\n        return x.abs()",
        ),
        Wrong("the sign, in the type that it has", "ctx.save_for_backward(x)", "ctx.save_for_backward(x.sign())"),
    ],
    "2.5": [
        Wrong(
            "a mask of bools, and all else as it is",
            "torch.rand_like(g, dtype=torch.float32) >= 0.1).float()",
            "torch.rand_like(g) >= 0.1)",
        ),
        Wrong("the mean alone logged, with its graph", "log.append(h.detach())", "log.append(h.mean())"),
    ],
    "3.2": _answers(["exp(x)", "x^3"], ["exp(x)", "x^2"], ["exp(x)", "x^3", "x |x|", "sin(x)"]),
    "3.4": [
        Wrong(
            "the slope kept in forward",
            "ctx.save_for_backward(x)\n        return torch.asinh(x)",
            "ctx.save_for_backward(torch.rsqrt(x * x + 1))\n        return torch.asinh(x)",
        )
    ],
    "3.5": [
        Wrong(
            "the output alone",
            "ctx.save_for_backward(x)\n        return x * x",
            "y = x * x\n        ctx.save_for_backward(y.sqrt())\n        return y",
        )
    ],
    "3.6": [Wrong("the same, not in place", "0.1, inplace=True", "0.1")],
    "4.3": [
        Wrong(words, _T4, repr(_FITS_T4 | change))
        for words, change in (
            ("fused attention, and nothing else", {"b": 12, "keeps_logits": True, "set_to_none": False}),
            ("all three changes, 8 sequences", {"b": 8}),
            ("6 sequences, and a name for the logits", {"keeps_logits": True}),
            ("all three changes, 5 sequences", {"b": 5}),
        )
    ],
    "4.4": _answers(
        ("flash attention", "flash attention"), ("pure bfloat16", "pure bfloat16"), ("logits let go", "SGD")
    ),
    "4.5": _answers((12, 1024, 768), (50304, 768)),
    "5.2": [
        Wrong("flash attention, its packet", "    return None", _POLICY.format(kernel=_FLASH)),
        Wrong("flash attention, its overload", "    return None", _POLICY.format(kernel=f"{_FLASH}.default")),
    ],
    "5.3": _answers([_ATTENTION, _QKV], [_QKV, _OUT], [_ATTENTION, _QKV, _OUT]),
    "5.4": [
        Wrong(
            "the mean moved outside, the factor drawn within",
            "    return checkpoint(lambda x, weight: exercises.moody_layer(x, weight, mean), x, weight)",
            _DRAWN_WITHIN,
        )
    ],
    "5.5": [
        Wrong(
            "pieces that are no checkpoints",
            "    return None",
            _PIECES.format(how=', reduction="sum"', run="piece(*rows)", n="len(targets)"),
        ),
        Wrong(
            "the mean of the pieces' means",
            "    return None",
            _PIECES.format(how="", run="checkpoint(piece, *rows)", n="len(pieces)"),
        ),
    ],
    "5.6": [
        Wrong(
            "two micro-batches, no regions",
            'b=24, micro_batches=1, regions="none"',
            'b=12, micro_batches=2, regions="none"',
        ),
        Wrong("every block", 'micro_batches=1, regions="none"', 'micro_batches=1, regions="every block"'),
        Wrong(
            "two micro-batches, every block",
            'b=24, micro_batches=1, regions="none"',
            'b=12, micro_batches=2, regions="every block"',
        ),
        Wrong("four micro-batches", "b=24, micro_batches=1", "b=6, micro_batches=4"),
    ],
    "6.2": _answers([_FIRST, _SECOND], [_FIRST, _SECOND, _THIRD, "q, k and v"]),
    "6.4": [
        Wrong(
            "a copy into the gradient",
            "parameter.grad = parameter.grad.clamp(-1, 1)",
            "parameter.grad.copy_(parameter.grad.clamp(-1, 1))",
        )
    ],
    "6.6": [
        Wrong('`sequence="off", stage="3"`', 'stage="0"', 'stage="3"'),
        Wrong(
            "`t=8`, and nothing else",
            'b=1, t=4, n=2, sequence="off", stage="0"',
            'b=2, t=8, sequence="off", stage="none"',
        ),
    ],
    "7.1": [
        Wrong(
            f"{name} for {cause}", '{"A": None, "B": None, "C": None, "D": None}', repr(_RIGHT_CAUSES | {name: wrong})
        )
        for name, wrong, cause in (
            ("A", "fragmentation", "fragmentation"),
            ("B", "its own tensors", "its own tensors"),
            ("C", "its own tensors", "its own tensors"),
            ("D", "one request", "one request"),
        )
    ],
    "7.2": _answers(("float32", 0), ("float32, averages in bfloat16", 0)),
    "7.5": [
        Wrong("a checkpoint, and the loss in chunks", _GIVEN, '"loss": "chunks, fused",\n    "is_checkpointed": True'),
        Wrong(
            "the optimizer's state in the host's memory, and no more", '"offload": "nothing"', '"offload": "optimizer"'
        ),
    ],
    "7.4": _answers(("", 4), ("blocks.2.mlp.up", 0)),
    "8.3": [
        Wrong("`4 * L * 17 * b * s * d`", "return None", "return 4 * L * 17 * b * s * d"),
        Wrong("the formula without rounding", "return None", _UNROUNDED),
    ],
    "8.4": _answers(1803, 1000),
    "8.5": [Wrong("the model as it is", "changed = None", "changed = mine")],
}
"""By exercise."""

REACH = {"7.2": ("None", '("all in bfloat16", -1)'), "7.4": ("None", '("blocks.2.mlp.down", -1)')}
"""What has to stand in the cell before the judge looks at a number: where -1 is not enough."""
