"""Recurrent layers with cuDNN: flagged by the module's name, their weights in one buffer."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.filterwarnings("ignore:nn.")
def test_the_module_is_flagged_and_its_weights_lie_in_one_buffer(gpu, kind):
    layer = kind(5, 6, 2, bidirectional=True).to(gpu.device)
    x = torch.zeros(7, 4, 5, device=gpu.device, requires_grad=True)
    output = layer(x)[0]
    output.sum().backward()
    assert output.shape == (7, 4, 12)
    assert gpu.unmodelled == {f"nn.{kind.__name__} (cuDNN's reserve and workspace)"}
    assert len({p.untyped_storage()._cdata for p in layer.parameters()}) == 1
    assert len({p.grad.untyped_storage()._cdata for p in layer.parameters()}) == 1


@pytest.mark.filterwarnings("ignore:nn.")
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_have_their_lengths_on_the_cpu(gpu, batch_first):
    x = torch.zeros(4, 4, 5, device=gpu.device, requires_grad=True)
    packed = pack_padded_sequence(x, torch.tensor([4, 3, 3, 1]), batch_first=batch_first)
    assert packed.batch_sizes.tolist() == [4, 3, 3, 1]
    assert packed.data.shape == (11, 5)
    output, lengths = pad_packed_sequence(nn.GRU(5, 6, device=gpu.device)(packed)[0], batch_first=batch_first)
    output.sum().backward()
    assert lengths.tolist() == [4, 3, 3, 1]
    assert x.grad.shape == x.shape
