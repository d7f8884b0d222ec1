"""Calls of F.cross_entropy are seen under whatever name they are made, and what is answered is what is returned."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import cross_entropy

from every_byte.advice.cross_entropy import CrossEntropies, InPlace
from every_byte.advice.remedy import DoesNotApply

LOGITS, TARGETS = torch.randn(5, 7), torch.tensor([0, 1, 2, 3, 4])


@pytest.mark.parametrize("call", [F.cross_entropy, cross_entropy, nn.CrossEntropyLoss(ignore_index=3)])
def test_each_name_is_answered(call):
    seen = []

    def answer(one, whole):
        seen.append(one)
        return 2 * whole()

    wanted = 2 * call(LOGITS, TARGETS)
    with CrossEntropies(answer):
        assert call(LOGITS, TARGETS) == wanted
        assert LOGITS.sum() == torch.sum(LOGITS)
    assert call(LOGITS, TARGETS) == wanted / 2
    (one,) = seen
    assert one.logits is LOGITS
    assert one.targets is TARGETS
    assert one.is_plain_mean
    assert one.ignore_index == (3 if isinstance(call, nn.Module) else -100)


@pytest.mark.parametrize(
    "how", [{"weight": torch.ones(7)}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1},
            {"reduce": True}, {"size_average": True}],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:size_average and reduce args will be deprecated")
def test_others_are_no_plain_mean(how):
    seen = []
    with CrossEntropies(lambda one, whole: seen.append(one) or whole()):
        F.cross_entropy(LOGITS, TARGETS, **how)
    assert not seen[0].is_plain_mean


@pytest.mark.parametrize("n_calls", [0, 1, 2])
def test_it_is_called_once_in_each_forward(n_calls):
    model, names = nn.Identity(), {"chunked": lambda h, targets: h.sum()}
    in_place = InPlace(lambda output, batch: sum(F.cross_entropy(output, TARGETS) for _ in range(n_calls)), 7, -100)
    in_place.put_into(model, names)
    for _ in range(2):
        output = model(LOGITS)
        if n_calls == 1:
            assert in_place.loss(output, None) == LOGITS.sum()
        else:
            with pytest.raises(DoesNotApply, match=f"called {n_calls} times in a forward, and not once"):
                in_place.loss(output, None)


def test_where_the_model_has_its_loss_it_is_called_there():
    model, names = nn.Identity(), {"chunked": lambda h, targets: h.sum()}
    InPlace(None, 0, -100).put_into(model, names)
    with pytest.raises(DoesNotApply, match="called 0 times"):
        model(LOGITS)
