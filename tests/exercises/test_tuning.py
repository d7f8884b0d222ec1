"""What a reader of chapter 1 is told about a training loop that was handed over wasteful."""

from functools import partial

import pytest
import torch

from utils.exercises.tuning import lean_enough


def tune(model, batches, *, retain=False, first=True, keep=float, optimizer=None, zero=True, freeze=11):
    """The training with some of its faults: a retained graph, the wrong end frozen, losses kept as tensors."""
    layers = [model.first, *model.hidden, model.last]
    for layer in layers[:freeze] if first else layers[-freeze:]:
        layer.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = (optimizer or partial(torch.optim.SGD, momentum=0.9))(trained, lr=0.01)
    losses = []
    for batch in batches:
        loss = model(batch).square().mean()
        loss.backward(retain_graph=retain)
        optimizer.step()
        if zero:
            optimizer.zero_grad()
        losses.append(keep(loss.detach()) if keep is float else keep(loss))
    return losses


AS_HANDED_OVER = {"retain": True, "first": False, "keep": lambda loss: loss}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("faults", "reply"),
    [
        ({}, "Right: the peak is "),
        ({"keep": lambda loss: loss.item()}, "Right: the peak is "),
        (
            AS_HANDED_OVER,
            "so each batch leaves 540,672 bytes (528 KiB) allocated. What does a loss in a list keep alive?",
        ),
        (AS_HANDED_OVER | {"retain": False}, "so each batch leaves 512 bytes allocated. That is the loss itself"),
        ({"keep": lambda loss: loss.detach()}, "so each batch leaves 512 bytes allocated. That is the loss itself"),
        ({"first": False}, "needs their results. Which layers are frozen?"),
        ({"retain": True}, "are the last graph and the last gradients gone?"),
        ({"zero": False}, "on that batch's gradients alone?"),
        ({"optimizer": torch.optim.SGD}, "Does each batch get one step of SGD with momentum"),
        ({"freeze": 12}, "freeze 11 of the 22 layers, whichever you like: got 12 frozen."),
        ({"keep": lambda loss: 0.0}, "got 0, 0, 0."),
    ],
)
def test_a_reply(faults, reply):
    assert reply in str(lean_enough(partial(tune, **faults)))


def test_what_is_no_training():
    assert str(lean_enough(lambda model, batches: None)).startswith("No answer yet")
    assert "your function raised ZeroDivisionError" in str(lean_enough(lambda model, batches: 1 / 0))
