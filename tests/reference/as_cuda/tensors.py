"""What tensors and modules say of where they lie, and how they are moved."""

import copy
import gc
import pickle

import torch
from as_cuda import raised
from torch import nn


def said_of_one():
    x = torch.zeros(3, device="cuda")
    yield from (x.device, x.device == torch.device("cuda", 0), x.is_cuda, x.is_meta, x.is_cpu, x.get_device(), x.type())
    yield from (x.device.type, x.device.index, x.data_ptr() != 0, x.layout, x.is_sparse, x.is_pinned(), x.is_shared())
    yield from (
        x,
        nn.Parameter(torch.zeros(2, device="cuda")),
        torch.zeros(0, device="cuda").half(),
        torch.get_device(x),
    )


def moved_nowhere():
    x = torch.zeros(3, device="cuda")
    yield from (x.to("cuda") is x, x.to(0) is x, x.cuda() is x, x.cuda(0) is x, x.to("cuda:0") is x)
    yield from (x.to(torch.device("cuda")) is x, x.to(x) is x, x.float() is x, x.contiguous() is x)


def moved_by_each_form():
    x, like = torch.zeros(3), torch.zeros(1, device="cuda", dtype=torch.half)
    yield from (x.to("cuda").device, x.to(device="cuda").device, x.to("cuda", torch.half).dtype, x.to(like).type())
    yield from (
        x.to(tensor=like).type(),
        x.to(0).device,
        x.to(0, torch.half).type(),
        x.to("cuda", torch.half, True).type(),
    )
    yield from (x.cuda(non_blocking=True).device, x.cuda(device="cuda:0").device, x.to("cuda", copy=True).device)
    y = x.cuda()
    yield from (y.cpu().device, y.to("cpu").device, y.cpu().cpu().device, y.to("cpu", torch.half).type())
    yield from (y.to("cuda", copy=True) is y, y.half().type(), y.type_as(like.cpu()).type(), y.to(torch.int).type())


def typed_by_name():
    x = torch.zeros(3)
    yield from (x.type(torch.cuda.FloatTensor).type(), x.type("torch.cuda.HalfTensor").type())
    y = x.cuda()
    yield from (y.type(torch.half).type(), y.type("torch.FloatTensor").type(), y.type(torch.cuda.DoubleTensor).type())
    yield from (isinstance(y, torch.cuda.FloatTensor), isinstance(x, torch.cuda.FloatTensor), torch.is_tensor(y))
    yield from (torch.cuda.FloatTensor(2, 3).shape, torch.cuda.LongTensor([0, 0]), torch.cuda.HalfTensor(3).type())


def devices():
    yield from (torch.device(0), torch.device("cuda"), torch.device(type="cuda", index=0), torch.device("cuda:3").index)
    yield from (isinstance(torch.device(0), torch.device), issubclass(type(torch.device("cpu")), torch.device))
    device = torch.zeros(1, device="cuda").device
    yield from (pickle.loads(pickle.dumps(device)), copy.deepcopy(device), {torch.device("cuda:0"): 1}[device])


def other_gpus():
    x = torch.zeros(1)
    asked = (
        lambda: torch.zeros(1, device="cuda:1"),
        lambda: x.to(3),
        lambda: x.cuda(1),
        lambda: torch.cuda.set_device(2),
    )
    yield [raised(each) for each in asked]
    yield (
        raised(torch.cuda.get_device_properties, 1),
        raised(torch.zeros, 1, device="gpu"),
        raised(torch.cuda.set_device, "cpu"),
    )


def mixed():
    x, host, empty = torch.zeros(3, 3, device="cuda"), torch.zeros(3, 3), torch.zeros(3, 3, device="meta")
    asked = (
        lambda: x + host, lambda: x @ host, lambda: nn.Linear(3, 3)(x), lambda: nn.Linear(3, 3).cuda()(host),
        lambda: x + empty, lambda: x.copy_(empty), lambda: empty.cpu(), lambda: empty.sum().item(),
        x.pin_memory, x.numpy,
    )  # fmt: skip
    yield [raised(each) for each in asked]
    yield (x + torch.tensor(1.0)).device, (torch.tensor(1.0) + x).device, empty.copy_(x).device, x.copy_(host).device


def to_meta():
    x = torch.zeros(3, device="cuda")
    yield from (x.to("meta").device, x.to("meta").is_meta, x.to("meta").is_cuda, x.to("meta").type(), x.to("meta"))
    m = nn.Linear(4, 4).cuda()
    w = m.weight
    m.to("meta")
    yield m.weight.device, m.weight is w, w.device


def meta_of_its_own():
    x = torch.ones(3, 4, device="meta", requires_grad=True)
    y = (x @ torch.ones(4, 5, device="meta")).relu().sum()
    y.backward()
    yield y.device, x.grad.device, x.half().device, torch.empty_like(x).device, x[0].device, torch.stack([x, x]).device
    m = nn.TransformerEncoderLayer(8, 2, device="meta")
    yield m(torch.ones(2, 3, 8, device="meta")).device, copy.deepcopy(m).linear1.weight.device
    optimizer = torch.optim.AdamW(m.parameters())
    m(torch.ones(2, 3, 8, device="meta")).sum().backward()
    optimizer.step()
    yield optimizer.state[m.linear1.weight]["exp_avg"].device
    with torch.autocast("cuda", torch.bfloat16):
        yield nn.Linear(4, 4, device="meta")(torch.ones(2, 4, device="meta")).dtype


def meta_under_func():
    seen = []

    def f(x):
        seen.append((x.device, x.is_meta, x.is_cuda))
        return (x * 2).sum()

    for device in ("meta", "cuda", "cpu"):
        torch.func.grad(f)(torch.ones(3, device=device))
        gc.collect()  # it may leave cycles
        torch.func.vmap(f)(torch.ones(2, 3, device=device))
    yield seen


def meta_sparse():
    indices, values = torch.tensor([[0, 1]]), torch.ones(2)
    x = torch.sparse_coo_tensor(indices, values, (3,), device="meta")
    yield x.device, x.is_cuda, x.is_meta
    layer = nn.Embedding(10, 4, sparse=True).cuda()
    layer(torch.tensor([1, 2], device="cuda")).sum().backward()
    yield layer.weight.grad.device, layer.weight.grad.is_cuda, layer.weight.grad.layout, layer.weight.grad.is_sparse


class Tied(nn.Module):
    def __init__(self, **where):
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8, **where), nn.Linear(8, 20, bias=False, **where)
        self.head.weight = self.embedding.weight


def tied():
    yield from (Tied().cuda().head.weight.is_cuda, len(list(Tied().cuda().parameters())))
    for where, move in (("cpu", "cuda"), ("cpu", "meta"), ("cuda", "cpu"), ("cuda", "meta")):
        m = Tied(device=where).to(move)
        yield where, move, m.head.weight is m.embedding.weight
    for where, move in (("cpu", "cuda"), ("meta", "cuda"), ("meta", "cpu"), ("cuda", "meta"), ("cuda", "cuda")):
        m = Tied(device=where).to_empty(device=move)
        yield where, move, m.head.weight is m.embedding.weight


def the_same_parameters():
    for where, move in (("meta", "cuda"), ("meta", "cpu"), ("cuda", "cuda"), ("cpu", "cuda"), ("cuda", "cpu")):
        m = nn.Linear(4, 4, device=where)
        w = m.weight
        m.to_empty(device=move)
        yield where, move, m.weight is w, w.device, m.weight.device
    m = nn.Linear(4, 4).cuda()
    w, optimizer = m.weight, torch.optim.Adam(m.parameters())
    m.cpu().cuda()
    yield m.weight is w, optimizer.param_groups[0]["params"][0].device
    m(torch.ones(2, 4, device="cuda")).sum().backward()
    yield m.cpu().weight.grad.device, m.cuda().weight.grad.device


def deferred():
    """Made without memory, given it, and filled."""
    with torch.device("meta"):
        m = nn.Sequential(nn.Linear(10, 10), nn.LayerNorm(10), nn.Embedding(10, 3), nn.MultiheadAttention(8, 2))
    yield {p.device.type for p in m.parameters()}
    m = m.to_empty(device="cuda")
    for each in m.modules():
        if hasattr(each, "reset_parameters"):
            each.reset_parameters()
    yield {str(p.device) for p in m.parameters()}


def module_forms():
    m = nn.Linear(4, 4)
    w = m.weight
    for move in (
        m.cuda,
        m.cpu,
        lambda: m.to("cuda"),
        lambda: m.to(0),
        lambda: m.cuda(0),
        lambda: m.half(),
        lambda: m.to(torch.ones(1)),
    ):
        move()
        yield m.weight.type(), m.weight is w
    m.to(torch.device("cuda:0"), torch.half).double().bfloat16().float()
    m.to_empty(device="cuda").type(torch.half)
    yield m.weight.type(), m.to("meta").weight.type()
    norm = nn.BatchNorm1d(3)
    norm.register_buffer("q", torch.zeros(3), persistent=False)
    yield {name: b.device for name, b in norm.cuda().named_buffers()}


def lazy():
    m = nn.Sequential(nn.LazyLinear(4), nn.ReLU()).cuda()
    yield m[0].weight.device
    m(torch.ones(2, 3, device="cuda")).sum().backward()
    yield m[0].weight.device, m[0].weight.shape
    m = nn.LazyLinear(4, device="cuda")
    yield m.weight.device, m.weight
    m = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d()).to("cuda")
    w = m[0].weight
    yield w.device, raised(lambda: w.shape)


def data_of_parameters():
    p = nn.Parameter(torch.ones(3, device="cuda"))
    yield p.device, p.data.device, p.data.data_ptr() == p.data_ptr(), p.detach().device
    p.data = torch.zeros(3)
    yield p.device
    p.data = p.data.cuda()
    p.grad = torch.ones(3, device="cuda")
    yield p.device, p.grad.device
    empty = torch.zeros(3, device="meta")
    yield (
        raised(setattr, p, "data", empty),
        raised(setattr, empty, "data", p.data),
        raised(setattr, p, "grad", torch.ones(3)),
    )


def states_of_modules():
    sd = {name: x.cuda() for name, x in nn.Linear(4, 4).state_dict().items()}
    m = nn.Linear(4, 4, device="meta")
    yield m.load_state_dict(sd), m.weight.device
    yield m.load_state_dict(sd, assign=True), m.weight.device
    yield raised(nn.Linear(4, 4, device="cuda").load_state_dict, nn.Linear(4, 4, device="meta").state_dict())


def storages():
    s = torch.UntypedStorage(8, device="cuda")
    s.fill_(0)
    yield s.device, s.tolist(), s[0], len(s), s.nbytes(), s.is_cuda, s.is_shared(), s.is_pinned(), s.get_device()
    yield s.clone().device, s.cpu().device, s.cuda() is s, s.to(device="cuda:0") is s
    s.resize_(16)
    yield s.nbytes(), torch.UntypedStorage([1, 2], device="cuda").nbytes(), torch.cuda.FloatStorage(10).device
    x = torch.zeros(4, device="cuda")
    t = x.storage()
    yield (
        t.device,
        t.type(),
        t.data_ptr() == x.data_ptr(),
        t.is_cuda,
        t.tolist(),
        t.half().device,
        x.untyped_storage().device,
    )
    yield torch.TypedStorage(10, dtype=torch.float, device="cuda").device, t.clone().device, x.share_memory_() is x
    x.untyped_storage().resize_(0)
    yield x.untyped_storage().size()


def new_of_old():
    x, empty = torch.zeros(3, device="cuda"), torch.zeros(3, device="meta")
    yield (
        x.new(2, 3).device,
        x.new([0.0, 0.0]).device,
        x.new().device,
        empty.new(2).device,
        x.new(x.untyped_storage()).device,
    )


def arrays():
    x = torch.zeros(3, device="cuda")
    yield x.numpy(force=True), raised(x.__array__), x.tolist(), x[0].item(), float(x[0]), bool(x[0]), len(x)
    yield sorted(x.__cuda_array_interface__), x.__dlpack_device__(), [int(each) for each in x]
