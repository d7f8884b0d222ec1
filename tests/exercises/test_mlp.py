"""What the judges of chapter 2 reply to an answer."""

import pytest
import torch
import torch.nn.functional as F

from utils.exercises import mlp

BSD = 8 * 2048 * 4096


def frozen(trained=9, front=0, after=4):
    return lambda b, s, d, e, L, f, end: (trained * (L - f) + (front if end == "first" else after) * f) * b * s * d * e


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (mlp.by_hand, 19 * BSD, "Right: 1,275,068,416 bytes"),
        (mlp.by_hand, 18 * BSD, "You left out the mask."),
        (mlp.by_hand, 20 * BSD, "takes one byte, not two."),
        (mlp.by_hand, 21 * BSD, "does not keep its output."),
        (mlp.by_hand, 22 * BSD, "has the shape of the output"),
        (mlp.by_hand, None, "No answer yet"),
        (mlp.freezing, frozen(), "Right: your function agrees to the byte in all 6 settings."),
        (mlp.freezing, frozen(front=9, after=9), "That is what they keep with nothing frozen."),
        (mlp.freezing, frozen(after=0), "still passes the gradient on. Which tensor does it need for that?"),
        (mlp.freezing, frozen(front=4), "so no GELU there keeps anything."),
        (mlp.freezing, frozen(after=5), "serve only the gradient of its weight, which is not required."),
        (mlp.freezing, frozen(after=8), "A frozen `down` does not keep its input."),
        (mlp.freezing, lambda b, s, d, e, L, f, end: None, "no answer yet"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + (b * s * d + 7) // 8, "Right: your function agrees"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8, "Round up"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d, "a whole byte for each element"),
        (mlp.packed_mask, lambda b, s, d, e: None, "no answer yet"),
        (mlp.gated, lambda b, s, d, w, e: (d + 4 * w) * b * s * e, "Right: your function agrees"),
        (mlp.gated, lambda b, s, d, w, e: (2 * d + 4 * w) * b * s * e, "Either x is counted twice, or the output"),
        (mlp.gated, lambda b, s, d, w, e: (d + 3 * w) * b * s * e, "keeps both its factors"),
        (mlp.gated, lambda b, s, d, w, e: (d + 2 * w) * b * s * e, "and what does the last Linear?"),
        (mlp.gated, lambda b, s, d, w, e: None, "no answer yet"),
    ],
)
def test_bytes(exercise, answer, reply):
    assert reply in str(exercise(answer))


def mean(h):
    return h.detach().mean()


def handed_over(up, down, x, log):
    h = up(x)
    log.append(h.detach())
    g = torch.maximum(h, torch.zeros_like(h))
    mask = (torch.rand_like(g, dtype=torch.float32) >= 0.1).float()
    return down((g * mask / 0.9).to(x.dtype))


def forward(relu=F.relu, logged=mean, p=0.1, dropout_first=True):
    def made(up, down, x, log):
        h = up(x)
        log.append(logged(h))
        return down(relu(F.dropout(h, p)) if dropout_first else F.dropout(relu(h), p))

    return made


def with_a_mask(dtype):
    def made(up, down, x, log):
        h = up(x)
        log.append(mean(h))
        return down(F.relu(h * (torch.rand_like(h) >= 0.1).to(dtype or h.dtype) / 0.9))

    return made


@torch.no_grad()
def without_a_graph(*args):
    return forward()(*args)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (forward(), "Right: your forward keeps 117,440,512 bytes (112 MiB)."),
        (with_a_mask(torch.bool), "Right: your forward keeps 117,440,512 bytes (112 MiB)."),
        (handed_over, "keeps 352,321,536 bytes (336 MiB), 3.0 times the goal. MulBackward0.other alone takes"),
        (handed_over, "how many bytes does an element of a mask need?"),
        (
            with_a_mask(None),
            "2 tensors are as large as h: MulBackward0.other, AddmmBackward0.mat1. A mask needs one byte",
        ),
        (
            forward(lambda h: torch.maximum(h, torch.zeros_like(h)), dropout_first=False),
            "3 tensors are as large as h: MaximumBackward0.other, MaximumBackward0.self, AddmmBackward0.mat1.",
        ),
        (forward(dropout_first=False), "so ReLU may come before them or after."),
        (forward(logged=lambda h: h.detach()), "1.6 times the goal. Autograd keeps no more than it must."),
        (forward(logged=lambda h: h.mean()), "what you log requires grad, so it holds its graph"),
        (forward(logged=lambda h: h.detach().sum()), "is not the mean of h."),
        (forward(logged=lambda h: 0.5), "the log must hold one tensor: got ['float']."),
        (forward(p=0.5), "dropout should set 1 element in 10 to zero, but you set"),
        (forward(relu=lambda h: F.relu(h) * 0.9), "the output is not down(dropout(ReLU(h))) for any mask"),
        (without_a_graph, "the output does not require grad"),
        (lambda up, down, x, log: forward()(up, down, x.detach(), log), "but the gradient of x is not."),
        (lambda up, down, x, log: down(forward()(up, down, x, log) @ up.weight.T), "You called it 2 times."),
        (lambda up, down, x, log: x.nothing, "your forward raised AttributeError"),
        (lambda up, down, x, log: None, "No answer yet"),
    ],
)
def test_the_lean_forward(answer, reply):
    assert reply in str(mlp.lean_forward(answer))
