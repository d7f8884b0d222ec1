"""What a reader of chapter 2 is told about an answer."""

import pytest
import torch
import torch.nn.functional as F

from utils.exercises import mlp

BSD = 8 * 2048 * 4096


def frozen(trained=9, front=0, behind=4):
    return lambda b, s, d, e, L, f, end: (trained * (L - f) + (front if end == "first" else behind) * f) * b * s * d * e


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (mlp.by_hand, 19 * BSD, "Right: 1,275,068,416 bytes"),
        (mlp.by_hand, 18 * BSD, "You left the mask out."),
        (mlp.by_hand, 20 * BSD, "takes one byte, not two."),
        (mlp.by_hand, None, "No answer yet"),
        (mlp.freezing, frozen(), "Right: your function agrees to the byte in all 6 settings."),
        (mlp.freezing, frozen(front=9, behind=9), "That is with nothing frozen."),
        (mlp.freezing, frozen(behind=0), "lets the gradient pass: what does that ask for?"),
        (mlp.freezing, frozen(front=4), "so no GELU there keeps anything."),
        (mlp.freezing, frozen(behind=5), "for the gradient of its weight, which nobody asks for."),
        (mlp.freezing, frozen(behind=8), "A frozen `down` does not keep its input."),
        (mlp.freezing, lambda b, s, d, e, L, f, end: None, "no answer yet"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + (b * s * d + 7) // 8, "Right: your function agrees"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8, "Round up"),
        (mlp.packed_mask, lambda b, s, d, e: 5 * b * s * d * e + b * s * d, "a byte for each element"),
        (mlp.packed_mask, lambda b, s, d, e: None, "no answer yet"),
        (mlp.gated, lambda b, s, d, w, e: (d + 4 * w) * b * s * e, "Right: your function agrees"),
        (mlp.gated, lambda b, s, d, w, e: (2 * d + 4 * w) * b * s * e, "is x counted twice, or the output"),
        (mlp.gated, lambda b, s, d, w, e: (d + 3 * w) * b * s * e, "keeps both its factors"),
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
        (forward(), "Right: 117,440,512 bytes (112 MiB) are kept."),
        (with_a_mask(torch.bool), "Right: 117,440,512 bytes (112 MiB) are kept."),
        (handed_over, "352,321,536 bytes (336 MiB) are kept, 234,881,024 bytes (224 MiB) too many. MulBackward0.other"),
        (handed_over, "how many does an element of a mask need?"),
        (
            with_a_mask(None),
            "2 tensors are as large as h: MulBackward0.other, AddmmBackward0.mat1. A mask needs a byte",
        ),
        (
            forward(lambda h: torch.maximum(h, torch.zeros_like(h)), dropout_first=False),
            "3 tensors are as large as h: MaximumBackward0.other, MaximumBackward0.self, AddmmBackward0.mat1.",
        ),
        (forward(dropout_first=False), "so ReLU may come before them or after."),
        (forward(logged=lambda h: h.detach()), "67,108,864 bytes (64 MiB) too many. Autograd keeps no more than"),
        (forward(logged=lambda h: h.mean()), "what is logged requires grad: it holds its graph"),
        (forward(logged=lambda h: h.detach().sum()), "is not the mean of h."),
        (forward(logged=lambda h: 0.5), "the log must hold one tensor: got ['float']."),
        (forward(p=0.5), "dropout sets 1 in 10 to zero: of the positive elements of h,"),
        (forward(relu=lambda h: F.relu(h) * 0.9), "the output is not down(dropout(ReLU(h))) for any mask"),
        (without_a_graph, "the output requires no grad"),
        (lambda up, down, x, log: forward()(up, down, x.detach(), log), "but the gradient of x is not."),
        (lambda up, down, x, log: down(forward()(up, down, x, log) @ up.weight.T), "it was called 2 times."),
        (lambda up, down, x, log: x.nothing, "your forward raised AttributeError"),
        (lambda up, down, x, log: None, "No answer yet"),
    ],
)
def test_the_mended_forward(answer, reply):
    assert reply in str(mlp.mended_forward(answer))
