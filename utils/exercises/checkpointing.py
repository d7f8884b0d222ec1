"""The exercises of chapter 5: each answer is checked against runs on the simulated GPU or on small real tensors."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import product
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from every_byte.gpu.memory.specs import find_spec
from every_byte.units import exact
from utils.experiments.recomputation import equal

from .checkpoint_runs import (
    FEWEST_AT_ONCE,
    N_SEQUENCES,
    N_SMALL,
    SMALL_CARD,
    Layer,
    Loss,
    Trained,
    fit,
    freed_bytes,
    kept_by,
    large_loss,
    means_of_means,
    moody_layer,
    plain_loss,
    small_loss,
    train_moody,
)
from .judge import NO_ANSWER, Verdict, check_function, no_function, no_names, not_yet, raised, right
from .selective_runs import (
    ATTENTION_RUNS,
    BUDGET_BYTES,
    Asked,
    attention_kept,
    best,
    calls,
    greedy,
    kept,
    with_attention,
)

BLOCKS = (
    {"b": 12, "s": 1024, "d": 768, "a": 12},
    {"b": 1, "s": 5, "d": 16, "a": 2},
    {"b": 3, "s": 7, "d": 64, "a": 1},
)
SEEDS = range(6)
LARGEST_SHARE = 4
"""The peak of a loss in pieces may be at most one part in so many of the plain loss's."""
MOST_FLOPS = 0.03
"""How much the run of exercise 6 may compute again, as a share of the step."""
_WITH_FLOPS = ("none", "every block", "every k-th block", "attention only")

_OMISSIONS: dict[str, Callable[[int, int, int, int], int]] = {
    "A checkpoint keeps its input, so that isn't freed.": lambda b, s, d, a: -4 * b * s * d,
    "What stays is the residual stream. How many bytes does an element of it take under autocast?": lambda b, s, d, a: (
        -2 * b * s * d
    ),
    "Autocast keeps a copy of each weight that a product uses, and those are freed too.": lambda b, s, d, a: 24 * d * d,
    "The logsumexp is freed too.": lambda b, s, d, a: 4 * a * b * s,
    "Each norm keeps two numbers per position.": lambda b, s, d, a: 16 * b * s,
    "There are two norms.": lambda b, s, d, a: 8 * b * s,
    "Flash attention also keeps two scalars, of 16 and 8 bytes.": lambda b, s, d, a: 24,
}
"""What an answer to exercise 1 may leave out, and by how many bytes it is then too small."""
_INPUT, _STREAM, _COPIES, _LOGSUMEXP, _NORMS, _ONE_NORM, _SCALARS = _OMISSIONS
_OMITTED = (
    ("", _INPUT, _STREAM),
    ("", _COPIES),
    ("", _LOGSUMEXP),
    ("", _NORMS, _ONE_NORM),
    ("", _SCALARS),
)
"""At most one of each line; "" leaves nothing out."""


def freed(function: Callable[..., int | None]) -> Verdict:
    """Exercise 1: how much a checkpoint frees of a block under autocast with flash attention."""

    mistakes: dict[str, Callable[..., int]] = {
        _hint(some): partial(_freed_less, some) for some in product(*_OMITTED) if any(some)
    }
    mistakes |= {
        "The multiples of bsd are right, but the smaller terms are missing.": lambda b, s, d, a: 32 * b * s * d,
        "That is what stays, not what is freed.": lambda b, s, d, a: 4 * b * s * d,
        "That is a block in pure bfloat16; under autocast the norms read float32.": lambda b, s, d, a: (
            30 * b * s * d + 16 * b * s + 4 * a * b * s + 24
        ),
    }
    return check_function(function, freed_bytes, BLOCKS, mistakes)


def _freed_less(omitted: Iterable[str], b: int, s: int, d: int, a: int) -> int:
    """The right answer to exercise 1, less what is left out."""
    true = 32 * b * s * d + 16 * b * s + 4 * a * b * s + 24 + 24 * d * d
    return true - sum(_OMISSIONS[hint](b, s, d, a) for hint in omitted if hint)


def _hint(omitted: Iterable[str]) -> str:
    """The reply to an answer that leaves these out."""
    hints = [hint for hint in omitted if hint]
    return " ".join([f"{len(hints)} things are off.", *hints] if len(hints) > 1 else hints)


def keeps_attention(policy: Callable[..., CheckpointPolicy | None]) -> Verdict:
    """Exercise 2: a policy that keeps attention and nothing else, whichever kernel runs it."""
    if (wrong := no_function(policy)) is not None:
        return wrong
    runs = []
    for gpu_name, dtype in ATTENTION_RUNS:
        asked = Asked(policy)
        try:
            runs.append(with_attention(gpu_name, dtype, asked.contexts))
        except Exception as error:
            return NO_ANSWER if asked.gave_none else not_yet(raised(error, "your policy"))
        if runs[-1] != attention_kept(gpu_name, dtype):
            return not_yet(f"on {gpu_name} in {str(dtype).removeprefix('torch.')}, {asked.complaint(runs[-1])}")
    held = ", ".join(exact(run.held_bytes) for run in runs)
    return right(f"with each of the three kernels, attention's results are held and nothing else: {held}.")


def within_budget(answer: Collection[str] | None) -> Verdict:
    """Exercise 3: which of `calls` to keep in BUDGET_BYTES, so that the fewest FLOPs run again."""
    if (wrong := no_names(answer, calls())) is not None:
        return wrong
    names = frozenset(answer or ())
    chosen, least = kept(names), kept(best()).flops
    if (over := chosen.held_bytes - BUDGET_BYTES) > 0:
        return not_yet(f"these calls hold {exact(chosen.held_bytes)}, which is {exact(over)} over the budget.")
    if chosen.flops > least:
        more = f"{chosen.flops / least - 1:.1%} more than necessary"
        hint = " You took the most FLOPs per byte first. How much room does that leave?" if names == greedy() else ""
        return not_yet(f"they fit, but {chosen.flops:,d} FLOPs run again, {more}.{hint}")
    by_price = kept(greedy()).flops
    return right(f"only {least:,d} FLOPs run again. Taking the most FLOPs per byte first would leave {by_price:,d}.")


def fixed(function: Layer) -> Verdict:
    """Exercise 4: `moody_layer` as a checkpoint with the same effects as the layer itself."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        for seed in SEEDS:
            trained, true = train_moody(function, seed), train_moody(moody_layer, seed)
            if trained is None or true is None:
                return NO_ANSWER
            if complaint := _differs(trained, true):
                return not_yet(complaint)
        kept_bytes = kept_by(function)
    except Exception as error:
        return not_yet(raised(error))
    plain_bytes = kept_by(moody_layer)
    if kept_bytes > plain_bytes // 4:
        besides = f"{exact(kept_bytes)} are kept besides x and weight. Without a checkpoint it's {exact(plain_bytes)}"
        return not_yet(f"every value is right, but {besides}.")
    return right(f"outputs, gradients and effects match the layer's bit for bit, with {len(SEEDS)} seeds.")


def _differs(found: Trained, true: Trained) -> str:
    if found.output.shape != true.output.shape or not torch.equal(found.output, true.output):
        return "the output differs from the layer's. Do you draw the factor the way the layer does?"
    if found.draws[0] != true.draws[0]:
        return "forward must draw one random number, as the layer does."
    if found.mean_after_forward != true.mean_after_forward:
        means = f"{found.mean_after_forward:.4f}, and with the layer itself {true.mean_after_forward:.4f}"
        return f"after forward the running mean is {means}."
    if found.mean_after_backward != true.mean_after_backward:
        return "backward updates the running mean a second time."
    for name, gradient in found.gradients.items():
        if gradient is None:
            return f"{name} gets no gradient."
        if not equal([gradient], [true.gradients[name]]):
            return f"the gradient of {name} is wrong. What does your function draw when it runs again?"
    if found.draws[1] != true.draws[1]:
        return "the gradients are right, but backward draws a random number, which changes every later draw."
    return ""


def loss_in_pieces(function: Loss) -> Verdict:
    """Exercise 5: the head and the loss of a GPT, without ever holding all logits at once."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        small = small_loss(function)
        if small is None:
            return NO_ANSWER
        value, *gradients = small
        complaint = _wrong_loss(value, gradients) or _too_high(function)
    except Exception as error:
        complaint = raised(error)
    if complaint:
        return not_yet(complaint)
    peaks = (exact(large_loss(loss).peak_bytes) for loss in (function, plain_loss))
    return right("the peak is {} instead of {}, gradients included.".format(*peaks))


def _wrong_loss(value: torch.Tensor, gradients: Iterable[torch.Tensor | None]) -> str:
    plain = small_loss(plain_loss)
    assert plain is not None
    true, *true_gradients = plain
    if not torch.allclose(value, true):
        if any(torch.allclose(value, other) for other in means_of_means()):
            return f"{N_SMALL} positions don't divide into equal pieces, so a mean of means overweights a short piece."
        return f"for {N_SMALL} positions the loss should be {true:.4f}: got {float(value):.4f}."
    for name, gradient, true_gradient in zip(("x", "weight"), gradients, true_gradients, strict=True):
        if gradient is None:
            return f"the value is right, but {name} gets no gradient."
        if true_gradient is None or not torch.allclose(gradient, true_gradient):
            return f"the value is right, but the gradient of {name} isn't."
    return ""


def _too_high(function: Loss) -> str:
    step, whole = large_loss(function), large_loss(plain_loss)
    limit_bytes = whole.peak_bytes // LARGEST_SHARE
    if step.peak_bytes <= limit_bytes:
        return ""
    reply = f"the loss is right, but its peak of {exact(step.peak_bytes)} is above the limit, {exact(limit_bytes)}."
    if step.held_bytes > whole.held_bytes // 2:
        return f"{reply} All logits are held when backward begins. Which of your pieces are checkpoints?"
    return f"{reply} Little is held when backward begins. How much is there once a piece has run again?"


def fits(settings: Mapping[str, Any] | None) -> Verdict:
    """Exercise 6: GPT-2 small with explicit attention on SMALL_CARD, N_SEQUENCES a step, for few FLOPs more."""
    if settings is None:
        return NO_ANSWER
    if complaint := _wrong_settings(settings):
        return not_yet(complaint)
    try:
        run = fit(**settings)
    except (TypeError, ValueError) as error:
        return not_yet(raised(error, "the run"))
    room_bytes = find_spec(SMALL_CARD).allocator_bytes
    peak = f"its peak is {exact(run.peak_bytes)}"
    if not run.fits:
        over = run.peak_bytes - room_bytes
        why = f"which is {exact(over)} more than" if over > 0 else "and with what its segments waste that is more than"
        return not_yet(f"torch.OutOfMemoryError: {peak}, {why} the {exact(room_bytes)} of {SMALL_CARD}.")
    if run.more_flops > MOST_FLOPS:
        return not_yet(
            f"it fits, {peak}, but it computes {run.more_flops:.1%} more FLOPs, and at most {MOST_FLOPS:.0%} is "
            "allowed. What has the most bytes for its FLOPs?"
        )
    return right(f"{peak}, for {run.more_flops:.1%} more FLOPs.")


def _wrong_settings(settings: object) -> str:
    if not isinstance(settings, Mapping):
        return f"your answer must be a dict of settings: got {settings!r}."
    if missing := {"b", "micro_batches", "regions"} - settings.keys():
        return f"your answer must also have {', '.join(sorted(missing))}: got {settings!r}."
    b, micro_batches, regions = (settings[name] for name in ("b", "micro_batches", "regions"))
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in (b, micro_batches)):
        return f"b and micro_batches must be integers: got {b!r} and {micro_batches!r}."
    if b * micro_batches != N_SEQUENCES:
        return f"b * micro_batches must be {N_SEQUENCES}: got {b * micro_batches}."
    if b < FEWEST_AT_ONCE:
        return f"b must be at least {FEWEST_AT_ONCE}: got {b}; fewer leave the card idle."
    if regions not in _WITH_FLOPS:
        return f"regions must be one of {'; '.join(_WITH_FLOPS)}: got {regions!r}."
    return ""
