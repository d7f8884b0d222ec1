"""Programs that are run and reported: a small MLP, a tiny GPT, one that runs out of memory; made once for all tests."""

from functools import cache

import torch

from every_byte.report.report import Report
from every_byte.report.steps import Step
from utils import GPT, SimulatedGPU
from utils.experiments.training import random_tokens

COMMAND = ("every-byte", "run", "--steps", "3", "train.py")


class Steps:
    """Notes a step each time that it is told that one has ended."""

    def __init__(self, gpu: SimulatedGPU) -> None:
        self._gpu, self.found = gpu, []

    def end(self) -> None:
        gpu = self._gpu
        begin = self.found[-1].end if self.found else 0
        bytes_now = gpu.memory_allocated(), gpu.max_memory_allocated(), gpu.memory_reserved(), gpu.max_memory_reserved()
        self.found.append(Step(len(self.found) + 1, begin, len(gpu.trace), *bytes_now))
        gpu.reset_peak_memory_stats()


def mlp(gpu, n_steps: int, *, d: int = 301, b: int = 77) -> list[Step]:
    """An MLP, trained with AdamW."""
    steps = Steps(gpu)
    model = torch.nn.Sequential(torch.nn.Linear(d, 4 * d), torch.nn.GELU(), torch.nn.Linear(4 * d, d)).to(gpu.device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(n_steps):
        model(torch.randn(b, d, device=gpu.device)).sum().backward()
        optimizer.step()
        steps.end()
        optimizer.zero_grad()
    return steps.found


def gpt(gpu, n_steps: int, *, b: int = 4, n_layers: int = 3, d: int = 96, s: int = 64, steps: Steps | None = None):
    """A tiny GPT; the last logits stay, as a loop keeps them."""
    steps = steps or Steps(gpu)
    model = GPT(501, s, d, n_layers, 3, device=gpu.device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(n_steps):
        tokens, targets = random_tokens(gpu, b=b, s=s, V=501)
        with gpu.autocast(torch.bfloat16):
            _, loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        steps.end()
        optimizer.zero_grad()
    return steps.found


def reported(program, *arguments, gpu: str = "a100-80gb", settings: str = "", **about) -> Report:
    """The report of `program(gpu, …)`, which gives its steps."""
    with SimulatedGPU(gpu, settings=settings) as opened:
        steps = program(opened, *arguments)
    return Report.of(opened, steps=steps, **({"command": COMMAND, "seconds": 1.25} | about))


@cache
def of_an_mlp() -> Report:
    return reported(mlp, 3, ended="stopped after 3 optimizer steps, as --steps said")


@cache
def of_a_gpt() -> Report:
    return reported(gpt, 3, ended="the script ended")


@cache
def out_of_memory(n_steps: int = 0) -> Report:
    """A stack of linear layers that a T4 cannot hold, in the forward after so many steps of a smaller batch."""
    with SimulatedGPU("t4-16gb") as gpu:
        steps, ended = Steps(gpu), ""
        try:
            _stack(gpu, steps, n_steps)
        except torch.OutOfMemoryError as error:
            ended = f"torch.OutOfMemoryError: {error}"
    return Report.of(gpu, steps=steps.found, command=COMMAND, ended=ended, exit_code=1)


def _stack(gpu, steps: Steps, n_steps: int) -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(8000, 8000, device=gpu.device) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters())
    for b in [*[500] * n_steps, 60_000]:
        model(torch.randn(b, 8000, device=gpu.device)).sum().backward()
        optimizer.step()
        steps.end()
        optimizer.zero_grad()


@cache
def of_nothing() -> Report:
    return reported(lambda gpu: [], ended="the script ended")
