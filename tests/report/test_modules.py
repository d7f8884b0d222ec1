"""Bytes by module, where a model is a stack of numbered layers: by class, and each for itself where there are few."""

import torch
from reported import reported
from torch import nn

from every_byte.report.modules import largest_parts
from every_byte.report.render.text import _ends
from every_byte.step.training import Training


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return self.last(self.first(x))


def modules_of(report) -> set[str]:
    return {row.module for row in report.account.rows} - {""}


def stack(*layers):
    def program(gpu):
        model = nn.Sequential(*layers).to(gpu.device)
        model(torch.randn(32, 64, device=gpu.device)).sum().backward()
        return []

    return reported(program)


def test_a_stack_shows_its_layers_by_class():
    report = stack(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    assert {"0 Linear", "2 Linear"} <= modules_of(report) <= {"0 Linear", "1 ReLU", "2 Linear"}
    parts = {part.path: part for part in largest_parts(report.account.rows, 7)}
    assert {"0 Linear", "2 Linear"} <= parts.keys()
    assert parts["0 Linear"].n_modules == 1
    assert "0 Linear " in repr(report)
    assert "* Linear " in repr(report).split("the largest owners")[1]


def test_of_many_layers_those_of_a_class_are_one_line():
    report = stack(*[layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.Tanh())])
    parts = {part.path: part.n_modules for part in largest_parts(report.account.rows, 7)}
    assert parts["* Linear"] == 12
    assert "*" not in parts


def test_a_stack_within_a_model_is_shown_likewise_and_blocks_are_of_one_kind():
    class Outer(nn.Module):
        def __init__(self, main):
            super().__init__()
            self.main = main

        def forward(self, x):
            return self.main(x)

    report = stack(Outer(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))))
    assert "0.main.0 Linear" in modules_of(report)
    blocks = stack(*[Net() for _ in range(3)])
    assert blocks.trace.names is None
    assert "1.first" in modules_of(blocks)


def test_layers_of_two_stacks_are_told_apart():
    def program(gpu):
        netG, netD = nn.Sequential(nn.Linear(64, 64), nn.Tanh()), nn.Sequential(nn.Linear(64, 64), nn.Sigmoid())
        netG, netD = netG.to(gpu.device), netD.to(gpu.device)
        with Training(gpu):
            netD(netG(torch.randn(8, 64, device=gpu.device))).sum().backward()
        return []

    assert {"Sequential (netG).0 Linear", "Sequential (netD).0 Linear"} <= modules_of(reported(program))


def test_a_long_name_keeps_its_model_and_its_end():
    assert _ends("Net.a", 30) == "Net.a"
    long = "Net (teacher).encoder.layers.*.attention.self.query"
    assert _ends(long, 30) == "Net (teacher).…tion.self.query"
    assert len(_ends(long, 30)) == 30
    assert _ends("A" * 28 + ".first.second", 30) == "…" + ("A" * 28 + ".first.second")[-29:]
