"""What the judge of chapter 8 replies to a change of a reader's own model: fewer bytes, the same gradients."""

import pytest
from own_model import account_of, encoder, own, saving

from every_byte.account import account, numbers
from utils.exercises.own_changed import cheaper

SMALL = {"b": 2, "s": 10}


def undropped(d, L):
    return encoder(d, L, dropout=0.0)


def shallower(d, L):
    return encoder(d, L - 1)


def failing(d, L):
    model = saving(d, L)
    model.register_forward_pre_hook(_refuse_the_cpu)
    return model


def _refuse_the_cpu(module, args):
    if args[0].device.type == "cpu":
        raise RuntimeError("no CPU here")


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "reply"),
    [
        (saving, "with the same gradients."),
        (encoder, "the peak must be at least 20% lower"),
        (undropped, "the gradients differ"),
        (shallower, "the parameters must stay as they are, but there were 38 with"),
        (failing, "on the CPU, at b=2, s=10, your model raised RuntimeError: no CPU here"),
    ],
)
def test_a_change(make, reply):
    big = {"b": 64, "s": 100}
    mine = own().at(**big)
    said = cheaper(mine, account_of(make, **big), SMALL, share=0.2 if make is encoder else 0.05)
    assert reply in repr(said)
    assert bool(said) == (make is saving)


def test_no_change_yet():
    assert "No answer yet" in repr(cheaper(own(), None, SMALL))
    assert "must be an account of the changed model: got int" in repr(cheaper(own(), 3, SMALL))


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"b": 3}, "letters"),
        ({"precision": "autocast"}, "precision"),
        ({"optimizer": "SGD"}, "optimizer"),
        ({"steps": 1}, "n_steps"),
        ({"gpu": "h100-80gb"}, "gpu"),
    ],
)
def test_the_rest_must_stay(changed, what):
    assert f"{what} must stay" in repr(cheaper(own(), account_of(saving, **changed), SMALL))


def test_without_parameters_that_change_there_is_nothing_to_compare():
    """A loss of another batch is another gradient: numbers are drawn from one seed."""
    again = account(
        saving, (numbers("b", "s", "d"),), loss=lambda output, batch: output.square().mean(), b=64, s=100, d=64, L=3
    )
    assert "the gradients differ" in repr(cheaper(own().at(b=64, s=100), again, SMALL))
