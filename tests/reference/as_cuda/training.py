"""Programs that train, on a device that they are told."""

import copy
import io

import torch
import torch.nn.functional as F
from as_cuda import raised
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torch.utils.data import DataLoader, TensorDataset

OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop")
FORMS = ({}, {"foreach": False}, {"foreach": True}, {"fused": True}, {"capturable": True})


def small(device) -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1), nn.Linear(64, 8)).to(device)


def ones(*shape, device, **rest) -> torch.Tensor:
    return torch.ones(shape, device=device, **rest)


def classifier(device):
    torch.manual_seed(0)
    m = small(device)
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-3)
    for _ in range(3):
        x, y = torch.randn(16, 32, device=device), torch.randint(0, 8, (16,), device=device)
        loss = F.cross_entropy(m(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        optimizer.step()
    state = optimizer.state[m[0].weight]
    yield loss.device.type == torch.device(device).type, state["step"].device, type(loss.item())


def optimizers(device):
    for name in OPTIMIZERS:
        for form in FORMS:
            m = nn.Linear(8, 8).to(device)
            try:
                optimizer = getattr(torch.optim, name)(m.parameters(), lr=1e-3, **form)
            except TypeError as error:
                yield name, form, str(error)
                continue
            for _ in range(2):
                m(ones(2, 8, device=device)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            state = optimizer.state[m.weight]
            yield name, form, sorted(state), [x.is_cpu for x in state.values() if isinstance(x, torch.Tensor)]


def second_order(device):
    m = nn.Linear(4, 1).to(device)
    optimizer = torch.optim.LBFGS(m.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = m(ones(3, 4, device=device)).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    yield optimizer.state[m.weight]["n_iter"]


def scaled(device):
    m = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    optimizer, scaler = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = m(ones(4, 16, device=device)).float().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    yield scaler.is_enabled(), sorted(scaler.state_dict())


def autocast_in_autocast(device):
    m, x = nn.Linear(4, 4).to(device), ones(4, 4, device=device)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        yield m(x).dtype, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        with torch.autocast("cuda", enabled=False):
            yield m(x).dtype
        with torch.autocast("cuda", dtype=torch.float16):
            yield raised(m, x)  # the copy of the weight that is kept is bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield nn.Linear(4, 4)(torch.ones(2, 4)).dtype
    with torch.autocast(x.device.type, dtype=torch.float16):
        m(x).sum().backward()
    yield m.weight.grad.dtype


def checkpoints(device):
    m = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1), nn.GELU()) for _ in range(4)]).to(device)
    x = ones(4, 16, device=device, requires_grad=True)
    for reentrant in (True, False):
        h = x
        for layer in m:
            h = checkpoint(layer, h, use_reentrant=reentrant)
        h.sum().backward()
        checkpoint_sequential(m, 2, x, use_reentrant=reentrant).sum().backward()
    with torch.autocast("cuda", torch.bfloat16):
        h = checkpoint(m, x, use_reentrant=False)
    h.sum().backward()
    yield x.grad.shape


def averages(device):
    m = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).to(device)
    mean = copy.deepcopy(m)
    with torch.no_grad():
        for a, b in zip(mean.parameters(), m.parameters()):
            a.mul_(0.9).add_(b, alpha=0.1)
    swa = torch.optim.swa_utils
    averaged = swa.AveragedModel(m, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    for _ in range(2):
        averaged.update_parameters(m)
    yield [p.shape for p in averaged.parameters()]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x))


def tied(device):
    m = Tied().to(device)
    m(torch.zeros(3, 4, dtype=torch.long, device=device)).sum().backward()
    yield m.head.weight is m.embedding.weight, len(list(m.parameters()))


def states(device):
    m = small(device)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    m(ones(2, 32, device=device)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": m.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    read = torch.load(file, map_location=device)
    m.load_state_dict(read["model"])
    optimizer.load_state_dict(read["optimizer"])
    m(ones(2, 32, device=device)).sum().backward()
    optimizer.step()
    yield sorted(read["model"]), len(read["optimizer"]["state"])


def loaded(device):
    data = TensorDataset(torch.zeros(20, 4), torch.zeros(20, dtype=torch.long))
    for workers in (0, 2):
        for x, y in DataLoader(data, batch_size=5, pin_memory=True, num_workers=workers):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        yield x.shape, y.dtype


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


class Halved(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g):
        return g * 2


def functions_of_its_own(device):
    x = ones(4, device=device, requires_grad=True)
    Twice.apply(x, x).sum().backward()
    with torch.autocast("cuda", torch.float16):
        y = Halved.apply(x)
        y.sum().backward()
    yield y.dtype, x.grad.dtype


def functional(device):
    func = torch.func
    m = nn.Linear(4, 4).to(device)
    parameters = {name: p.detach() for name, p in m.named_parameters()}

    def loss(p, x):
        return func.functional_call(m, p, (x,)).sum()

    yield func.grad(loss)(parameters, ones(4, device=device))["weight"].shape
    yield func.vmap(func.grad(loss), in_dims=(None, 0))(parameters, ones(5, 4, device=device))["weight"].shape
    yield func.vmap(lambda x: torch.zeros(2, device=x.device) + x.sum())(ones(3, 4, device=device)).shape
    yield func.jacrev(lambda x: x**2)(ones(3, device=device)).shape
    stacked, _ = func.stack_module_state([nn.Linear(3, 3).to(device) for _ in range(3)])
    yield stacked["weight"].shape


def scripts(device):
    @torch.jit.script
    def scripted(x, y: float):
        return x * y + torch.zeros(3, device=x.device)

    yield scripted(ones(3, device=device), 2.0).shape
    traced = torch.jit.trace(nn.Linear(4, 4).to(device), ones(2, 4, device=device), check_trace=False)  # by values
    yield traced(ones(2, 4, device=device)).shape


def sparse(device):
    m = nn.Embedding(10, 4, sparse=True).to(device)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    m(torch.tensor([1, 2], device=device)).sum().backward()
    optimizer.step()
    yield m.weight.grad.is_sparse, m.weight.grad.layout


def attention(device):
    q = ones(1, 2, 8, 16, device=device, dtype=torch.half, requires_grad=True)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    m = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).to(device)
    m(ones(2, 4, 16, device=device)).sum().backward()
    m.eval()
    with torch.inference_mode():
        yield m(ones(2, 4, 16, device=device)).shape


def hooks(device):
    m, seen = nn.Linear(4, 4).to(device), []
    m.weight.register_hook(lambda g: seen.append(g.shape))
    m.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].shape))
    m.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.shape))
    m(ones(2, 4, device=device, requires_grad=True)).sum().backward()
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = m(ones(2, 4, device=device, requires_grad=True))
    y.sum().backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.cpu(), lambda x: x.to(device)):
        y = m(ones(2, 4, device=device)).relu()
    y.sum().backward()
    yield seen


def parametrized(device):
    m = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)).to(device)
    yield m(ones(1, 4, device=device)).shape
    m = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).to(device)
    m(ones(1, 4, device=device)).sum().backward()


def losses(device):
    x, y = ones(4, 5, device=device, requires_grad=True), ones(4, 5, device=device)
    for loss in (
        nn.MSELoss(),
        nn.L1Loss(),
        nn.SmoothL1Loss(),
        nn.BCEWithLogitsLoss(),
        nn.KLDivLoss(reduction="batchmean"),
    ):
        loss(x, y).backward()
    nn.CrossEntropyLoss(label_smoothing=0.1)(x, torch.zeros(4, dtype=torch.long, device=device)).backward()
    yield raised(nn.MSELoss(), x, torch.ones(4, 5))


def moved_while_training(device):
    m = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.AdamW(m.parameters())
    for where in (device, "cpu", device):
        m.to(where)
        m(ones(2, 8, device=where)).sum().backward()
        optimizer.zero_grad()
    yield m.weight.shape


def twice_backward(device):
    x = ones(4, 4, device=device, requires_grad=True)
    (g,) = torch.autograd.grad((x @ x).sum(), x, create_graph=True)
    (g * g).sum().backward()
    yield x.grad.shape
