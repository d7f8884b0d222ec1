"""The model that the book accounts for byte by byte: a GPT in nanoGPT's shape."""

import math
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.types import Device

from every_byte.remedies.losses import Loss
from utils.layers import ActFn, Block, Run, check_positive

VOCABULARY_SIZE, CONTEXT_LENGTH = 50304, 1024  # of all four; GPT-2's 50,257 tokens, filled up to a multiple of 64
SIZES = {
    "gpt2": {"n_layers": 12, "d_model": 768, "n_heads": 12},
    "gpt2-medium": {"n_layers": 24, "d_model": 1024, "n_heads": 16},
    "gpt2-large": {"n_layers": 36, "d_model": 1280, "n_heads": 20},
    "gpt2-xl": {"n_layers": 48, "d_model": 1600, "n_heads": 25},
}
"""The four models of Radford et al. 2019, table 2, under the names that they are published with."""

_STANDARD_DEVIATION = 0.02  # of the weights of a fresh model
_NO_TARGET = -1  # a target that does not count in the loss


def letters(name: str) -> dict[str, int]:
    """The letters s, d, a, L and V of one of the four sizes, as formulas take them; s is its context length.

    Raises: ValueError for an unknown name.
    """
    _check_name(name)
    named = SIZES[name]
    return {
        "s": CONTEXT_LENGTH,
        "d": named["d_model"],
        "a": named["n_heads"],
        "L": named["n_layers"],
        "V": VOCABULARY_SIZE,
    }


def _check_name(name: str) -> None:
    if name not in SIZES:
        raise ValueError(f"name must be one of {', '.join(SIZES)}: got name={name!r}.")


def _plainly(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = block(x)
    return y


class GPT(nn.Module):
    """GPT-2's shape: `tokens` and `positions` (Embeddings), `dropout`, `blocks`, `norm`, and a `head` tied to `tokens`.

    The defaults are nanoGPT's: GPT-2 small without biases. `kind`,
    `act_fn`, `bias` and `dropout_prob` are those of `Block`. Called with targets, it returns all logits and the mean
    cross entropy, in which targets of -1 do not count, both in the type of the logits; or what `loss`, one of
    every_byte.remedies.losses, makes of the last norm's output, the head and the targets. Without, it returns the
    logits of the last position and None. A block runs by `run(block, x)`: `library_checkpoint` of utils.models.regions
    has it keep its input alone.

    Shapes: tokens[b, s], targets[b, s] -> x[b, s, d] (embeddings, each block) -> logits[b, s, V], loss[]
    Raises: ValueError for sizes that are no positive integers, as `Block` does, and for tokens that are not [b, s] or
            longer than context_length.
    Source: Radford et al. 2019, section 2.3; `GPT` of nanoGPT's model.py.
    Example: logits, loss = GPT(n_layers=2, device=gpu.device)(tokens, targets)
    """

    def __init__(
        self,
        vocabulary_size: int = VOCABULARY_SIZE,
        context_length: int = CONTEXT_LENGTH,
        d_model: int = 768,
        n_layers: int = 12,
        n_heads: int = 12,
        dropout_prob: float | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
        act_fn: ActFn = "gelu",
        bias: bool = False,
        loss: Loss | None = None,
        run: Run = _plainly,
    ) -> None:
        super().__init__()
        sizes = {"vocabulary_size": vocabulary_size, "context_length": context_length}
        check_positive(**sizes, d_model=d_model, n_layers=n_layers)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        of_block = {**factory, "kind": kind, "context_length": context_length, "bias": bias}
        self.context_length, self.loss, self.run = context_length, loss, run
        self.tokens = nn.Embedding(vocabulary_size, d_model, **factory)
        self.positions = nn.Embedding(context_length, d_model, **factory)
        self.dropout = nn.Dropout(dropout_prob or 0.0)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, act_fn, dropout_prob, **of_block) for _ in range(n_layers))
        self.norm = nn.LayerNorm(d_model, bias=bias, **factory)
        self.head = TiedLinear(self.tokens.weight)
        self._initialise()

    @classmethod
    def from_name(cls, name: str, **changes: Any) -> "GPT":
        """One of the four published sizes by its name, "gpt2" to "gpt2-xl", with nanoGPT's other settings.

        `changes` are settings of `GPT` that take the place of these: `from_name("gpt2", n_layers=2)`. OpenAI's own
        weights are of the shape `from_name(name, vocabulary_size=50257, bias=True)`.

        Raises: ValueError for an unknown name, and as `GPT` does; TypeError for a setting that there is not.
        """
        _check_name(name)
        return cls(**SIZES[name] | changes)

    def _initialise(self) -> None:
        """As nanoGPT does: what a block adds to the residual stream is smaller, the more blocks there are."""
        for name, parameter in self.named_parameters():
            is_added = name.endswith((".attention.out.weight", ".mlp.down.weight"))
            if parameter.dim() > 1:
                less = math.sqrt(2 * len(self.blocks)) if is_added else 1.0
                nn.init.normal_(parameter, std=_STANDARD_DEVIATION / less)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> tuple[torch.Tensor | None, ...]:
        self._check(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = self.run(block, x)
        if targets is None:
            return self.head(self.norm(x)[:, [-1], :]), None
        if self.loss is not None:
            return self.loss(self.norm(x), self.head, targets)
        logits = self.head(self.norm(x))  # unlike that of `half_logits`, the head's input has no name
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=_NO_TARGET)

    def _check(self, tokens: torch.Tensor) -> None:
        if tokens.dim() != 2:
            raise ValueError(f"tokens must be tokens[b, s]: got {tokens.dim()} dimensions, {tuple(tokens.shape)}.")
        if tokens.shape[1] > self.context_length:
            raise ValueError(
                f"tokens may have context_length={self.context_length} positions at most: got {tokens.shape[1]}."
            )


Model = TypeVar("Model", Block, GPT)
"""A model of this book that can be divided, or run in regions."""


def blocks_of(model: GPT) -> list[Block]:
    """A model's blocks; `model.blocks` may be regions of them (utils.models.regions)."""
    blocks = model._modules["blocks"]
    assert isinstance(blocks, nn.ModuleList)
    return [block for block in blocks if isinstance(block, Block)]


class TiedLinear(nn.Linear):
    """A Linear without a bias over a weight that is there already: none is made to be thrown away."""

    def __init__(self, weight: torch.Tensor) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = weight
        self.register_parameter("bias", None)
