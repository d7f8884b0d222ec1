"""Small programs of reports in public repositories, with the figures that they printed, written anew."""

import torch
import torch.nn.functional as F
from torch import nn


def one_linear(gpu) -> int:
    """What a Linear of one number leaves, when it, its input and its output are gone."""

    def run() -> None:
        model = nn.Linear(1, 1, device=gpu.device)
        model(torch.randn(1, 1, device=gpu.device))

    run()
    return gpu.memory_allocated()


def two_linears(gpu, rows: int, after: str) -> int:
    """Two Linears of 1024 without bias, of [4, rows, 1024], and a sum."""
    model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False)).to(gpu.device)
    x = torch.empty(4, rows, 1024).to(gpu.device)
    y = model(x).sum()
    if after == "backward":
        y.backward()
    return gpu.memory_allocated()


def repeated_linear(gpu, times: int) -> int:
    """One Linear, applied over and over, to [10240, 1024]."""
    model = nn.Linear(1024, 1024).to(gpu.device)
    y = torch.zeros((10240, 1024)).to(gpu.device)
    for _ in range(times):
        y = model(y)
    return gpu.memory_allocated()


def softmax(gpu, at: str) -> int:
    """Softmax of bfloat16, whose mean goes backward; the name of the input is used again."""
    x = torch.rand([5120, 2, 384, 384], dtype=torch.bfloat16, device=gpu.device, requires_grad=True)
    if at == "after allocation":
        return gpu.memory_allocated()
    x = F.softmax(x, dim=-1)
    loss = torch.mean(x)
    if at == "after forward":
        return gpu.memory_allocated()
    loss.backward()
    return gpu.max_memory_allocated() if at == "peak" else gpu.memory_allocated()


def growing_tensors(gpu, n: int, deleted: bool, counter: str) -> int:
    """Tensors of 1, 2, … n million numbers under one name, each deleted before the next or replaced by it."""
    for i in range(n):
        a = torch.rand(1000, 1000, i + 1, device=gpu.device)
        if deleted:
            del a
    return getattr(gpu, counter)()


def convolutions(gpu, n: int) -> int:
    """What is reserved after n of two convolutions and a group norm, without gradients; a cache emptied before that."""
    first = nn.Conv2d(100, 200, 3, padding=1).to(gpu.device)
    second = nn.Conv2d(200, 200, 3, padding=1).to(gpu.device)
    norm = nn.GroupNorm(4, 200, affine=False)
    z = torch.randn(2, 100, 256, 256, device=gpu.device)
    x = z
    with torch.no_grad():
        if n > 0:
            z = first(x)
        if n > 1:
            z = second(z)
        if n > 2:
            gpu.empty_cache()
            z = norm(z)
    return gpu.memory_reserved()


def convolution(gpu, half: bool) -> int:
    """The peak of a convolution of [512, 32, 84, 84]."""
    model, x = nn.Conv2d(32, 32, 3, stride=1), torch.empty(512, 32, 84, 84)
    if half:
        model, x = model.half(), x.half()
    model, x = model.to(gpu.device), x.to(gpu.device)
    model(x)
    return gpu.max_memory_allocated()


def linears(gpu, n: int, counter: str) -> int:
    """Linears of 100, one after the other."""
    layers = [nn.Linear(100, 100).to(gpu.device) for _ in range(n)]
    assert len(layers) == n
    return getattr(gpu, counter)()


def linear_report(gpu, at: str) -> int:
    """A Linear of 1024 of [512, 1024], its mean, and backward."""
    layer = nn.Linear(1024, 1024).to(gpu.device)
    if at == "made":
        return gpu.memory_allocated()
    x = torch.Tensor(512, 1024).to(gpu.device)
    y = layer(x * (x + 2) if at == "of a product" else x).mean()
    if at == "after backward":
        y.backward()
    return gpu.memory_allocated()


def tied_linears(gpu) -> int:
    """Two Linears with one weight, after backward."""
    first, second = (nn.Linear(1024, 1024).to(gpu.device) for _ in range(2))
    second.weight = first.weight
    x = torch.Tensor(512, 1024).to(gpu.device)
    y = nn.Sequential(first, second)(x).mean()
    y.backward()
    return gpu.memory_allocated()


VGG19 = (64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512)


def tracked(gpu, at: int) -> int:
    """VGG-19's convolutions, then three images' batches, two more, and what is left when two are gone."""
    widths = (3, *VGG19)
    model = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
    model = model.to(gpu.device).eval()
    batches = []
    for n in ((), (30, 40, 60), (120, 80))[: at + 1]:
        batches += [torch.empty(b, 3, 512, 512).to(gpu.device) for b in n]
    if at == 3:
        batches[3], batches[1] = None, None
        gpu.empty_cache()
    assert model
    return gpu.memory_allocated()


def amp_recipe(gpu) -> int:
    """PyTorch's recipe of mixed precision, in its default precision: three Linears and two ReLUs of 4096, SGD."""
    batch, width = 512, 4096
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(width, width)).to(gpu.device)
    data = [torch.randn(batch, width, device=gpu.device) for _ in range(50)]
    targets = [torch.randn(batch, width, device=gpu.device) for _ in range(50)]
    loss_of = nn.MSELoss().to(gpu.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    gpu.reset_peak_memory_stats()
    for x, target in zip(data[:3], targets[:3]):
        y = net(x)
        loss = loss_of(y, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return gpu.max_memory_allocated()
