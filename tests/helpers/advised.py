"""Models whose advice is recorded over PyTorch's CUDA build: transformers' Llama, a convolutional net, an encoder."""

import torch.nn.functional as F
from torch import nn

from every_byte.account import hugging_face, numbers, tokens
from every_byte.account.of_model import Account, account


class Encoder(nn.Module):
    """A language model of PyTorch's own layers, whose head has a bias."""

    def __init__(self, V: int, d: int, L: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, d)
        layer = nn.TransformerEncoderLayer(d, 4, 4 * d, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, L)
        self.head = nn.Linear(d, V)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)))


class Residual(nn.Module):
    """Two convolutions and what goes around them."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(d, d, 3, padding=1, bias=False), nn.BatchNorm2d(d), nn.ReLU(),
            nn.Conv2d(d, d, 3, padding=1, bias=False), nn.BatchNorm2d(d),
        )  # fmt: skip

    def forward(self, x):
        return F.relu(x + self.convolutions(x))


class ImageNet(nn.Sequential):
    """A convolutional net of two stages of L blocks; it returns its loss."""

    def __init__(self, d: int, L: int) -> None:
        stages = [nn.Sequential(*(Residual(width) for _ in range(L))) for width in (d, 2 * d)]
        down = nn.Conv2d(d, 2 * d, 2, stride=2)
        ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * d, 100)
        super().__init__(nn.Conv2d(3, d, 4, stride=4), stages[0], down, stages[1], *ends)

    def forward(self, images, classes):
        return F.cross_entropy(super().forward(images), classes)


def of_next_tokens(output, batch):
    """The loss of each token after the first."""
    return F.cross_entropy(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def llama(gpu: str) -> Account:
    """A small Llama, its loss its own."""
    words = tokens("b", "s", below=3000)
    model = hugging_face(
        "LlamaForCausalLM", vocab_size=3000, hidden_size=128, intermediate_size=352, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    return account(model, {"input_ids": words, "labels": words}, gpu=gpu, b=8, s=120)


def encoder(gpu: str) -> Account:
    """Six encoder layers with dropout."""
    words = tokens("b", "s", below="V")
    return account(Encoder, (words,), loss=of_next_tokens, gpu=gpu, V=5003, d=128, L=6, b=12, s=100)


def images(gpu: str) -> Account:
    """Residual blocks with batch norm."""
    batch = numbers("b", 3, 64, 64), tokens("b", below=100)
    return account(ImageNet, batch, gpu=gpu, d=32, L=3, b=16)


MODELS = {"llama": llama, "encoder": encoder, "images": images}
"""By name; the Llama needs transformers."""
READS = {"llama": ["1 01"]}
"""What a model reads of the card, time and again: without a cache, transformers asks whether positions go up by one."""
BUDGETS = {"llama": "48MiB", "encoder": "64MiB", "images": "32MiB"}
"""So small that several remedies are needed together."""
