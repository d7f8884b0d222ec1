"""Fine-tunes a wide text encoder of 1.3 billion parameters as a classifier, in float32."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, LENGTH, VOCABULARY, CLASSES = 2560, 16, 128, 30522, 5


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        return self.head(self.layers(x)[:, 0])


with torch.device("cuda"):
    model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

for _ in range(1000):
    texts = torch.randint(VOCABULARY, (4, LENGTH)).cuda()
    labels = torch.randint(CLASSES, (4,)).cuda()
    loss = F.cross_entropy(model(texts), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
