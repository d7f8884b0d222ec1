"""Models of ten families and more, compiled as one module, at three training steps each."""

import torch
from marked_steps import noise, same, steps, tokens
from parts import GPT, MLP, Attention, Block, LlamaBlock, RMSNorm
from torch import nn
from torch.nn import functional as F


def mlp_gelu():
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    compiled = torch.compile(model)
    yield from steps(lambda x, y: F.mse_loss(compiled(x), y), model, same(noise(1024, 256), noise(1024, 256)))


def gpt_float32_dropout():
    model = GPT(p=0.1).cuda()
    yield from steps(torch.compile(model), model, same(tokens(4, 256), tokens(4, 256)))


def gpt_bf16():
    model = GPT().cuda()
    compiled = torch.compile(model)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return compiled(x, y)

    yield from steps(run, model, same(tokens(4, 384), tokens(4, 384)))


def gpt_bf16_clipped():
    model = GPT(p=0.2, layers=2).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1, fused=True)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return compiled(x, y)

    def step():
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    yield from steps(run, model, same(tokens(3, 512), tokens(3, 512)), optimizer, step=step)


class Returning(GPT):
    """Also gives its caller the logits, as nanoGPT's model does."""

    def forward(self, x, y):
        logits = self.head(self.through(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), y.flatten())


def gpt_logits_returned():
    model = Returning().cuda()
    compiled = torch.compile(model)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return compiled(x, y)[1]

    yield from steps(run, model, same(tokens(4, 384), tokens(4, 384)))


def gpt_explicit_attention():
    model = GPT(explicit=True, p=0.1, layers=2).cuda()
    yield from steps(torch.compile(model, fullgraph=True), model, same(tokens(2, 320), tokens(2, 320)))


def llama_bf16():
    model = GPT(block=LlamaBlock, heads=8, layers=3).cuda().bfloat16()
    yield from steps(torch.compile(model), model, same(tokens(3, 480), tokens(3, 480)))


def llama_float32():
    model = GPT(block=LlamaBlock, heads=4, layers=2, hidden=701).cuda()
    yield from steps(torch.compile(model), model, same(tokens(2, 333), tokens(2, 333)))


class ViT(nn.Module):
    def __init__(self, width=192, layers=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(Block(width, 3, causal=False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], dim=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit_fp16_scaled():
    model = ViT().cuda()
    compiled = torch.compile(model)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.float16):
            return F.cross_entropy(compiled(x), y)

    batch = same(noise(12, 3, 224, 224), tokens(12, n=100))
    yield from steps(run, model, batch, scaler=torch.amp.GradScaler("cuda"))


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one, self.two = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.short = (
            nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if a != b else nn.Identity()
        )

    def forward(self, x):
        y = F.relu(self.norm1(self.one(x)), inplace=True)
        return F.relu(self.norm2(self.two(y)) + self.short(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
        )
        self.body = nn.Sequential(Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2))
        self.head = nn.Linear(128, 50)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))


def resnet():
    model = ResNet().cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    batch = same(noise(16, 3, 96, 96), tokens(16, n=50))
    yield from steps(lambda x, y: F.cross_entropy(compiled(x), y), model, batch, optimizer)


def resnet_channels_last():
    model = ResNet().cuda().to(memory_format=torch.channels_last)
    compiled = torch.compile(model)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return F.cross_entropy(compiled(x), y)

    images = noise(16, 3, 96, 96).to(memory_format=torch.channels_last)
    yield from steps(run, model, same(images, tokens(16, n=50)))


class UNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.into = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 2 * c, 3, 2, 1))
        self.middle = nn.Sequential(nn.GroupNorm(8, 2 * c), nn.SiLU(), nn.Conv2d(2 * c, 2 * c, 3, 1, 1))
        self.up = nn.Conv2d(3 * c, c, 3, padding=1)
        self.out = nn.Conv2d(c, 3, 1)

    def forward(self, x):
        a = self.into(x)
        b = self.middle(self.down(a))
        up = F.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(F.silu(self.up(torch.cat([a, up], dim=1))))


def unet():
    model = UNet().cuda()
    compiled = torch.compile(model)
    batch = same(noise(4, 3, 64, 64), noise(4, 3, 64, 64))
    yield from steps(lambda x, y: F.mse_loss(compiled(x), y), model, batch)


class Bert(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        self.tokens, self.kinds = nn.Embedding(3000, width, padding_idx=0), nn.Embedding(2, width)
        self.blocks = nn.ModuleList(Block(width, 4, causal=False, p=0.1) for _ in range(layers))
        self.head = nn.Linear(width, 3000)

    def forward(self, x, kinds, mask):
        h = self.tokens(x) + self.kinds(kinds)
        for block in self.blocks:
            h = block(h, mask[:, None, None, :])
        return self.head(h)


def bert_padded():
    model = Bert().cuda()
    compiled = torch.compile(model)
    x, mask = tokens(6, 200, n=3000), torch.ones(6, 200, dtype=torch.bool, device="cuda")
    run = lambda x, y: F.cross_entropy(compiled(x, torch.zeros_like(x), mask).flatten(0, 1), y.flatten())  # noqa: E731
    yield from steps(run, model, same(x, x))


class Experts(nn.Module):
    def __init__(self, width=128, n=4):
        super().__init__()
        self.router = nn.Linear(width, n, bias=False)
        self.up = nn.Parameter(torch.randn(n, width, 2 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(n, 2 * width, width) * 0.02)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        mixed = torch.zeros_like(self.router(x)).scatter(-1, chosen, weights)
        hidden = F.silu(torch.einsum("bsc,ech->bseh", x, self.up))
        return torch.einsum("bseh,ehc,bse->bsc", hidden, self.down, mixed)


class MoEBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.experts = Attention(width, heads), Experts(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.experts(self.norm2(x))


def mixture_of_experts():
    model = GPT(width=128, layers=2, block=MoEBlock).cuda()
    yield from steps(torch.compile(model), model, same(tokens(2, 256), tokens(2, 256)))


class MixerBlock(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across, self.along = MLP(n, 2 * n), MLP(width, 4 * width)

    def forward(self, x):
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


def mixer():
    model = nn.Sequential(*(MixerBlock(160, 196) for _ in range(3)), nn.Linear(160, 10)).cuda()
    compiled = torch.compile(model)
    yield from steps(lambda x: compiled(x).mean(), model, same(noise(8, 196, 160)))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.out = nn.Sequential(nn.Linear(20, 400), nn.Tanh(), nn.Linear(400, 784))

    def forward(self, x):
        h = torch.relu(self.into(x))
        mean, log = self.mean(h), self.spread(h)
        back = self.out(mean + torch.randn_like(mean) * (log / 2).exp())
        kl = -0.5 * (1 + log - mean.pow(2) - log.exp()).sum()
        return F.binary_cross_entropy_with_logits(back, x.sigmoid(), reduction="sum") + kl


def vae():
    model = VAE().cuda()
    yield from steps(torch.compile(model), model, same(noise(500, 784)), torch.optim.Adam(model.parameters()))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.cell, self.head = nn.Embedding(900, 96), nn.GRUCell(96, 160), nn.Linear(160, 900)

    def forward(self, x, y):
        h, outs = self.head.weight.new_zeros(len(x), 160), []
        for t in range(x.shape[1]):
            h = self.cell(self.tokens(x[:, t]), h)
            outs.append(h)
        return F.cross_entropy(self.head(torch.stack(outs, 1)).flatten(0, 1), y.flatten())


def recurrent():
    model = Recurrent().cuda()
    batch = same(tokens(32, 12, n=900), tokens(32, 12, n=900))
    yield from steps(torch.compile(model), model, batch, torch.optim.RMSprop(model.parameters()))


class Crossing(nn.Module):
    """An encoder and a decoder, as in translation."""

    def __init__(self, width=128):
        super().__init__()
        self.tokens = nn.Embedding(2000, width)
        self.both = nn.Transformer(width, 4, 2, 2, 256, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, 2000)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device)
        out = self.both(self.tokens(x), self.tokens(y), tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(out).flatten(0, 1), y.flatten())


def translation():
    model = Crossing().cuda()
    yield from steps(torch.compile(model), model, same(tokens(4, 96, n=2000), tokens(4, 80, n=2000)))


class Scan(nn.Module):
    """A gated linear recurrence by a cumulative sum, with a depthwise convolution before it."""

    def __init__(self, width=144):
        super().__init__()
        self.norm, self.into, self.out = RMSNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Conv1d(width, width, 4, padding=3, groups=width)

    def forward(self, x):
        a, b, gate = self.into(self.norm(x)).chunk(3, dim=-1)
        a = self.mix(a.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        state = torch.cumsum(F.silu(a) * torch.sigmoid(b), dim=1)
        return x + self.out(state * F.silu(gate))


def linear_recurrence():
    model = nn.Sequential(Scan(), Scan(), nn.Linear(144, 10)).cuda()
    compiled = torch.compile(model)
    yield from steps(lambda x: compiled(x).pow(2).mean(), model, same(noise(4, 300, 144)))
