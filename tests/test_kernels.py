"""What plain cases of slow operations return on meta tensors: as PyTorch's own decompositions say."""

import random

import pytest
import torch

from utils import SimulatedGPU
from utils.simulated.kernels import KERNELS

aten = torch.ops.aten
TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def described(results):
    """Of each result, or of the one that there is, what an allocation and what follows depend on."""
    results = results if isinstance(results, tuple) else (results,)
    return [x if x is None else (x.dtype, tuple(x.shape), x.stride()) for x in results]


def both(func, *args):
    """By the kernel and by PyTorch, each described, or the error."""
    found = []
    for run in (KERNELS[func], func):
        try:
            found.append(described(run(*args)))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            found.append(type(error))
    return found


def norm_of(rng):
    """Arguments of layer_norm: x[..., *shape], with what a reader may do wrong now and then."""
    shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
    dtype = rng.choice(TYPES)
    x = torch.empty(*(rng.randint(0, 3) for _ in range(rng.randint(0, 2))), *shape, dtype=dtype, device="meta")
    if rng.random() < 0.2:  # every second element of what is twice as long
        x = torch.cat([x, x], -1)[..., ::2]
    of_elements = [
        rng.choice([None, torch.empty(shape, dtype=rng.choice([dtype, torch.float32]), device="meta")]) for _ in "wb"
    ]
    return x, shape, *of_elements


@pytest.mark.parametrize("seed", range(10))
def test_layer_norm(seed):
    rng = random.Random(seed)
    for _ in range(20):
        x, shape, weight, bias = norm_of(rng)
        mine, theirs = both(aten.native_layer_norm.default, x, shape, weight, bias, 1e-5)
        assert mine == theirs
        if isinstance(mine, type):
            continue
        y, mean, deviation = aten.native_layer_norm.default(x, shape, weight, bias, 1e-5)
        mask = [True, rng.random() < 0.7 and weight is not None, rng.random() < 0.7 and bias is not None]
        gradient = torch.empty_like(y) if rng.random() < 0.8 else torch.empty_like(y, dtype=torch.float32)
        args = (gradient, x, shape, mean, deviation, weight, bias, mask)
        mine, theirs = both(aten.native_layer_norm_backward.default, *args)
        assert mine == theirs


def test_a_norm_of_the_wrong_shape_is_refused_as_before():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(2, 4, device=gpu.device)
        with pytest.raises(RuntimeError, match="normalized_shape"):
            torch.nn.functional.layer_norm(x, (3,))


LIES = {
    "as it is": lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta"),
    "turned": lambda shape, dtype: torch.empty(shape[::-1], dtype=dtype, device="meta").permute(
        *reversed(range(len(shape)))
    ),
    "channels last": lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta").to(
        memory_format={4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shape), torch.preserve_format)
    ),
}


@pytest.mark.parametrize("seed", range(10))
def test_cat(seed):
    rng = random.Random(seed)
    for _ in range(40):
        sizes = [rng.randint(0, 3) for _ in range(rng.randint(1, 5))]
        dim = rng.randint(-len(sizes) - 1, len(sizes))
        parts = []
        lies = rng.choice(list(LIES))
        for _ in range(rng.randint(0, 4)):
            own = list(sizes)
            own[rng.randrange(len(own)) if rng.random() < 0.1 else dim % len(own)] = rng.randint(0, 3)
            dtype = torch.float32 if rng.random() < 0.9 else torch.bfloat16
            parts.append(LIES[lies if rng.random() < 0.8 else "as it is"](own, dtype))
        mine, theirs = both(aten.cat.default, parts, dim)
        assert mine == theirs, (parts, dim)
