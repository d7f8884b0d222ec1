"""A small language model trained on the CPU, on real numbers: its loss beside the bytes that it keeps for backward."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from utils.contexts import SavedTensorContext
from utils.layers import Block, check_positive

SYMBOLS, LENGTH, BATCH, WIDTH, HEADS = 7, 12, 16, 64, 4


class SmallModel(nn.Module):
    """One `Block` between an embedding and a Linear, over sequences of LENGTH symbols.

    Shapes: symbols[b, s] -> x[b, s, d] -> logits[b, s, SYMBOLS]
    """

    def __init__(self, act_fn):
        super().__init__()
        self.symbol, self.place = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.block = Block(WIDTH, HEADS, act_fn)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        x = self.symbol(symbols) + self.place.weight
        return self.head(self.norm(self.block(x)))


@dataclass(frozen=True)
class SmallRun:
    """A training run: the loss of each step, and what one forward pass of the model keeps, on the CPU.

    Unit:   nats for each symbol; bytes.
    """

    losses: tuple[float, ...]
    kept_bytes: int

    @property
    def last_loss(self) -> float:
        """The mean of the last ten."""
        return sum(self.losses[-10:]) / len(self.losses[-10:])


def train_small(act_fn, *, steps: int = 200, seed: int = 0) -> SmallRun:
    """Train a `SmallModel` with Adam on sequences in which each symbol is the sum of the two before it, modulo SYMBOLS.

    `seed` fixes the first weights and all sequences, so that runs with different activations start alike. One thread
    computes: so small a model gains nothing from more, and sums keep their order on every machine.

    Raises: ValueError for steps that are no positive integer.
    """
    check_positive(steps=steps)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train(act_fn, steps, seed)
    finally:
        torch.set_num_threads(n_threads)


def _train(act_fn, steps: int, seed: int) -> SmallRun:
    torch.manual_seed(seed)
    model = SmallModel(act_fn)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        symbols = _sequences()
        with SavedTensorContext(model.parameters()) as saved:
            logits = model(symbols[:, :-1])
        loss = F.cross_entropy(logits[:, 1:].flatten(0, 1), symbols[:, 2:].flatten())
        optimizer.zero_grad()
        kept_bytes = saved.saved_tensor_mem
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return SmallRun(tuple(losses), kept_bytes)


def _sequences() -> torch.Tensor:
    columns = list(torch.randint(SYMBOLS, (2, BATCH)))
    while len(columns) <= LENGTH:
        columns.append((columns[-1] + columns[-2]) % SYMBOLS)
    return torch.stack(columns, dim=1)
