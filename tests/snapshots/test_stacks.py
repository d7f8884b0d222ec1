"""Of a call stack the user's own line is found, wherever torch and libraries lie, and what torch's own lines say."""

import pytest
from recorded_snapshots import frames

from every_byte.ledger.source_lines import Line, readable
from every_byte.snapshots.stacks import MOST_LINES, Stacks


@pytest.mark.parametrize(
    "library",
    [
        "site-packages/torch/nn/modules/linear.py",
        "/conda/lib/python3.11/site-packages/transformers/models/gpt2/modeling_gpt2.py",
        "/usr/lib/python3/dist-packages/torch/_tensor.py",
        "/usr/local/lib/python3.12/contextlib.py",
        "C:\\env\\Lib\\site-packages\\torch\\nn\\modules\\module.py",
        "/data/me/pytorch/torch/nn/functional.py",
        "/data/me/pytorch/torch/_tensor.py",
        "/data/me/pytorch/torch/optim/adamw.py",
        "<frozen runpy>",
        "<eval_with_key>.3",
        "/scratch/torchinductor_me/ab/cabc.py",
    ],
)
def test_libraries_are_not_the_users_own(library):
    stack = Stacks().of(frames(f"{library}:5 forward", "/data/me/train.py:12 main"))
    assert stack.lines == (Line("/data/me/train.py", 12, "main"),)


@pytest.mark.parametrize(
    "own", ["/data/me/torch/train.py", "torch_utils.py", "/data/my-torch/nn.py", "/scratch/ipykernel_3/1.py", "<stdin>",
            "<ipython-input-3-ab>", "/data/me/lib/python/model.py"]
)  # fmt: skip
def test_the_users_own(own):
    assert Stacks().of(frames(f"{own}:5 forward", "site-packages/a.py:1 b")).line == Line(own, 5, "forward")


def test_operator_and_node():
    stack = Stacks().of(frames(node="MmBackward0", operator="mm"))
    assert (stack.maker.operation, stack.maker.node, stack.line) == ("aten::mm", "MmBackward0", None)
    assert stack.in_backward
    assert stack.has_cpp
    assert not Stacks().of(frames("a.py:1 f")).has_cpp


def test_what_it_passes():
    stack = Stacks().of(frames("site-packages/torch/optim/adamw.py:9 step", "/x/pytorch/torch/nn/modules/m.py:1 run"))
    assert stack.passes("optim/*:step")
    assert stack.passes("optim/*:")
    assert stack.passes("nn/modules/m.py:run")
    assert not stack.passes("optim/*:_init_group", "nn/*:forward", "nn/modules/m.py:step")


def test_labels_of_a_simulated_gpu():
    said = {"operation": "aten::relu", "node": "", "module": "up", "phase": "backward"}
    stack = Stacks().of([{"filename": name, "line": 0, "name": what} for name, what in said.items()])
    assert stack.label("module") == "up"
    assert stack.maker.operation == "aten::relu"
    assert stack.in_backward


def test_equal_frames_are_read_once():
    shared = frames("a.py:1 f", "b.py:2 g")
    stacks = Stacks()
    assert stacks.of(shared) is stacks.of(list(shared))
    assert stacks.files() == {"a.py", "b.py"}


def test_a_stack_without_end():
    assert len(Stacks().of(frames(*["a.py:1 f"] * 5000)).lines) == MOST_LINES


def test_words_are_readable():
    assert readable("größer.py") == "größer.py"
    assert readable("a\x1b[1m\n\u202e\udc80b") == r"a\x1b[1m\x0a\u202e\udc80b"
    assert len(readable("x" * 10**6)) == 200
