"""What a training step with any remedy depends on beside its model's sizes, for the closed forms."""

from dataclasses import dataclass
from typing import ClassVar

from .settings import A100_WORKSPACE_BYTES, OPTIMIZERS, PRECISIONS, InPrecision

ATTENTIONS = ("flash", "efficient", "cudnn", "explicit", "math")
"""PyTorch's kernels; the book's own spelling of attention; and PyTorch's, where no kernel takes grouped queries."""

MASTERS = "float32 masters"
STEP_PRECISIONS = (*PRECISIONS, MASTERS)
STEP_OPTIMIZERS = (*OPTIMIZERS, "AdamW, 8-bit", "Adafactor")
WHOLE, HALF, RECOMPUTED, FUSED = LOSSES = (
    "all logits",
    "all logits, bfloat16",
    "chunks, recomputed",
    "chunks, fused",
)
OFFLOADS = ("nothing", "activations", "optimizer", "optimizer, gradients")


@dataclass(frozen=True, kw_only=True)
class DecoderSettings(InPrecision):
    """What a training step of a decoder with any remedy depends on beside its sizes; a subclass names the `family`.

    `precision` is that of weights and activations, "autocast": float32 weights under autocast to a half type, or
    "float32 masters": bfloat16, and the optimizer works on float32 copies. `attention` is what runs, one of ATTENTIONS.
    `is_tied`: the head's weight is the embedding's. `is_checkpointed`: each block runs through a checkpoint. `loss` is
    one of LOSSES, `n_chunks` how many chunks of rows it takes, 3 for more. `sorts`: there are more than 3,072 tokens,
    which the embedding's backward sorts; `repeats`: more than the vocabulary has words; `is_long`: a sequence has more
    than half as many. `steps_in_backward`, `is_adapted` (each Linear of a block has an adapter, and these alone are
    trained) and `offload`, one of OFFLOADS, are remedies. `holds_logits`, `holds_gradients` and `workspace_bytes` are
    those of `GPTSettings`; the step is not the first.

    Raises: ValueError for a name that is not known.
    """

    family: ClassVar[str]
    precision: str = "bfloat16"
    attention: str = "flash"
    is_tied: bool = False
    is_checkpointed: bool = False
    optimizer: str = "AdamW, fused"
    holds_logits: bool = False
    holds_gradients: bool = False
    workspace_bytes: int | str = A100_WORKSPACE_BYTES
    loss: str = WHOLE
    n_chunks: int = 3
    sorts: bool = False
    repeats: bool = False
    is_long: bool = False
    steps_in_backward: bool = False
    is_adapted: bool = False
    offload: str = "nothing"

    def __post_init__(self) -> None:
        known = {
            "precision": STEP_PRECISIONS, "attention": ATTENTIONS, "optimizer": STEP_OPTIMIZERS, "loss": LOSSES,
            "offload": OFFLOADS,
        }  # fmt: skip
        for name, options in known.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} must be one of {', '.join(options)}: got {name}={getattr(self, name)!r}.")

    @property
    def keeps_on_gpu(self) -> bool:
        """Whether what autograd keeps stays where it is."""
        return self.offload != "activations"

    @property
    def gradients_go(self) -> bool:
        """Whether each gradient goes as soon as it was used, in backward."""
        return self.steps_in_backward or self.offload == "optimizer, gradients"

    @property
    def has_others(self) -> bool:
        """Whether a fresh gradient is none of those that parameters have: these have older ones, or it leaves."""
        return self.holds_gradients or self.offload == "optimizer, gradients"

    @property
    def is_elsewhere(self) -> bool:
        """Whether what a block keeps lies on the host till its backward, and is not made anew there."""
        return not self.keeps_on_gpu and not self.is_checkpointed

    @property
    def takes_chunks(self) -> bool:
        """Whether the loss takes some rows after the others."""
        return self.loss in (RECOMPUTED, FUSED)

    @property
    def adds_up_apart(self) -> bool:
        """Whether a tied head's gradient and the embedding's make a third: the first is a product's transposed view."""
        return self.is_tied and not self.is_adapted and not self.is_autocast and not self.takes_chunks


@dataclass(frozen=True)
class Widest:
    """Where the backward of a block's MLP takes most: right behind an allocation of `operation` by `node` in `module`.

    Then there are `n_wide` gradients as wide as the MLP, or tensors of that width that are back from the host.
    `is_in_down`: it is where the MLP's last Linear has just got its weight's gradient, and keeps its input still.
    """

    operation: str
    node: str
    module: str
    n_wide: int
    is_in_down: bool = False
