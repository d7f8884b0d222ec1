"""Twenty GPTs drawn at random and trained under autocast, in the form of cases.py: shapes, heads, attention, recompute.

Head sizes may be no multiple of 8, and wider than the fused kernels take; float32 weights, two steps each.
"""

import random
from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

reference = load_module(Path(__file__).with_name("cases.py"))

CASES = {}
SEED = 400
HEAD_SIZES = ([16, 32, 64, 128], [20, 36, 50, 100], [136, 160, 200, 256], [260, 264, 300])


def draw(rng):
    """A GPT's configuration, and the arguments of `train`."""
    heads, micro_batches = rng.choice([1, 2, 3, 4, 6]), rng.choice([1, 1, 2, 3])
    config = reference.Config(
        vocabulary=rng.choice([rng.randint(50, 3000), 64 * rng.randint(1, 40)]),
        context=rng.choice([rng.randint(3, 300), 128, 256]),
        batch=rng.randint(1, 6),
        d=heads * rng.choice(rng.choice(HEAD_SIZES)),
        layers=rng.randint(1, 6),
        heads=heads,
        attention=rng.choice(["sdpa", "sdpa", "explicit"]),
        bias=rng.random() < 0.5,
        dropout=rng.choice([0.0, 0.1]),
        recompute=rng.choice(["", "checkpoint", "sac"]),
    )
    dtype = rng.choice([torch.bfloat16, torch.float16])
    return config, dict(
        autocast=dtype,
        optimizer=rng.choice(["fused", "foreach", "loop"]),
        steps=2,
        micro_batches=micro_batches,
        set_to_none=rng.random() < 0.6,
        drop_logits=rng.random() < 0.5,
        scale_loss=dtype == torch.float16 and rng.random() < 0.7,
    )


def gpt(env, seed):
    config, arguments = draw(random.Random(seed))
    reference.train(env, config, **arguments)


for number in range(20):
    name = f"random_gpt_{number}"
    CASES[name] = lambda env, seed=SEED + number: gpt(env, seed)
    CASES[name].cudnn_sdp = number % 5 == 4
    CASES[name].cards = ("a100", "h100", "t4") if number % 2 == 0 else ("a100", "h100")
