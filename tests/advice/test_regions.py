"""Regions are found by repetition, outermost first, and written as one would write them."""

import pytest
import torch
from torch import nn

from every_byte.advice.regions import all_of, attribute, checkpoints, repeated_in, repeated_within
from every_byte.advice.remedy import Left


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4)))

    def forward(self, x):
        return self.inner(x)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(Block() for _ in range(3))
        self.decoder = nn.Sequential(nn.Linear(4, 4), Block(), Block())

    def forward(self, x):
        for block in self.encoder:
            x = block(x)
        return self.decoder(x)


def test_outermost_first_and_of_one_class():
    found = repeated_in(Two())
    assert [(one.path, one.names, one.are_all) for one in found] == [
        ("encoder", ("0", "1", "2"), True), ("decoder", ("1", "2"), False),
    ]  # fmt: skip
    assert all_of(found) == ('[*model.encoder, *[m for m in model.decoder.children() if type(m).__name__ == "Block"]]')
    model = Two()
    assert len(eval(all_of(found), {"model": model})) == 5


def test_stages_that_are_plain_sequentials_are_looked_into():
    stages = nn.Sequential(nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block()))
    assert [one.path for one in repeated_in(stages)] == ["0", "1"]
    assert all_of(repeated_in(stages)) == "[*model[0], *model[1]]"
    rows = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3)))
    assert [one.code for one in repeated_in(rows)] == ["model"]


class Stage(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.down = nn.Linear(4, 4)
        self.blocks = nn.Sequential(*(Block() for _ in range(depth)))

    def forward(self, x):
        return self.blocks(self.down(x))


class Staged(nn.Module):
    def __init__(self, *depths: int) -> None:
        super().__init__()
        self.stages = nn.Sequential(*(Stage(depth) for depth in depths))

    def forward(self, x):
        return self.stages(x)


def test_blocks_within_stages_are_offered_beside_the_stages():
    model = Staged(2, 3, 4)
    stages = repeated_in(model)
    assert [one.code for one in stages] == ["model.stages"]
    blocks = repeated_within(model, stages)
    assert all_of(blocks) == "[m for part in model.stages[:3] for m in part.blocks]"
    assert eval(all_of(blocks), {"model": model}) == [m for m in model.modules() if isinstance(m, Block)]
    names = [offer.name for offer in checkpoints(model)]
    assert names[:2] == ["checkpoint, 3 regions", "checkpoint, 9 regions within the 3"]


def test_a_stage_without_repeated_blocks_leaves_no_number_out():
    model = Staged(2, 1, 4)
    blocks = repeated_within(model, repeated_in(model))
    assert all_of(blocks) == "[*model.stages[0].blocks, *model.stages[2].blocks]"
    assert len(eval(all_of(blocks), {"model": model})) == 6


def test_blocks_of_plain_sequentials_are_not_looked_into_twice():
    assert repeated_within(Two(), repeated_in(Two())) == []


def test_layers_alone_are_no_regions():
    assert repeated_in(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))) == []
    (left,) = checkpoints(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    assert isinstance(left, Left)
    assert "repeat" in left.reason


@pytest.mark.parametrize(
    ("path", "code"), [("", "model"), ("layers.0.mlp", "model.layers[0].mlp"), ("3.1", "model[3][1]")]
)
def test_a_path_as_code(path, code):
    assert attribute("model", path) == code


def test_batch_norm_within_a_region_is_said():
    net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(4)))
    whole, half = checkpoints(net)
    assert "updated once more in backward" in whole.note
    assert half.name == "checkpoint, every second region"


def test_the_lines_run():
    model = Two()
    x = torch.ones(2, 4, requires_grad=True)
    from every_byte.advice.remedy import with_lines
    from every_byte.step.training_step import TrainingStep

    (whole, _) = checkpoints(model)
    step = TrainingStep(lambda: model, (x,))
    y = with_lines(step, whole.apply(step).lines)._model()(x)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        model(x)
    assert y.grad_fn is not None
    assert len(saved) < 10
