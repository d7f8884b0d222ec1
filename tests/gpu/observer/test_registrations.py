"""What modules register is heard by whoever observes, whichever thread comes and goes."""

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from every_byte.gpu.observer import registrations
from utils import SimulatedGPU


def test_a_gpu_that_opens_and_closes_while_a_module_registers_does_not_end_it():
    """As one of another thread does whenever Python gives that thread its turn."""
    n_opened = 0

    def another(*_):
        nonlocal n_opened
        with SimulatedGPU("a100-80gb"):
            n_opened += 1

    another()
    handle = register_module_parameter_registration_hook(another)
    try:
        with SimulatedGPU("a100-80gb"):
            nn.Linear(2, 2)
    finally:
        handle.remove()
    assert n_opened == 3


def test_who_observes_hears_until_it_ends():
    heard = []

    def hear(_module, name, tensor):
        heard.append((name, tensor.numel()))

    registrations.observe(hear)
    nn.Linear(2, 2, bias=False).register_buffer("mask", torch.ones(1))
    registrations.end(hear)
    registrations.end(hear)
    nn.Linear(2, 2)
    assert heard == [("weight", 4), ("mask", 1)]
