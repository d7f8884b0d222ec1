"""Functions that make tensors: on "cuda", on "meta", and on a default device; generators; pinned memory."""

import numpy as np
import torch
import torch.utils._device
from as_cuda import raised
from torch import nn

ARGUMENTS = {
    "empty": (3,), "zeros": (3,), "ones": (3,), "rand": (3,), "randn": (3,), "full": ((3,), 1.0), "arange": (5,),
    "linspace": (0, 1, 3), "logspace": (0, 1, 3), "eye": (3,), "randint": (5, (3,)), "randperm": (4,), "range": (0, 3),
    "tensor": ([1.0],), "as_tensor": ([1.0],), "asarray": ([1.0],), "scalar_tensor": (1.0,),
    "empty_strided": ((3, 2), (2, 1)),
    "empty_permuted": ((3, 2), (1, 0)), "tril_indices": (3, 3), "triu_indices": (3, 3), "hann_window": (4,),
    "sparse_coo_tensor": (torch.zeros(1, 2, dtype=torch.long), torch.ones(2), (3,)), "hamming_window": (4,),
    "bartlett_window": (4,), "blackman_window": (4,), "kaiser_window": (4,), "fftfreq": (4,), "rfftfreq": (4,),
}  # fmt: skip
UNLIKE = {"sparse_coo_tensor"}  # what its checks take is not known
NAMES = sorted(f.__name__.removeprefix("fft_") for f in torch.utils._device._device_constructors())
LIKE = {"full_like": (1.0,), "randint_like": (3,), **dict.fromkeys(("empty_like", "ones_like", "rand_like"), ()),
        **dict.fromkeys(("randn_like", "zeros_like"), ())}  # fmt: skip
NEW = {"new_empty": ((2,),), "new_empty_strided": ((2,), (1,)), "new_full": ((2,), 1.0), "new_ones": ((2,),),
       "new_zeros": ((2,),), "new_tensor": ([1.0],)}  # fmt: skip


def said(x: torch.Tensor):
    return x.device, x.dtype, x.shape


def constructors(**where):
    for name in NAMES:
        if name in ARGUMENTS and name not in UNLIKE:
            make = getattr(torch, name, None) or getattr(torch.fft, name)
            yield (name, *said(make(*ARGUMENTS[name], **where)))


def on_cuda():
    yield [name for name in NAMES if name not in ARGUMENTS]
    yield from constructors(device="cuda")


def on_a_number():
    yield from constructors(device=0)


def on_meta():
    yield from constructors(device="meta")


def by_context():
    with torch.device("cuda"):
        yield from constructors()
    with torch.device("meta"):
        yield from constructors()
    with torch.device("cuda"):
        yield from constructors(device="cpu")


def by_default_device():
    torch.set_default_device("cuda")
    try:
        yield torch.get_default_device(), nn.Linear(2, 2).weight.device, torch.Tensor(3).device
        yield from constructors()
        yield torch.from_numpy(np.zeros(3)).device, torch.zeros(3, device="cpu").device
    finally:
        torch.set_default_device(None)
    yield torch.get_default_device(), torch.zeros(1).device


def by_default_number():
    torch.set_default_device(0)
    try:
        yield torch.zeros(1).device, torch.get_default_device()
    finally:
        torch.set_default_device(None)


def contexts_in_contexts():
    with torch.device("cuda"):
        a = torch.zeros(1)
        with torch.device("cpu"):
            b = torch.zeros(1)
            with torch.device("meta"):
                c = torch.zeros(1)
                with torch.device(0):
                    d = nn.Linear(2, 2).weight
        e = torch.zeros(1)
    yield [x.device for x in (a, b, c, d, e, torch.zeros(1))]


def like_others():
    others = [torch.zeros(3, 2, device=device) for device in ("cuda", "cpu", "meta")]
    for name, args in LIKE.items():
        make = getattr(torch, name)
        yield name, [make(x, *args).device for x in others]
        yield [
            make(x, *args, device=d).device for x in others for d in ("cuda", "cpu", "meta", 0, torch.device("cuda"))
        ]


def new_of_others():
    others = [torch.zeros(3, 2, device=device) for device in ("cuda", "cpu", "meta")]
    for name, args in NEW.items():
        yield name, [getattr(x, name)(*args).device for x in others]
        yield [
            getattr(x, name)(*args, device=d).device for x in others for d in ("cuda", "cpu", "meta", torch.device(0))
        ]


def of_data():
    x, empty = torch.zeros(3, device="cuda"), torch.zeros(3, device="meta")
    yield torch.tensor(x).device, torch.tensor(x, device="cpu").device, said(torch.tensor(np.ones(3), device="cuda"))
    yield torch.as_tensor(x) is x, torch.as_tensor(x, device="cuda") is x, torch.as_tensor(x, device="cpu").device
    yield (
        torch.as_tensor(np.ones(2), device="cuda").device,
        said(torch.as_tensor(x, dtype=torch.half)),
        torch.asarray(x) is x,
    )
    yield (
        torch.asarray(x, device="cpu").device,
        torch.asarray(np.ones(2), device="cuda").device,
        torch.as_tensor(empty) is empty,
    )
    yield (
        torch.tensor(empty).device,
        torch.asarray(empty).device,
        torch.tensor([], device="cuda"),
        torch.tensor(0.0, device=0),
    )
    yield (
        said(torch.tensor([[1, 2], [3, 4]], device="cuda:0")),
        said(torch.tensor(True, device="cuda")),
        said(torch.tensor(1j, device="cuda")),
    )
    yield torch.tensor(0.0, device="cuda", requires_grad=True)


def of_numbers_on_the_gpu():
    x = torch.zeros(3, device="cuda")
    yield (
        said(torch.tensor([x[0], x[1]])),
        said(torch.tensor([[x[0]], [x[1]]], device="cuda")),
        said(torch.stack([x[0], x[1]])),
    )
    yield (
        said(torch.tensor([x[0].half(), x[1].half()])),
        said(torch.tensor([x[0].item()], device="cuda")),
        said(torch.as_tensor([x[0]])),
    )


def into_others():
    x = torch.empty(3, device="cuda")
    for make, args in (
        (torch.zeros, (3,)),
        (torch.randn, (3,)),
        (torch.full, ((3,), 2.0)),
        (torch.linspace, (0, 1, 3)),
    ):
        yield make(*args, out=x) is x
    yield raised(torch.zeros, 3, device="cuda", out=torch.empty(3)), torch.add(x, x, out=x) is x
    with torch.device("cuda"):
        yield raised(torch.zeros, 3, out=torch.empty(3, device="cpu"))


def by_keywords():
    yield (
        said(torch.empty(size=(2, 3), device="cuda")),
        said(torch.zeros(size=(2,), device=torch.device("cuda"), dtype=torch.half)),
    )
    yield said(torch.randint(low=0, high=4, size=(3,), device="cuda")), said(torch.ones([2, 2], device="cuda"))
    yield (
        torch.empty((2, 3, 4, 4), device="cuda", memory_format=torch.channels_last).stride(),
        raised(torch.zeros, -1, device="cuda"),
    )


def generators():
    g = torch.Generator("cuda").manual_seed(3)
    yield g.device, g.initial_seed(), g.get_state(), isinstance(g, torch.Generator), torch.Generator("cpu").device
    yield (
        torch.Generator(device="cuda:0").device,
        torch.Generator(device=torch.device("cuda", 0)).device,
        torch.Generator().device,
    )
    draws = [torch.randn(3, generator=g, device="cuda"), torch.randperm(5, generator=g, device="cuda")]
    draws += [
        torch.empty(3, device="cuda").normal_(generator=g).uniform_(0, 1, generator=g).bernoulli_(0.5, generator=g)
    ]
    draws += [
        torch.randint(0, 3, (2,), generator=g, device="cuda"),
        torch.bernoulli(torch.zeros(3, device="cuda"), generator=g),
    ]
    yield [x.device for x in draws]
    other = torch.Generator("cuda")
    other.set_state(torch.Generator("cuda").manual_seed(9).get_state())
    yield (
        other.initial_seed(),
        other.clone_state().initial_seed(),
        other.get_offset(),
        other.seed() == other.initial_seed(),
    )
    other.manual_seed(1).set_offset(8)
    yield other.get_state(), other.get_offset()


def generators_of_others():
    cuda, cpu = torch.Generator("cuda"), torch.Generator()
    asked = (
        lambda: torch.randn(3, generator=cuda),
        lambda: torch.rand(3).normal_(generator=cuda),
        lambda: cuda.set_state(cpu.get_state()),
    )
    yield [raised(each) for each in asked], torch.randn(3, generator=cpu).device


def states_of_generators():
    torch.manual_seed(3)
    yield torch.cuda.initial_seed(), torch.initial_seed(), torch.cuda.get_rng_state()
    torch.cuda.manual_seed(7)
    state = torch.cuda.get_rng_state()
    torch.cuda.manual_seed_all(9)
    yield torch.cuda.initial_seed()
    torch.cuda.set_rng_state(state)
    yield torch.cuda.initial_seed(), len(torch.cuda.get_rng_state_all()), torch.cuda.get_rng_state("cuda:0").device
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    for devices in ({"devices": ["cuda"]}, {}, {"devices": [0]}):
        with torch.random.fork_rng(**devices):
            torch.cuda.manual_seed(8)
        yield torch.cuda.initial_seed()
    mine = torch.cuda.default_generators
    yield len(mine), mine[0].device, mine[0].initial_seed(), isinstance(mine[0], torch.Generator)
    yield raised(torch.cuda.set_rng_state, torch.zeros(5, dtype=torch.uint8))


def pinned():
    x = torch.zeros(100, pin_memory=True)
    yield x.device, x.cuda(non_blocking=True).device, x.numpy().shape, torch.zeros(3).is_pinned(), x.cuda().is_pinned()
    yield raised(torch.zeros(3, device="cuda").pin_memory), raised(torch.zeros, 3, device="cuda", pin_memory=True)
    yield x.pin_memory().device, torch.zeros(3).pin_memory("cuda").shape, x.untyped_storage().pin_memory().device


def old_default_type():
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    try:
        yield torch.zeros(2).device, torch.Tensor(2).device, torch.tensor([1.0]).device, nn.Linear(2, 2).weight.device
        yield torch.zeros(2, device="cpu").device, torch.get_default_dtype(), torch.Tensor([0.0, 0.0])
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        yield torch.zeros(2).type(), torch.get_default_dtype()
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    yield torch.zeros(2).type(), torch.Tensor(2).device
