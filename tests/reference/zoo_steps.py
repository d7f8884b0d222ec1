"""What the cases of the zoo share: a small model of a public library, made of its configuration, and two steps.

The libraries are imported when a case runs, so that the cases are known by name where these are not installed. Nothing
is downloaded: each model is made of a configuration on the CPU, with random weights, and moved to the GPU.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle

import torch

T5 = dict(
    vocab_size=300,
    d_model=72,
    d_kv=12,
    d_ff=104,
    num_layers=2,
    num_heads=6,
    pad_token_id=0,
    eos_token_id=2,
    decoder_start_token_id=0,
)
CONVOLUTIONS = ("aten::convolution (cuDNN's workspace)", "aten::convolution_backward (cuDNN's workspace)")


def moved(inputs: dict, device) -> dict:
    """A model's inputs, on a device."""
    return {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in inputs.items()}


def tokens(*shape: int, below: int = 300) -> torch.Tensor:
    """Tokens at random, none of them 0, on the CPU."""
    return torch.randint(3, below, shape)


def optimizer_of(name: str, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """An optimizer by its name, and how it is asked to work: "AdamW fused"; Adafactor is that of transformers."""
    kind, _, way = name.partition(" ")
    if kind == "Adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters)
    return getattr(torch.optim, kind)(parameters, lr=1e-3, **({way: True} if way else {}))


@contextmanager
def answered(env, answers: tuple[bool, ...]) -> Iterator[None]:
    """While a case is recorded where nothing is computed, `bool` of a tensor on the card gives these answers, in turn.

    They are what a card computes of the inputs; a simulated GPU has to know them by itself.
    """
    if env.device.type != "cuda" or not answers:
        yield
        return
    turn = cycle(answers)
    read = torch.Tensor.__bool__

    def answer(x: torch.Tensor) -> bool:
        value = read(x)
        return next(turn) if x.is_cuda else value

    torch.Tensor.__bool__ = answer
    try:
        yield
    finally:
        del torch.Tensor.__bool__


def trained(
    env,
    model: torch.nn.Module,
    inputs: dict,
    *,
    optimizer: str = "AdamW",
    autocast: torch.dtype | None = None,
    loss: Callable = lambda output: output.loss,
    answers: tuple[bool, ...] = (),
) -> None:
    """Two training steps of a model on the GPU, with a mark after each of their parts."""
    model = model.to(env.device).train()
    inputs = moved(inputs, env.device)
    stepper = optimizer_of(optimizer, [p for p in model.parameters() if p.requires_grad])
    env.mark("model")
    for i in range(2):
        with env.autocast(autocast) if autocast else nullcontext(), answered(env, answers):
            value = loss(model(**inputs))
        env.mark(f"forward {i}")
        with answered(env, answers):
            value.backward()
        env.mark(f"backward {i}")
        stepper.step()
        env.mark(f"step {i}")
        stepper.zero_grad()
        del value
        env.mark(f"zero_grad {i}")
