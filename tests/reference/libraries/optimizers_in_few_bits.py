"""Optimizers of bitsandbytes: of 8 and 32 bits, on the GPU and in pages, on weights and on what lies beside them."""

import bitsandbytes as bnb
import torch
from marked_steps import noise, same, steps
from torch import nn
from torch.nn import functional as F


def _trained(make, dtype=torch.float32, clipped=False):
    """An MLP with a norm, whose weights are large enough for states of 8 bits, and whose biases are not."""
    bnb.optim.GlobalOptimManager._instance = None  # what another program told it
    model = nn.Sequential(nn.Linear(700, 900), nn.LayerNorm(900), nn.GELU(), nn.Linear(900, 700)).cuda().to(dtype)
    optimizer = make(model.parameters())
    yield "made"

    def step():
        if clipped:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    batch = same(noise(96, 700, dtype=dtype), noise(96, 700, dtype=dtype))
    yield from steps(lambda x, y: F.mse_loss(model(x), y), model, batch, optimizer, step=step)


def _of(name, **kwargs):
    def program():
        yield from _trained(lambda parameters: getattr(bnb.optim, name)(parameters, lr=1e-3, **kwargs))

    return program


adam = _of("Adam")
adam_8bit = _of("Adam8bit")
adam_32bit = _of("Adam32bit")
adamw = _of("AdamW")
adamw_8bit = _of("AdamW8bit", weight_decay=0.1)
paged_adam = _of("PagedAdam")
paged_adam_8bit = _of("PagedAdam8bit")
paged_adamw = _of("PagedAdamW")
paged_adamw_8bit = _of("PagedAdamW8bit")
paged_adamw_32bit = _of("PagedAdamW32bit")
lion_8bit = _of("Lion8bit")
lion_32bit = _of("Lion32bit")
paged_lion_8bit = _of("PagedLion8bit")
sgd_8bit = _of("SGD8bit", momentum=0.9)
rmsprop_8bit = _of("RMSprop8bit")
adagrad_8bit = _of("Adagrad8bit")
lamb = _of("LAMB")
lars = _of("LARS", momentum=0.9)
ademamix_8bit = _of("AdEMAMix8bit")
paged_ademamix_8bit = _of("PagedAdEMAMix8bit")


def adamw_8bit_in_bfloat16():
    yield from _trained(lambda p: bnb.optim.AdamW8bit(p, lr=1e-3), torch.bfloat16, clipped=True)


def with_some_left_in_32_bits():
    model = nn.Sequential(nn.Embedding(3000, 256), nn.Linear(256, 3000)).cuda()
    bnb.optim.GlobalOptimManager._instance = None
    manager = bnb.optim.GlobalOptimManager.get_instance()
    manager.register_parameters(model.parameters())
    manager.override_config(model[0].weight, "optim_bits", 32)
    optimizer = bnb.optim.Adam(model.parameters(), optim_bits=8)
    yield "made"
    tokens = torch.randint(3000, (16, 64), device="cuda")

    def run(x):
        return F.cross_entropy(model(x).flatten(0, 1), x.flatten())

    yield from steps(run, model, same(tokens), optimizer)


def state_saved_and_loaded():
    bnb.optim.GlobalOptimManager._instance = None
    model = nn.Linear(1000, 1000).cuda()
    optimizer = bnb.optim.AdamW8bit(model.parameters())
    yield from steps(lambda x: model(x).square().mean(), model, same(noise(32, 1000)), optimizer, n=1)
    state = optimizer.state_dict()
    other = bnb.optim.AdamW8bit(model.parameters())
    other.load_state_dict(state)
    yield "loaded"
    model(noise(32, 1000)).square().mean().backward()
    other.step()
    yield "stepped"
