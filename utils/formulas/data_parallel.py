"""The closed form of data parallel: what one of n ranks holds of a GPT's parameters, gradients and optimizer state."""

from dataclasses import replace

from every_byte.formula.formula import Formula, Selector, Term

from .estimates import parameter_count
from .gpt import held_after_forward, held_in_loss
from .settings import STATES, STEP_BYTES, GPTSettings

STAGES = (0, 1, 2, 3)
"""ZeRO's: nothing is divided, the optimizer's state is, gradients are too, parameters are too."""

MOMENTS = ("first block", "last block", "head", "after forward", "in the loss", "first backward", "between steps")
"""When `gathered` says what FSDP2 has gathered."""

# Rows, which are divided, what is in one, and which of both t ranks of tensor parallel divide before: of tokens,
# positions and the last norm; of a block's two norms, qkv, out, up and down; and of the biases of either.
_ROOT = (("V", "d", "rows"), ("s", "d", ""), ("d", "1", ""))
_BLOCK = (("d", "2", ""), ("3*d", "d", "rows"), ("d", "d", "width"), ("4*d", "d", "rows"), ("d", "4*d", "width"))
_BIASES = {_ROOT: (("d", "1", ""),), _BLOCK: (("d", "4", ""), ("3*d", "1", "rows"), ("4*d", "1", "rows"))}


def rank_states(
    settings: GPTSettings, stage: int, *, gradient_as_bucket_view: bool = False, split: bool = False
) -> Formula:
    """What a rank keeps from the end of backward to the optimizer's step, by ZeRO's stages.

    Stage 0 is `replicated`; stage 1 the same with `states_sharded`, whose state is that of the P parameters, in T
    tensors, of `rank_parameters`; stage 3 is `fully_sharded`. Of stage 2 alone PyTorch has no engine: FSDP2 with
    `reshard_after_forward=False` shares the parameters, too, whenever no forward or backward is under way. With `split`
    the model is one of t ranks' in `tensor_parallel`: what they divide is divided before.

    Counts: a share is that of rank 0: the rows of each tensor over n, rounded up. Where n does not divide them, the
            last ranks' optimizer state is smaller; their parameters and gradients are padded. Not what is gathered.
    Unit:   bytes, requested.
    Raises: ValueError for another stage, and for bucket views where there are no buckets.
    Source: Rajbhandari et al. 2020, section 5; held to PyTorch's engines by tests/formulas/test_data_parallel.py.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(map(str, STAGES))}, ZeRO's: got stage={stage!r}.")
    if gradient_as_bucket_view and stage > 1:
        raise ValueError(f"buckets are those of DDP, stages 0 and 1: got gradient_as_bucket_view=True, stage={stage}.")
    e, whole, own = settings.weight_bytes, _whole(settings, split), _share_of_all(settings, split)
    tensors = "12*L + 4" if settings.bias else "6*L + 3"
    stated, tensors = {0: (whole, tensors), 1: ("P", "T")}.get(stage, (own, tensors))
    fused = f" + {STEP_BYTES}*({tensors})" if settings.optimizer.endswith("fused") else ""
    gradients, n_states = (own if stage > 1 else whole), STATES[settings.optimizer]
    rows = [
        ("parameters", own if stage == 3 else whole, e, "1/n of each" if stage == 3 else "the model"),
        *([] if gradient_as_bucket_view else [("gradients", gradients, e, "summed over the ranks")]),
        *([("gradient buckets", whole, e, "what ranks exchange")] if stage < 2 else []),
        *(
            [("optimizer state", f"{n_states * e}*({stated}){fused}", 1, "of what the rank updates")]
            if n_states
            else []
        ),
    ]
    return Formula(f"GPT on n ranks, ZeRO stage {stage}", tuple(_term(*row) for row in rows))


def gathered(
    settings: GPTSettings, moment: str, *, reshard_after_forward: bool | None = None, split: bool = False
) -> Formula:
    """What FSDP2 has gathered at a moment, in parameters and in the buffers that they arrive in; two or more blocks.

    A buffer stays until the next block's parameters are copied out of theirs. With R for what lies outside the blocks
    and B for a block, the first block finds 2R and takes 2B; the last finds R, the buffer before it, and takes 2B.
    `split` as in `rank_states`.

    Counts: whole tensors, each share padded: up to n times `rank_states`'. "first backward" is the last block's.
    Unit:   bytes, requested.
    Raises: ValueError for another moment.
    Source: `foreach_all_gather` of torch.distributed.fsdp; held to it by tests/formulas/test_data_parallel.py.
    """
    if moment not in MOMENTS:
        raise ValueError(f"moment must be one of {', '.join(MOMENTS)}: got moment={moment!r}.")
    stays = reshard_after_forward is False
    roots, blocks = {
        "first block": ("2", "2"),
        "last block": ("1", "L + 2" if stays else "3"),
        "head": ("1", "L + 1" if stays else "1"),
        "after forward": ("0" if reshard_after_forward else "1", "L" if stays else "0"),
        "in the loss": ("1", "L" if stays else "1"),
        "first backward": ("1", "L" if stays else "2"),
        "between steps": ("0", "0"),
    }[moment]
    counts = {_ROOT: roots, _BLOCK: blocks}
    shares = [_times(n, _share(parts, settings, split)) for parts, n in counts.items() if n != "0"]
    size = f"n*({' + '.join(shares)})" if shares else "0"
    term = _term("gathered parameters", size, settings.weight_bytes, f"for {moment}")
    return Formula(f"FSDP2, {moment}", (term,))


def gathered_at_peak(
    settings: GPTSettings, *, reshard_after_forward: bool | None = None, **letters: int
) -> tuple[str, int]:
    """The moment at which the most is gathered, and how many bytes that is.

    Unit:   bytes, requested.
    Raises: ValueError, as `Formula.bytes`.
    """
    found = {
        moment: gathered(settings, moment, reshard_after_forward=reshard_after_forward).bytes(**letters)
        for moment in MOMENTS
    }
    return max(found.items(), key=lambda item: item[1])


def held_on_rank(
    settings: GPTSettings,
    stage: int,
    moment: str = "in the loss",
    *,
    reshard_after_forward: bool | None = None,
    gradient_as_bucket_view: bool = False,
) -> Formula:
    """What a rank's GPU holds after forward or, where most models' step has its peak, in the loss: every byte.

    Counts: as `held_after_forward`, on one rank's batch: activations are not divided. Stages 0, 1 and 3, as
            `rank_states` has them; gradients of before only where the settings hold them, buckets always.
    Unit:   bytes, requested.
    Raises: ValueError as `rank_states`, and for stage 2 or another moment.
    Source: held to PyTorch's engines, row by row, by tests/formulas/test_data_parallel.py.
    """
    whole = {"after forward": held_after_forward, "in the loss": held_in_loss}
    if stage == 2:
        raise ValueError("stage must have an engine, 0, 1 or 3: got stage=2; FSDP2 shares the parameters, too.")
    if moment not in whole:
        raise ValueError(f"moment must be one of {', '.join(whole)}: got moment={moment!r}.")
    states = rank_states(settings, stage, gradient_as_bucket_view=gradient_as_bucket_view).terms
    own = {term.name: term for term in states if settings.holds_gradients or term.name != "gradients"}
    rest = [term for term in whole[moment](settings).terms if term.name not in _STATES]
    if stage == 3:
        rest += gathered(settings, moment, reshard_after_forward=reshard_after_forward).terms
    else:
        rest = [replace(term, selectors=tuple(map(_inside_ddp, term.selectors))) for term in rest]
    return Formula(f"GPT on n ranks, ZeRO stage {stage}, {moment}", (*own.values(), *rest))


_STATES = ("parameters", "gradients", "optimizer state")


def _times(n: str, size: str) -> str:
    return size if n == "1" else f"({n})*({size})"


def _share(parts: tuple[tuple[str, str, str], ...], settings: GPTSettings, split: bool) -> str:
    """1/n of the rows of each tensor, rounded up, times what is in a row."""
    parts += _BIASES[parts] if settings.bias else ()
    shares = []
    for rows, width, cut in parts:
        share = f"up({rows}/(n*t), 1)" if split and cut == "rows" else f"up({rows}/n, 1)"
        share += f"*{width}" if width != "1" else ""
        shares.append(share + ("/t" if split and cut == "width" else ""))
    return " + ".join(shares)


def _share_of_all(settings: GPTSettings, split: bool) -> str:
    return f"{_share(_ROOT, settings, split)} + L*({_share(_BLOCK, settings, split)})"


def _whole(settings: GPTSettings, split: bool) -> str:
    """The number of parameters of a model that is not sharded, or of its part on one of t ranks."""
    if not split:
        return parameter_count(bias=settings.bias).text
    biases = " + 7*L*d/t + 4*L*d + d" if settings.bias else ""
    return f"12*L*d**2/t + 2*L*d + V*d/t + s*d + d{biases}"


def _inside_ddp(selector: Selector) -> Selector:
    """DDP is a module around the model, which it calls `module`."""
    if selector.module == "*":
        return selector
    return replace(selector, module=f"module.{selector.module}".rstrip("."))


def _term(name: str, elements: str, each: int | str, why: str) -> Term:
    return Term(name, elements, each, (Selector("*", name, "*"),), why)
