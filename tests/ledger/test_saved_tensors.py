"""Which module, node and slot of a graph keeps what: the rows of a SavedTensorContext."""

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Shard, distribute_tensor

from every_byte.gpu.ranks import ranks
from every_byte.ledger.saved_tensors import as_text, storages_of
from utils import MLP, SavedTensorContext


def leaf(*shape, device, **more):
    return torch.ones(*shape, device=device, requires_grad=True, **more)

    model = nn.Sequential(MLP(4, "relu", device=device), nn.Tanh())
    x = leaf(2, 3, 4, device=device)
    with SavedTensorContext(model.parameters()) as saved:
        y = model(x)
    rows = saved.rows(y)
    assert [(row.module, row.node, row.slot, row.shape, row.storage_bytes) for row in rows] == [
        ("0.up", "AddmmBackward0", "mat1", (6, 4), 96),
        ("0.activation", "ReluBackward0", "result", (2, 3, 16), 384),
        ("0.down", "AddmmBackward0", "mat1", (6, 16), 384),
        ("1", "TanhBackward0", "result", (2, 3, 4), 96),
    ]
    assert {row.dtype for row in rows} == {torch.float32}
    assert rows[1].storage == rows[2].storage
    assert len({row.storage for row in rows}) == 3


def test_slots_that_hold_lists():
    x, index = torch.ones(3, 4, requires_grad=True), torch.tensor([0, 2])
    with SavedTensorContext() as saved:
        y = x[index]
    assert [(row.node, row.slot, row.storage_bytes) for row in saved.rows(y)] == [("IndexBackward0", "indices[0]", 16)]


def test_a_sequence_of_outputs_shares_what_they_share(device):
    x = leaf(5, device=device)
    with SavedTensorContext() as saved:
        h = x.exp()
        outputs = (h.sin(), h.cos())
    assert len(saved.rows(outputs[0])) == 2
    assert len(saved.rows(outputs)) == 3
    assert {row.storage_bytes for row in saved.rows(outputs)} == {20}
    assert len({row.storage for row in saved.rows(outputs)}) == 1


def test_what_no_output_leads_to_has_no_row(device):
    x = leaf(5, device=device)
    with SavedTensorContext() as saved:
        y, other = x.exp(), x.exp()
    assert [row.slot for row in saved.rows(y)] == ["result"]
    assert saved.saved_tensor_mem == 40
    del other


def test_operations_that_change_a_view_in_place(device):
    class InPlace(nn.Module):
        def forward(self, x):
            return nn.functional.silu(nn.functional.silu(x.view(-1), inplace=True), inplace=True)

    model, x = nn.Sequential(nn.Sigmoid(), InPlace()), leaf(5, device=device)
    with SavedTensorContext() as saved:
        other = model(x)
        y = model(x)
    rows = saved.rows(y)
    assert [(r.module, r.node, r.slot) for r in rows] == [
        ("0", "SigmoidBackward0", "result"),
        ("1", "CopySlices", ""),
        ("1", "CopySlices", ""),
    ]
    assert len({row.storage for row in rows}) == 3
    assert not {row.storage for row in rows} & {row.storage for row in saved.rows(other)}
    assert saved.saved_tensor_mem == 2 * 60


def test_nothing_is_found_after_backward(device):
    x = leaf(3, 5, device=device)
    with SavedTensorContext() as saved:
        y = x.exp()
    y.sum().backward(retain_graph=True)
    assert len(saved.rows(y)) == 1
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward has freed ExpBackward0's saved tensors; ask for the rows"):
        saved.rows(y)


def test_nothing_is_found_of_a_list_after_backward():
    with SavedTensorContext() as saved:
        y = torch.ones(3, requires_grad=True)[torch.tensor([0, 2])]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward has freed IndexBackward0's saved tensors"):
        saved.rows(y)


def test_a_custom_function_after_backward():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with SavedTensorContext() as saved:
        y = Same.apply(torch.ones(5, requires_grad=True))
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward has freed SameBackward's saved tensors"):
        saved.rows(y)


def test_outputs_that_have_no_graph():
    saved = SavedTensorContext()
    with pytest.raises(ValueError, match=r"output must have a grad_fn: got a tensor of shape \(2, 3\) without one"):
        saved.rows(torch.ones(2, 3))
    with pytest.raises(TypeError, match="output must be a tensor or a sequence of tensors: got str"):
        saved.rows(["y"])


def test_what_was_saved_outside_the_context_has_no_row(device):
    x = leaf(5, device=device)
    before = x.sin()
    with SavedTensorContext() as saved:
        y = x.cos()
    assert [row.node for row in saved.rows([before, y])] == ["CosBackward0"]


def test_rows_as_text():
    layer = nn.Linear(4, 2)
    with SavedTensorContext(layer.parameters()) as saved:
        y = layer(torch.ones(3, 4))
    assert as_text(saved.rows(y)) == (
        "module  node            slot  shape   type     bytes\n        AddmmBackward0  mat1  (3, 4)  float32     48"
    )


def test_of_a_dtensor_its_share_is_kept():
    """It consists of a tensor and of the mesh of its ranks, which has no storage."""
    with ranks(4) as mesh:
        x = distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)], src_data_rank=None).requires_grad_()
        with SavedTensorContext() as saved:
            y = x.exp()
        [row] = saved.rows(y)
        assert (row.node, row.slot, row.shape, row.storage_bytes) == ("ExpBackward0", "result", (8, 4), 4 * 2 * 4)
        assert [storage._cdata for storage in storages_of(y)] == [y.to_local().untyped_storage()._cdata]
