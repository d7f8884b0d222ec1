"""The moments of a decoder's training step at which its peak may be, by which event each begins, and the largest."""

from collections.abc import Mapping

from every_byte.formula.expressions import Expression

from .decoder_backward import (
    decoder_in_down,
    decoder_in_embedding,
    decoder_in_first_block,
    decoder_in_last_block,
    decoder_in_step,
    most_in_last_forward,
    sorted_size,
)
from .decoder_counts import in_step_size, one_step_size
from .decoder_forward import decoder_after_forward, decoder_in_head, decoder_in_loss, decoder_in_loss_backward
from .decoder_settings import FUSED, HALF, RECOMPUTED, DecoderSettings
from .decoder_standing import has_masters
from .families import family_of
from .moments import Beginning, Highest

MOMENTS = {
    "end of forward": decoder_after_forward,
    "forward of the loss": decoder_in_loss,
    "backward of the loss": decoder_in_loss_backward,
    "backward of the head": decoder_in_head,
    "last block's first gradient": decoder_in_down,
    "backward of the last block": decoder_in_last_block,
    "backward of the first block": decoder_in_first_block,
    "backward of the embedding": decoder_in_embedding,
    "optimizer's step": decoder_in_step,
}
"""The moments of a step, in their order; with a step in backward the last one is the head's, or the embedding's."""


def beginnings(settings: DecoderSettings, n_layers: int) -> dict[str, Beginning | Highest]:
    """For each of MOMENTS by which event of the step it begins."""
    in_mlps = [_in_mlp(settings, n) for n in (n_layers - 1, 0)]
    of_each = (
        Beginning("forward"),
        Highest("forward", "aten::logsumexp" if settings.loss == FUSED else "aten::nll_loss_forward"),
        _in_loss_backward(settings),
        _in_head(settings),
        _in_down(settings, n_layers - 1),
        *in_mlps,
        _in_embedding(settings),
        _in_step(settings),
    )
    return dict(zip(MOMENTS, of_each, strict=True))


def _in_loss_backward(settings: DecoderSettings) -> Beginning | Highest:
    if settings.loss == FUSED:
        return Beginning("forward", ("aten::mul.Tensor",))
    both_in_half = settings.loss == HALF and settings.is_autocast
    return Highest("backward", "aten::nll_loss_backward" if both_in_half else "aten::_log_softmax_backward_data")


def _in_head(settings: DecoderSettings) -> Highest:
    if settings.loss == FUSED:
        return Highest("backward", "aten::mul.Tensor", "Chunked*")
    if settings.loss == RECOMPUTED and not settings.is_adapted and settings.n_chunks > 1:
        return Highest("backward", "aten::add.Tensor", "TBackward*")
    return Highest("backward", "aten::mm", "MmBackward*", "" if settings.loss == RECOMPUTED else "head")


def _in_embedding(settings: DecoderSettings) -> Beginning | Highest:
    if settings.is_adapted:
        return Beginning("backward")
    return Highest(
        "backward", "aten::add.Tensor" if settings.adds_up_apart else "aten::embedding_dense_backward", module="tokens"
    )


def _in_mlp(settings: DecoderSettings, number: int) -> Highest:
    """In the MLP of the block of this number."""
    widest = family_of(settings).widest(settings)
    return Highest("backward", widest.operation, widest.node, f"blocks.{number}.{widest.module}")


def _in_down(settings: DecoderSettings, number: int) -> Highest:
    if settings.is_adapted or settings.is_autocast:
        return _in_mlp(settings, number)
    if settings.gradients_go and one_step_size(settings) != "0":
        return Highest("backward", node="*AccumulateGrad", n_bytes=_bytes_in_step(settings, "d*f"))
    return Highest("backward", "aten::mm", "MmBackward*", f"blocks.{number}.mlp.down")


def _in_step(settings: DecoderSettings) -> Beginning | Highest:
    if not settings.gradients_go:
        makes_none = in_step_size(settings) == "0" and not has_masters(settings)
        return Beginning("backward") if makes_none else Highest("optimizer")
    if settings.is_adapted or one_step_size(settings) == "0":
        return Beginning("backward")
    if settings.is_tied:
        return Highest("backward", node="*AccumulateGrad", behind="aten::embedding_dense_backward")
    in_head = _bytes_in_step(settings, "V*d")  # the 8-bit optimizer takes as much in a block, for its first part
    return Highest("backward", node="*AccumulateGrad", n_bytes=in_head, ahead_of="blocks.*")


def _bytes_in_step(settings: DecoderSettings, matrix: str) -> str:
    """Of what is allocated last where one step in backward takes most."""
    if settings.optimizer == "AdamW, 8-bit":
        return "U" if matrix == "V*d" else "u"
    return f"{settings.weight_bytes}*{matrix}"


def peak(settings: DecoderSettings, **letters: int) -> tuple[str, int]:
    """The largest of MOMENTS, its name and its bytes: the step's peak, where `why_no_peak` says nothing.

    Counts: of Adafactor's step not what its sums take, so that there it is a lower bound.
    Unit:   bytes, requested.
    Raises: ValueError, as `Formula.bytes`.
    Source: held to the simulated peak of the public sizes by tests/formulas/test_peaks.py.
    """
    found = _by_moment(settings, letters)
    return max(reversed(found.items()), key=lambda item: item[1])  # of equal ones the last: one may stand for another


def _by_moment(settings: DecoderSettings, letters: Mapping[str, int]) -> dict[str, int]:
    return {name: held(settings).bytes(**letters) for name, held in MOMENTS.items()}


def why_no_peak(settings: DecoderSettings, **letters: int) -> str:
    """Why `peak` may be too little here: a sentence, or "" where it is the peak."""
    if reason := why_no_form(settings):
        return reason
    if settings.takes_chunks and letters["b"] * letters["s"] < 2 * letters["c"]:
        return TOO_FEW_TOKENS
    found = _by_moment(settings, letters)
    if settings.adds_up_apart and settings.sorts:
        parts = Expression(f"{settings.weight_bytes}*b*s*d + {sorted_size(settings)}").value(letters)
        if found["backward of the embedding"] + parts > max(found.values()):
            return MANY_TOKENS
    if settings.is_adapted and settings.is_checkpointed:
        of_a_block = f"{settings.weight_bytes}*({family_of(settings).adapter_weights})"
        inputs = settings.keeps_on_gpu * settings.weight_bytes * letters["b"] * letters["s"] * letters["d"]
        more = (letters["L"] - 2) * (Expression(of_a_block).value(letters) - inputs)
        if more > 0 and found["backward of the last block"] + more > max(found.values()):
            return IN_SECOND
    if settings.is_autocast and settings.is_checkpointed:
        if most_in_last_forward(settings).bytes(**letters) > max(found.values()):
            return IN_FORWARD
    if settings.optimizer != "Adafactor":
        return ""
    sums_in = ["optimizer's step", *(["last block's first gradient"] if settings.gradients_go else [])]
    taken = max(found.pop(name) for name in sums_in)
    return SCRATCH if taken + family_of(settings).sums_bytes > max(found.values()) else ""


MANY_TOKENS = "the embedding's backward sorts its tokens, and may take more for that than for its gradients' sum."
IN_SECOND = (
    "the second block has more adapters' gradients behind it than the last one, and more of its own than the first."
)
IN_FORWARD = "autocast has copies of all weights in forward, where a block may take more than in backward."
TOO_FEW_TOKENS = "there are fewer than two whole chunks of rows."
SCRATCH = "Adafactor's sums take scratch whose size follows from the kernel's launch, not from a formula."


def why_no_form(settings: DecoderSettings) -> str:
    """The same for settings of which no form here speaks, whatever the sizes."""
    if settings.attention in ("math", "explicit"):
        return "attention is spelt out there, and what its backward takes has no moment here."
    if settings.is_autocast and settings.is_adapted:
        return "autocast makes copies of frozen weights again and again, of which no moment here speaks."
    if settings.is_autocast and not settings.keeps_on_gpu:
        return "autocast's copies go to the host as well, and of those that come back no moment here speaks."
    return ""
