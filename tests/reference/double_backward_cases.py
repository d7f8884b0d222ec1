"""More cases in the form of cases.py: gradients of gradients, as gradient penalties and meta-learning take them.

In several steps, so that a backward runs through nodes that the program has made and through those that an earlier
backward has: on CUDA another thread has numbered these.
"""

import random

import torch
from torch import nn
from torch.nn import functional as F

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


ACTIVATIONS = [
    *(nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.GELU, lambda: nn.GELU("tanh"), nn.SiLU, nn.ELU, nn.Softplus),
    *(nn.Mish, nn.Hardswish, nn.Hardtanh, nn.SELU, nn.LogSigmoid, nn.Tanhshrink),
    lambda: nn.LeakyReLU(0.2, inplace=True),
]
FUNCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "exp": torch.exp,
    "power": lambda x: x**3,
    "clamped": lambda x: x.clamp(-1, 1),
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "largest": lambda x: x * x.amax(-1, keepdim=True),
    "normalized": F.normalize,
    "divided by deviation": lambda x: x / (x.std(-1, keepdim=True) + 1),
    "logsumexp": lambda x: x + x.logsumexp(-1, keepdim=True),
    "joined": lambda x: torch.cat([x, x * 2], 1)[:, ::2],
    "gated": lambda x: torch.cat([F.glu(x), F.glu(x)], 1),
    "squared": lambda x: x * x * x,
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "products": lambda x: x @ x.t() @ x,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x) @ x,
    "angle": lambda x: torch.atan2(x, x + 1),
    "indexed": lambda x: x[:, torch.zeros(x.shape[1], dtype=torch.long, device=x.device)],
    "dropout": lambda x: F.dropout(x, 0.3),
}


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _penalty(model, x) -> torch.Tensor:
    y = model(x)
    gradient = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
    return y.mean() + 10 * ((gradient.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


@case
def penalties_of_activations(env):
    rng = random.Random(41)
    for i, activation in enumerate(ACTIVATIONS):
        n, width, rows = rng.randint(2, 30), 4 * rng.randint(1, 12), rng.randint(1, 20)
        hidden = [nn.Linear(width, width, device=env.device), activation()]
        model = nn.Sequential(nn.Linear(n, width, device=env.device), activation(), *hidden)
        model.append(nn.Linear(width, 1, device=env.device))
        x = torch.zeros(rows, n, device=env.device, requires_grad=True)
        _penalty(model, x).backward()
        env.mark(f"activation {i}")
        del model, hidden, x


@case
def penalties_of_functions(env):
    rng = random.Random(42)
    for name, function in FUNCTIONS.items():
        n, width, rows = rng.randint(2, 30), 4 * rng.randint(1, 12), rng.randint(2, 20)
        hidden = Applied(function), nn.Linear(width, width, device=env.device), Applied(function)
        model = nn.Sequential(nn.Linear(n, width, device=env.device), *hidden, nn.Linear(width, 1, device=env.device))
        x = torch.zeros(rows, n, device=env.device, requires_grad=True)
        _penalty(model, x).backward()
        env.mark(name)
        del model, hidden, x


@case
def wasserstein_gan(env):
    def layer(*sizes):
        return nn.Linear(*sizes, device=env.device)

    critic = nn.Sequential(
        layer(64, 48), nn.LeakyReLU(0.2, inplace=True), layer(48, 32), nn.LeakyReLU(0.2), layer(32, 1)
    )
    generator = nn.Sequential(layer(10, 32), nn.ReLU(), layer(32, 64), nn.Tanh())
    optimizers = [torch.optim.Adam(model.parameters(), 1e-4) for model in (critic, generator)]
    for step in range(6):
        optimizers[0].zero_grad()
        real, fake = torch.zeros(16, 64, device=env.device), generator(torch.randn(16, 10, device=env.device))
        share = torch.rand(16, 1, device=env.device)
        between = (share * real + (1 - share) * fake.detach()).requires_grad_()
        loss = critic(fake).mean() - critic(real).mean() + _penalty(critic, between)
        loss.backward()
        optimizers[0].step()
        env.mark(f"critic {step}")
        if step % 2 == 0:
            optimizers[1].zero_grad()
            (-critic(generator(torch.randn(16, 10, device=env.device))).mean()).backward()
            optimizers[1].step()
            env.mark(f"generator {step}")


def _losses(device):
    def classes(y):
        return torch.zeros(len(y), dtype=torch.long, device=device)

    return {
        "cross entropy": lambda y: F.cross_entropy(y, classes(y), label_smoothing=0.1),
        "squares": lambda y: F.mse_loss(y, torch.zeros_like(y)),
        "with logits": lambda y: F.binary_cross_entropy_with_logits(y, torch.zeros_like(y)),
        "huber": lambda y: F.huber_loss(y, torch.zeros_like(y)),
    }


@case
def learning_to_learn(env):
    rng = random.Random(43)
    for name, loss in _losses(env.device).items():
        n, width = rng.randint(2, 20), rng.randint(2, 30)
        model = nn.Sequential(nn.Linear(n, width), nn.Tanh(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 6))
        model.to(env.device)
        for step in range(2):
            total = 0
            for _ in range(2):
                fast = dict(model.named_parameters())
                for _ in range(2):
                    small = loss(torch.func.functional_call(model, fast, torch.zeros(5, n, device=env.device)))
                    gradients = torch.autograd.grad(small, fast.values(), create_graph=True)
                    fast = {key: p - 0.1 * g for (key, p), g in zip(fast.items(), gradients)}
                total = total + loss(torch.func.functional_call(model, fast, torch.zeros(8, n, device=env.device)))
            total.backward()
            env.mark(f"{name}, {step}")
            model.zero_grad()
            del total, small, gradients, fast
        del model


class Attention(nn.Module):
    """A transformer block whose attention is spelled out."""

    def __init__(self, width, heads, norm, activation) -> None:
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), activation(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mask = torch.ones(s, s, device=x.device, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).masked_fill(~mask, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, d))
        return x + self.mlp(self.norms[1](x))


@case
def penalties_of_blocks(env):
    rng = random.Random(44)
    for i in range(6):
        heads = rng.randint(1, 4)
        width = heads * 4 * rng.randint(1, 4)
        kinds = rng.choice([nn.LayerNorm, nn.RMSNorm]), rng.choice([nn.GELU, nn.SiLU, nn.ReLU])
        blocks = [Attention(width, heads, *kinds) for _ in range(rng.randint(1, 2))]
        model = nn.Sequential(*blocks, nn.Linear(width, 1)).to(env.device)
        for step in range(2):
            shape = rng.randint(1, 4), rng.randint(1, 9), width
            x = torch.zeros(*shape, device=env.device, requires_grad=True)
            _penalty(model, x).backward()
            env.mark(f"block {i}, {step}")
            model.zero_grad()
            del x
        del model, blocks


@case
def entropies_twice(env):
    for reduction in ("mean", "sum", "none"):
        for weighs in (False, True):
            x = torch.zeros(37, 51, device=env.device, requires_grad=True)
            weight = torch.zeros_like(x) if weighs else None
            y = F.binary_cross_entropy(x.sigmoid(), torch.zeros_like(x), weight, reduction=reduction)
            gradient = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
            (gradient.norm() + y.sum()).backward()
            env.mark(f"{reduction}, {weighs}")
            del x, y, weight, gradient
