"""Pre-trains a GPT of 1.3 billion parameters in short jobs, each of which goes on where the last one stopped."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

LAST = Path(tempfile.mkdtemp()) / "last.pt"
WIDTH, LAYERS, LENGTH, VOCABULARY = 1536, 40, 1024, 50304


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=x.device)
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(self.norm(x))


def job(steps):
    with torch.device("cuda"):
        model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    if LAST.exists():
        last = torch.load(LAST, map_location="cuda")
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (1, LENGTH + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, LAST)


job(steps=1)
job(steps=2)
