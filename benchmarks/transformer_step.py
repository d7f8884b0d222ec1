"""Times a training step in GPT-2 small's shape, bare on meta and on the simulated GPU, and how it grows with layers.

    python benchmarks/transformer_step.py

Both run the same PyTorch program: 12 x 1024 tokens, width 768, 12 heads, vocabulary 50,304, bfloat16, forward, cross
entropy, backward and the foreach form of AdamW. Bare meta tensors take attention's mathematics, where the GPU takes
flash attention. Times are of this machine, medians of 5 steps after 2 that do not count.
"""

import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from every_byte.units import exact
from utils import Block, SimulatedGPU

BATCH, CONTEXT, WIDTH, HEADS, VOCABULARY = 12, 1024, 768, 12, 50_304
STEPS, WARM_UP = 5, 2


class Transformer(nn.Module):
    """Token and position embeddings, blocks, a norm and a head."""

    def __init__(self, n_layers: int, device):
        super().__init__()
        where = {"device": device, "dtype": torch.bfloat16}
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH, **where), nn.Embedding(CONTEXT, WIDTH, **where)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS, "gelu", **where) for _ in range(n_layers)))
        self.norm, self.head = nn.LayerNorm(WIDTH, **where), nn.Linear(WIDTH, VOCABULARY, bias=False, **where)

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.blocks(self.tokens(tokens) + self.positions(positions))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def seconds(n_layers: int, device) -> float:
    """The median time of a step."""
    model = Transformer(n_layers, device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.zeros(BATCH, CONTEXT, dtype=torch.int64, device=device)
    times = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        model(tokens, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP:])


def main() -> None:
    """Print both for each number of layers."""
    torch.set_num_threads(1)
    for n_layers in (12, 24, 48, 96):
        bare = seconds(n_layers, "meta")
        with SimulatedGPU("b200-180gb") as gpu:
            simulated = seconds(n_layers, gpu.device)
            peak = gpu.max_memory_allocated()
        print(
            f"{n_layers:3d} layers: bare {bare:.3f} s, simulated {simulated:.3f} s, {simulated / bare:.2f} x bare, "
            f"{1000 * simulated / n_layers:.1f} ms a layer, peak {exact(peak)}"
        )


if __name__ == "__main__":
    main()
