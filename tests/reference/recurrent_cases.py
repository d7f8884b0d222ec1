"""More cases in the form of cases.py: recurrent cells and layers without cuDNN, at random from a fixed seed.

What cuDNN does for them it sizes itself, and no recording here can tell.
"""

import random

import torch
from torch import nn

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def _autocast(rng, dtype):
    is_on = dtype == torch.float32 and rng.random() < 0.3
    return torch.autocast("cuda", dtype=torch.float16, enabled=is_on)


@case
def recurrent_cells(env):
    rng = random.Random(31)
    for i in range(40):
        dtype = rng.choice([torch.float32, torch.float32, torch.float16, torch.float64])
        n, hidden, rows = rng.randint(1, 60), rng.randint(1, 60), rng.randint(1, 40)
        kind = rng.choice([nn.LSTMCell, nn.GRUCell, nn.RNNCell])
        cell = kind(n, hidden, bias=rng.random() < 0.8, device=env.device, dtype=dtype)
        x = torch.zeros(rows, n, device=env.device, dtype=dtype, requires_grad=True)
        state = None
        with _autocast(rng, dtype), torch.set_grad_enabled(rng.random() < 0.8):
            for _ in range(rng.randint(1, 3)):
                state = cell(x, state)
        output = state[0] if isinstance(state, tuple) else state
        if output.requires_grad:
            output.float().sum().backward()
        env.mark(f"cell {i}")
        del cell, x, state, output


@case
def recurrent_layers(env):
    rng = random.Random(32)
    torch.backends.cudnn.enabled = False
    try:
        for i in range(30):
            dtype = rng.choice([torch.float32, torch.float32, torch.float16])
            kind, n, hidden = rng.choice([nn.LSTM, nn.GRU, nn.RNN]), rng.randint(1, 40), rng.randint(1, 40)
            n_layers = rng.randint(1, 3)
            options = {"bidirectional": rng.random() < 0.4, "batch_first": rng.random() < 0.5, "dropout": 0.0}
            if n_layers > 1:
                options["dropout"] = rng.choice([0.0, 0.2])
            layer = kind(n, hidden, n_layers, bias=rng.random() < 0.8, device=env.device, dtype=dtype, **options)
            x = torch.zeros(rng.randint(1, 5), rng.randint(1, 5), n, device=env.device, dtype=dtype, requires_grad=True)
            with _autocast(rng, dtype), torch.set_grad_enabled(rng.random() < 0.8):
                output, state = layer(x)
            if output.requires_grad:
                output.float().sum().backward()
            env.mark(f"layer {i}")
            del layer, x, output, state
    finally:
        torch.backends.cudnn.enabled = True
