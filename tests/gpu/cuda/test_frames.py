"""A traceback ends at the line that called PyTorch, as on a card, whoever prints it."""

import io
import logging
import sys
import threading
import traceback

import pytest
import torch
from places import ROOT
from torch import nn

from every_byte.gpu.cuda import frames
from utils import SimulatedGPU

OURS = f"{ROOT}/every_byte/"


@pytest.fixture(autouse=True)
def gpu():
    with SimulatedGPU("t4-16gb", cuda=True) as opened:
        yield opened


def too_much():
    return torch.empty(1 << 40, device="cuda")


def moved():
    return nn.Linear(1 << 17, 1 << 17, device="meta").to_empty(device="cuda")


def in_backward():
    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return too_much()

    Greedy.apply(torch.ones(2, device="cuda", requires_grad=True)).sum().backward()


def wrong_shapes():
    torch.ones(2, 3, device="cuda") @ torch.ones(2, 3, device="cuda")


def other_device():
    torch.ones(2, device="cuda") + torch.ones(2)


def other_gpu():
    torch.ones(2, device="cuda:7")


def chained():
    try:
        too_much()
    except torch.OutOfMemoryError as error:
        raise ValueError("no room") from error


FAILING = [too_much, moved, in_backward, wrong_shapes, other_device, other_gpu, chained]


@pytest.fixture(params=FAILING, ids=lambda function: function.__name__)
def failing(request):
    return request.param


def test_traceback_and_logging(failing):
    said = io.StringIO()
    logger = logging.Logger("own")
    logger.addHandler(logging.StreamHandler(said))
    try:
        failing()
    except Exception as error:
        logger.exception("failed")
        whole = said.getvalue() + traceback.format_exc() + "".join(traceback.format_exception(error))
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert f", in {failing.__name__}\n" in whole
    assert __file__ in files
    assert OURS not in whole
    assert not [file for file in files if file.startswith(OURS)]


def test_all_frames_are_shown_where_one_asks_for_them(monkeypatch):
    monkeypatch.setenv(frames.ALL_FRAMES, "1")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        too_much()
    assert OURS in "".join(traceback.format_exception(caught.value))


def test_a_mistake_of_ours_shows_where_it_is(monkeypatch):
    name = f"{OURS}gpu/rule.py"
    scope: dict = {}
    exec(compile("def rule(sizes):\n    return sizes['none']", name, "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["rule"]({})
    assert name in "".join(traceback.format_exception(caught.value))
    exec(compile("def rule(sizes):\n    raise KeyError('refused')", name, "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["rule"]({})
    assert name not in "".join(traceback.format_exception(caught.value))


def test_python_prints_as_before_once_the_gpu_is_closed():
    walks = traceback.walk_tb, threading.excepthook, sys.unraisablehook
    with SimulatedGPU("t4-16gb", cuda=True):
        pass
    assert walks == (traceback.walk_tb, threading.excepthook, sys.unraisablehook)


@pytest.mark.parametrize(
    "fail", [lambda x: x.sort(dim=0), lambda x: x.float().cumsum(0), lambda x: torch.stack([x] * 9)]
)
def test_an_error_that_is_kept_holds_no_tensor(gpu, fail):
    """On a card what an operation had allocated before it failed goes with it, though the program keeps the error."""
    x = torch.ones(1 << 31, 2, device="cuda", dtype=torch.float16)
    before, kept = gpu.memory_allocated(), []
    for _ in range(2):
        try:
            fail(x)
        except torch.OutOfMemoryError as error:
            kept.append(error)
        assert gpu.memory_allocated() == before
    assert len(kept) == 2
