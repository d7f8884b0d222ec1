"""What a simulated GPU counts, and what it says when something does not fit together."""

import gc
import sys
import warnings

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from running import ones
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from every_byte.gpu.device import current_gpu
from every_byte.gpu.memory.attachment import OPEN_MEMORIES
from every_byte.gpu.memory.specs import GPUSpec
from utils import SimulatedGPU, open_gpu

WORKSPACE = 8_519_680
SMALL = GPUSpec("tiny", "a GPU of 64 MiB", (8, 0), 64 * 2**20, 8, context_bytes=0)


# ------------------------------------------------------------------------------------------ what is counted


def test_blocks_are_multiples_of_512_bytes(gpu):
    x = ones(gpu, 3)
    assert gpu.memory_allocated() == 512
    assert gpu.memory_stats()["requested_bytes.all.current"] == 12
    assert gpu.memory_reserved() == 2 * 2**20
    del x
    assert gpu.memory_allocated() == 0
    assert gpu.max_memory_allocated() == 512
    gpu.reset_peak_memory_stats()
    assert gpu.max_memory_allocated() == 0
    gpu.empty_cache()
    assert gpu.memory_reserved() == 0


def test_views_and_in_place_operations_cost_nothing(gpu):
    x = ones(gpu, 256)
    before = gpu.memory_allocated()
    y = x.view(16, 16).t()[2:]
    y += 1
    parts = x.split(64)
    x.resize_(16)
    assert gpu.memory_allocated() == before
    del x, parts
    assert gpu.memory_allocated() == before, "a view keeps its storage"
    del y
    assert gpu.memory_allocated() == 0


def test_the_published_two_by_two_experiment(gpu):
    figures = [gpu.memory_allocated()]
    x = ones(gpu, 2, 2, requires_grad=True)
    figures.append(gpu.memory_allocated())
    y = x @ x
    figures.append(gpu.memory_allocated())
    gradient = ones(gpu, 2, 2)
    figures.append(gpu.memory_allocated())
    y.backward(gradient)
    assert figures == [0, 512, WORKSPACE + 1024, WORKSPACE + 1536]


def test_workspaces_belong_to_forward_and_backward(gpu):
    x = ones(gpu, 8, 8, requires_grad=True)
    y = (x @ x).sum()
    assert len(gpu._memory.blas_workspaces.taken) == 1
    y.backward()
    assert len(gpu._memory.blas_workspaces.taken) == 2


def test_dropout_keeps_a_boolean_mask(gpu):
    x = ones(gpu, 1000, dtype=torch.bfloat16)
    before = gpu.memory_stats()["requested_bytes.all.current"]
    y = F.dropout(x.requires_grad_(), 0.1)
    assert gpu.memory_stats()["requested_bytes.all.current"] - before == 2000 + 1000
    with torch.inference_mode():
        z = F.dropout(x, 0.1)
    assert [e.n_bytes for e in gpu.trace if e.action == "alloc"][-2:] == [1000, 2000], "the mask comes first"
    assert F.dropout(x, 0.0) is not None
    assert F.dropout(x, 0.1, training=False).untyped_storage()._cdata == x.untyped_storage()._cdata
    del y, z


def test_parameters_keep_their_identity_and_ties(gpu):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    parameters = list(model.parameters())
    model.to(gpu.device)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert model[0].weight is model[1].weight
    assert gpu.memory_stats()["requested_bytes.all.current"] == 4 * (16 + 4 + 4)


# ------------------------------------------------------------------------------------------ what goes wrong


def test_unknown_names():
    with pytest.raises(ValueError, match=r"got 'a100-81gb', known: a100-80gb, .*did you mean 'a100-[48]0gb'\?"):
        SimulatedGPU("a100-81gb")
    with pytest.raises(ValueError, match=r"name must be a known GPU: got 'abacus'"):
        open_gpu("abacus")
    with pytest.raises(ValueError, match="got 7"):
        open_gpu(7)


def test_no_gpu_is_open():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match=r'call open_gpu\("a100-80gb"\) first'):
        current_gpu()
    with pytest.raises(RuntimeError, match=r"PyTorch sees no GPU on this machine.* Use open_gpu\(\"a100-80gb\"\)"):
        open_gpu("live")


def test_a_failed_opening_leaves_the_open_gpu():
    gpu = open_gpu("a100-80gb")
    try:
        with pytest.raises(ValueError, match="abacus"):
            open_gpu("abacus")
        assert current_gpu() is gpu
    finally:
        gpu.close()


def test_a_model_left_on_the_cpu(gpu):
    model, x = nn.Linear(4, 4), ones(gpu, 2, 4)
    message = r"on one device.*a100-80gb and a CPU tensor of shape .*\.to\(gpu\.device\)"
    for call in (lambda: model(x), lambda: torch.randn(2, 4) @ x.t(), lambda: torch.cat([x, torch.ones(1, 4)])):
        with pytest.raises(RuntimeError, match=message):
            call()
    assert gpu.memory_allocated() == 512
    x + torch.tensor(1.0)  # a CPU scalar may take part, as on CUDA


def test_a_model_left_on_the_cpu_can_be_moved_while_the_error_is_alive(gpu):
    """A notebook keeps the last traceback, and with it the frames of the failed call."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), ones(gpu, 2, 3, 4).transpose(0, 1)
    with pytest.raises(RuntimeError, match="on one device") as caught:
        model(x)
    model.to(gpu.device)
    assert model(x).shape == (3, 2, 4)
    assert caught.value.__traceback__ is not None


def test_the_device_of_a_gpu_that_does_not_count(gpu):
    """Every simulated GPU's device is meta, so the mistake can only be seen where it is asked for."""
    closed = SimulatedGPU("t4-16gb")
    with pytest.raises(
        RuntimeError, match=r'must be open: t4-16gb is not; use `with SimulatedGPU\("t4-16gb"\) as gpu:`'
    ):
        torch.empty(3, device=closed.device)
    with closed as inner:
        with pytest.raises(
            RuntimeError, match="only the innermost open GPU counts: a100-80gb was asked, t4-16gb is it"
        ):
            torch.empty(3, device=gpu.device)
        torch.empty(3, device=inner.device)
    assert gpu.device == torch.device("meta")


def test_a_meta_tensor_from_outside(gpu):
    gpu.close()
    x = torch.ones(3, device="meta")
    with SimulatedGPU() as other:
        with pytest.raises(RuntimeError, match=r"made before or outside; make it again, with device=gpu.device"):
            x + 1
        assert other.memory_allocated() == 0


def test_out_of_memory_says_the_sizes_and_leaves_the_counts_right():
    with SimulatedGPU(SMALL) as gpu:
        x = ones(gpu, 4 * 2**20)
        message = (
            r"simulated tiny\): aten::ones.* asked for 62,914,560 bytes \(60 MiB\)\. .*67,108,864 bytes \(64 MiB\)"
            r".*holds 16,777,216 bytes \(16 MiB\): 16,777,216 bytes \(16 MiB\) allocated, 0 bytes reserved but not "
            r"allocated\. 50,331,648 bytes \(48 MiB\) are free\. Use a smaller batch"
        )
        with pytest.raises(torch.OutOfMemoryError, match=message):
            torch.ones(15 * 2**20, device=gpu.device)
        assert gpu.memory_allocated() == 16 * 2**20
        stats = gpu.memory_stats()
        assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 1)
        y = ones(gpu, 12 * 2**20)
        assert gpu.memory_allocated() == 64 * 2**20
        assert gpu.mem_get_info() == (0, 64 * 2**20)
        del x, y
        assert gpu.memory_allocated() == 0


def test_out_of_memory_in_backward_leaves_nothing_behind():
    with SimulatedGPU(SMALL) as gpu:
        model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(7))).to(gpu.device)
        with pytest.raises(torch.OutOfMemoryError):
            model(ones(gpu, 1500, 1024)).sum().backward()
        model.zero_grad()
        gc.collect()
        workspaces = sum(block.size_bytes for block, _ in gpu._memory.blas_workspaces.taken.values())
        assert gpu.memory_allocated() == 7 * 4 * 2**20 + workspaces


READS = [
    (lambda x: x.sum().item(), 0.0, r"a number or a truth of a tensor \(.item\(\), if\)"),
    (lambda x: bool(x.sum() > 1), False, "a number or a truth"),
    (lambda x: x.cpu().tolist(), [0.0, 0.0, 0.0], "aten::_to_copy"),
    (lambda x: torch.empty(3).copy_(x).tolist(), [0.0, 0.0, 0.0], "aten::copy_"),
]


def test_values_that_are_computed_are_zeros_and_each_line_says_so_once(gpu):
    x = torch.rand(3, device=gpu.device)
    for read, value, named in READS:
        with pytest.warns(UserWarning, match=f"nothing is computed on a simulated GPU: {named}.* reads? zeros at "):
            assert read(x) == value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(x) == value
    assert len(gpu.values_read) == len(READS)


def test_arguments_of_distributions_are_valid(gpu):
    logits, checked = torch.randn(4, 6, device=gpu.device), {"validate_args": True}  # PyTorch's compiler turns it off
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        action = torch.distributions.Categorical(logits=logits, **checked)
        assert torch.distributions.Normal(logits, logits.exp(), **checked).log_prob(logits).shape == (4, 6)
        assert action.log_prob(action.sample()).shape == (4,)
    assert not gpu.values_read
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Normal(torch.zeros(2), torch.tensor([1.0, -1.0]), **checked)


def test_what_is_not_modelled_is_named_at_the_line_of_the_program(gpu):
    x = ones(gpu, 4, 4)
    with pytest.warns(UserWarning, match="aten::nanmedian is not modelled: its outputs are counted") as told:
        y = x.nanmedian()
    assert (told[0].filename, told[0].lineno) == (__file__, sys._getframe().f_lineno - 1)
    assert gpu.unmodelled == {"aten::nanmedian"}
    assert gpu.memory_allocated() == 1024
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = x.nanmedian()
    del y


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda x: x.conj() @ x, "aten::mm of a conjugate"),
        (lambda x: x.norm(), "aten::linalg_vector_norm of complex numbers"),
        (lambda x: x.var(), "aten::var.correction of complex numbers"),
    ],
)
def test_kernels_of_complex_numbers_are_named(gpu, use, name):
    x = torch.zeros(4, 4, dtype=torch.complex64, device=gpu.device)
    with pytest.warns(UserWarning, match="is not modelled"):
        use(x)
    assert gpu.unmodelled == {name}


def test_types_that_cuda_refuses(gpu):
    """On meta PyTorch would accept these; on CUDA they are errors."""
    layer, half = nn.Linear(4, 4, device=gpu.device), ones(gpu, 2, 4, dtype=torch.bfloat16)
    for x in (half, half.unsqueeze(0)):
        with pytest.raises(RuntimeError, match="must be of one type: .* got .*bfloat16.*convert one"):
            layer(x)
    whole = ones(gpu, 3, 4, dtype=torch.int32)
    for call in (lambda: F.gelu(whole), lambda: whole @ whole.t(), lambda: F.softmax(whole, -1)):
        with pytest.raises(NotImplementedError, match="floating point.*try x.float"):
            call()
    with pytest.raises(IndexError, match="dim must be from -2 to 1 .* got dim=5"):
        F.softmax(ones(gpu, 3, 4), 5)


def test_numbers_on_the_cpu_beside_tensors_of_the_gpu(gpu):
    loss = ones(gpu, 3).sum()
    for result in (torch.tensor(0.0) + loss, torch.tensor(2.0) / loss, loss * 1j):
        assert result.is_meta
    assert (loss * 1j).dtype == torch.complex64
    with pytest.raises(RuntimeError, match="on one device"):
        torch.tensor(0.0).add_(loss)


def test_an_optimizer_that_is_capturable_keeps_its_steps_on_the_gpu(gpu):
    model = nn.Linear(4, 4, device=gpu.device)
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    model(ones(gpu, 2, 4)).sum().backward()
    optimizer.step()
    assert all(state["step"].is_meta for state in optimizer.state.values())


def test_asking_for_a_shape_takes_nothing(gpu):
    """Under FakeTensorMode nothing is allocated, on CUDA neither; what it says of a device does not matter."""
    x = ones(gpu, 10)
    with FakeTensorMode() as mode:
        torch.ones(1000, device="meta")
        torch.ones(1000).to(torch.bfloat16, copy=True).to("meta")
    with mode:
        mode.from_tensor(x) + 1
    assert gpu.memory_allocated() == gpu.max_memory_allocated() == 512


def test_a_wrapper_s_parts_are_counted_and_it_is_not(gpu):
    """Of a tensor that makes two of each operation."""
    x = TwoTensor(ones(gpu, 128), ones(gpu, 128))
    assert gpu.memory_allocated() == 1024
    y = x.exp()
    assert isinstance(y, TwoTensor)
    assert gpu.memory_allocated() == 2048
    del x, y
    assert gpu.memory_allocated() == 0


def test_a_closed_gpu_is_not_remembered():
    with SimulatedGPU() as gpu:
        torch.ones(3, device=gpu.device)
        assert len(OPEN_MEMORIES) == 1
    assert not OPEN_MEMORIES
