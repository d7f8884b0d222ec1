"""Evaluates a masked language model of BERT's shape: how many of the masked tokens does it find?"""

import torch
from torch import nn

WIDTH, LAYERS, LENGTH, VOCABULARY, BATCH, BATCHES = 768, 12, 512, 30522, 28, 60
MASK, IGNORED = 103, -100


class MaskedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.tokens(tokens) + self.positions.weight))


def batches():
    for _ in range(BATCHES):
        tokens = torch.randint(1000, VOCABULARY, (BATCH, LENGTH))
        is_masked = torch.rand(BATCH, LENGTH) < 0.15
        yield tokens.masked_fill(is_masked, MASK).cuda(), tokens.masked_fill(~is_masked, IGNORED).cuda()


with torch.device("cuda"):
    model = MaskedLM().eval()
outputs, labels = [], []

with torch.no_grad():
    for tokens, wanted in batches():
        outputs.append(model(tokens))
        labels.append(wanted)

found = torch.cat(outputs).argmax(dim=-1)
wanted = torch.cat(labels)
hits = (found == wanted).sum() / (wanted != IGNORED).sum()
print(f"masked tokens found: {hits.item():.1%}")
