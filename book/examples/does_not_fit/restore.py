"""Trains a transformer to remove noise from pictures, and watches their structural similarity (SSIM)."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, PATCH, WIDTH, LAYERS = 128, 256, 16, 512, 8


class Restorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Linear(3 * PATCH**2, WIDTH)
        self.positions = nn.Embedding((SIZE // PATCH) ** 2, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.pixels = nn.Linear(WIDTH, 3 * PATCH**2)

    def forward(self, pictures):
        x = F.unfold(pictures, PATCH, stride=PATCH).transpose(1, 2)
        x = self.pixels(self.layers(self.patches(x) + self.positions.weight))
        return pictures - F.fold(x.transpose(1, 2), SIZE, PATCH, stride=PATCH)


def similarity(a, b, window=11, c1=0.01**2, c2=0.03**2):
    """The mean SSIM of two batches of pictures with values from 0 to 1."""
    mean_a, mean_b = (F.avg_pool2d(x, window, stride=1) for x in (a, b))
    aa, bb, ab = (F.avg_pool2d(x, window, stride=1) for x in (a * a, b * b, a * b))
    alike = (2 * mean_a * mean_b + c1) * (2 * (ab - mean_a * mean_b) + c2)
    return (alike / ((mean_a**2 + mean_b**2 + c1) * (aa - mean_a**2 + bb - mean_b**2 + c2))).mean()


model = Restorer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
sum_of_similarities = 0.0

for step in range(1, 1001):
    clean = torch.rand(BATCH, 3, SIZE, SIZE).cuda()
    restored = model(clean + 0.1 * torch.randn_like(clean))
    loss = F.l1_loss(restored, clean)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    sum_of_similarities += similarity(restored, clean)
    if step % 200 == 0:
        print(f"step {step}: SSIM {sum_of_similarities / 200:.3f}")
        sum_of_similarities = 0.0
