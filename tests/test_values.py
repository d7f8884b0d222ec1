"""What a simulated GPU answers where a program asks for values: zeros, or an error that names the operation."""

import warnings

import pytest
import torch
from running import ones

MESSAGE = r"shape of a result must not depend on values: aten::{} on the simulated GPU a100-80gb .*torch\.where"
SHAPE_FROM_VALUES = {
    "nonzero": lambda x: x.nonzero(),
    "index.Tensor": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "_unique2": lambda x: x.unique(),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "repeat_interleave.Tensor": lambda x: x.repeat_interleave(x[0].long(), 0),
    "index_put_": lambda x: x.__setitem__(x > 0, x[0, :1].expand(3)),
}


@pytest.mark.parametrize("name", SHAPE_FROM_VALUES)
def test_shapes_that_depend_on_values(gpu, name):
    x = ones(gpu, 4, 4)
    with pytest.raises(RuntimeError, match=MESSAGE.format(name.replace(".", r"\."))):
        SHAPE_FROM_VALUES[name](x)


def test_a_mask_from_the_cpu_has_values(gpu):
    x = ones(gpu, 4, 4)
    assert x[torch.tensor([True, False, True, True])].shape == (3, 4)


def test_one_value_put_under_a_mask_is_a_fill(gpu):
    x = ones(gpu, 4, 4)
    x[x > 0] = 1.0
    assert not gpu.unmodelled


def test_a_number_put_at_an_index_stays_on_the_cpu(gpu):
    x = ones(gpu, 4, 4)
    before = len(gpu.trace)
    x[:, 1] = 2.0
    assert len(gpu.trace) == before
    torch.scalar_tensor(2.0, device=gpu.device)
    assert len(gpu.trace) == before + 2, "a scalar that the program itself makes on the GPU lies there"


def test_lists_as_indices(gpu):
    x = ones(gpu, 4, 4)
    before = gpu.memory_stats()["requested_bytes.all.current"]
    y = x[:, [0, 1, 2]]
    assert gpu.memory_stats()["requested_bytes.all.current"] - before == y.nbytes
    foreign = torch.empty_strided((2,), (1,), dtype=torch.int64, device="cpu")
    assert x[foreign].shape == (2, 4)


def test_pinned_memory_is_the_hosts(gpu):
    x = torch.ones(3).pin_memory().to(gpu.device, non_blocking=True)
    assert gpu.memory_stats()["requested_bytes.all.current"] == x.nbytes


def test_equality_compares_zeros_and_says_so(gpu):
    with pytest.warns(UserWarning, match="aten::equal reads zeros"):
        assert torch.equal(ones(gpu, 3), ones(gpu, 3))
    assert not torch.equal(ones(gpu, 3), ones(gpu, 4))


def test_weighted_smoothing_depends_on_values_and_is_named(gpu):
    x, target = ones(gpu, 4, 8), torch.zeros(4, dtype=torch.int64, device=gpu.device)
    with pytest.warns(UserWarning, match="cross_entropy_loss with weight and label_smoothing is not modelled"):
        torch.nn.functional.cross_entropy(x, target, weight=ones(gpu, 8), label_smoothing=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.nn.functional.cross_entropy(x, target, weight=ones(gpu, 8), label_smoothing=0.1)
    assert gpu.unmodelled == {"aten::cross_entropy_loss with weight and label_smoothing"}


def test_a_failed_operation_holds_no_tensor(gpu):
    x = ones(gpu, 256)
    before = gpu.memory_allocated()
    try:
        (x * 2).view(16, 16) @ x.view(1, 256)
    except RuntimeError:
        assert gpu.memory_allocated() == before


def test_a_loss_in_a_formatted_string(gpu):
    loss = torch.ones(3, device=gpu.device).sum()
    with pytest.warns(UserWarning, match="nothing is computed on a simulated GPU"):
        assert f"{loss:.3f}" == "0.000"
