"""What the cases of the zoo share: a small model of a public library, made of a configuration, and two training steps of it.

The libraries are imported when a case runs, so that the names of the cases are known where they are not installed. Nothing is
downloaded: each model is made of its configuration, on the CPU, with random weights, and moved to the GPU.
"""

from contextlib import nullcontext

import torch


def moved(inputs: dict, device) -> dict:
    """The inputs of a model on a device."""
    return {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}


def tokens(*shape: int, below: int = 300) -> torch.Tensor:
    """Tokens of the CPU, at random."""
    return torch.randint(1, below, shape)


def optimizer_of(name: str, parameters):
    """An optimizer by its name: of torch, "fused" or "foreach" or plain, or transformers' own Adafactor."""
    kind, _, way = name.partition(" ")
    options = {way: True} if way else {}
    if kind == "Adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters)
    return getattr(torch.optim, kind)(parameters, lr=1e-3, **options)


def trained(env, model, inputs: dict, *, optimizer: str = "AdamW", autocast=None, loss=lambda output: output.loss) -> None:
    """Two training steps of a model on the GPU, each of its instants marked."""
    model = model.to(env.device).train()
    inputs = moved(inputs, env.device)
    stepper = optimizer_of(optimizer, [p for p in model.parameters() if p.requires_grad])
    env.mark("model")
    for i in range(2):
        with env.autocast(autocast) if autocast else nullcontext():
            value = loss(model(**inputs))
        env.mark(f"forward {i}")
        value.backward()
        env.mark(f"backward {i}")
        stepper.step()
        env.mark(f"step {i}")
        stepper.zero_grad()
        del value
        env.mark(f"zero_grad {i}")
