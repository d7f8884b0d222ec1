"""What a simulated GPU answers where a program asks for values that are computed: zeros, or an error."""

import warnings

import pytest
import torch
from running import ones

from utils import Ledger, SimulatedGPU

MESSAGE = r"must not depend on values that are computed: aten::{} on the simulated GPU a100-80gb .*torch\.where"


def computed(gpu, *shape: int) -> torch.Tensor:
    """A tensor of which the host knows nothing."""
    return torch.rand(*shape, device=gpu.device)


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
def test_shapes_that_depend_on_values_where_nothing_is_assumed(name):
    with SimulatedGPU(assume=["nonzero=refuse"]) as gpu:
        _refused(gpu, name)


def _refused(gpu, name):
    x = computed(gpu, 4, 4)
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
        assert torch.equal(computed(gpu, 3), ones(gpu, 3))
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
    loss = computed(gpu, 3).sum()
    with pytest.warns(UserWarning, match="nothing is computed on a simulated GPU"):
        assert f"{loss:.3f}" == "0.000"


# ------------------------------------------------------------------------------------------ printing

ROWS, NONE = "[[0., 0., 0.],\n        [0., 0., 0.]]", "[False, False, False]"
PRINTED = [
    (lambda x: repr(x), f"tensor({ROWS}, device='meta', size=(2, 3))"),
    (lambda x: str(x[0].bfloat16()), "tensor([0., 0., 0.], device='meta', size=(3,), dtype=torch.bfloat16)"),
    (lambda x: f"{x[1] > 0}", f"tensor({NONE}, device='meta', size=(3,), dtype=torch.bool)"),
    (lambda x: repr(x.long().sum()), "tensor(0, device='meta', size=(), dtype=torch.int64)"),
    (lambda x: repr(x.requires_grad_() * 2).split(", ")[-1], "grad_fn=<MulBackward0>)"),
    (lambda x: repr(torch.nn.Parameter(x)).split("\n", 1)[0], "Parameter containing:"),
    (lambda x: repr(torch.nn.Parameter(x))[-39:], "meta', size=(2, 3), requires_grad=True)"),
    (lambda x: repr(x.expand(40, 20, 2, 3).reshape(40, 120)).count("..."), 7),
    (lambda x: x.tolist(), [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    (lambda x: x.sum().tolist(), 0.0),
    (lambda x: x.requires_grad_().bool().tolist()[0], [False, False, False]),
]


@pytest.mark.parametrize(("show", "shown"), PRINTED)
def test_a_tensor_shows_zeros_and_says_so_once(gpu, show, shown):
    x = computed(gpu, 2, 3)
    with pytest.warns(UserWarning, match="nothing is computed on a simulated GPU: .* reads zeros") as told:
        assert show(x) == shown
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert show(x) == shown


def test_the_warning_points_at_the_line_that_prints(gpu):
    x = computed(gpu, 2)
    with pytest.warns(UserWarning, match="printing reads zeros at dispatch/test_values.py:") as told:
        repr(x)
    assert told[0].filename == __file__
    assert gpu.values_read == (f"dispatch/test_values.py:{told[0].lineno}",)


def test_printing_leaves_nothing_behind(gpu):
    x = computed(gpu, 50, 50)
    with pytest.warns(UserWarning, match="printing reads zeros"):
        repr(x)
    assert gpu.memory_allocated() == 10240
    assert not gpu.trace.notes.assumed  # printing selects what is not 0, and that is none
    x.masked_select(x > 0)
    assert gpu.trace.notes.assumed
    assert not gpu.unmodelled


def test_printing_in_full_counts_in_more_than_one_tile(gpu):
    x = computed(gpu, 4097)
    torch.set_printoptions(threshold=5000)
    try:
        with pytest.warns(UserWarning, match="reads zeros"):
            repr(x)
        assert not gpu.unmodelled
    finally:
        torch.set_printoptions(profile="default")


def test_what_is_transformed_is_printed_with_what_wraps_it(gpu):
    """Within vmap and grad; the CUDA build allocates 9 times for each of these."""
    x, said, made = torch.zeros(2, 2, device=gpu.device), [], []

    def loss(x):
        before = gpu.memory_stats()["allocation.all.allocated"]
        said.append(repr(x))
        made.append(gpu.memory_stats()["allocation.all.allocated"] - before)
        return x.sum()

    torch.func.grad(loss)(x)
    torch.func.vmap(loss)(x)
    inside = "    tensor([[0., 0.],\n            [0., 0.]], device='meta', size=(2, 2))\n)"
    assert said == [f"GradTrackingTensor(lvl=1, value=\n{inside}", f"BatchedTensor(lvl=1, bdim=0, value=\n{inside}"]
    assert made == [9, 9]


def test_other_meta_tensors_print_as_pytorch_prints_them(gpu):
    gpu.close()
    closed, outside = "tensor(..., device='meta', size=(3,))", torch.ones(3, device="meta")
    with SimulatedGPU() as first:
        x = ones(first, 3)
        assert repr(outside) == closed
        with SimulatedGPU():
            assert repr(x) == closed, "only the innermost GPU counts"
            with pytest.raises(RuntimeError, match="belongs to the GPU on which it was made"):
                x.tolist()
    assert repr(x) == closed
    with pytest.raises(NotImplementedError, match="no data"):
        x.tolist()


def test_a_tensor_of_the_gpu_is_no_array(gpu):
    """CUDA says the same: `.cpu()` first."""
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        ones(gpu, 3).numpy()
    with pytest.warns(UserWarning, match="reads zeros"):
        assert computed(gpu, 3).cpu().numpy().tolist() == [0.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_saved_from_the_gpu_holds_zeros_for_the_cpu(gpu, tmp_path, weights_only):
    model = torch.nn.Linear(4, 3, device=gpu.device, dtype=torch.bfloat16)
    torch.save({"model": model.state_dict(), "bias": model.bias, "step": 7}, tmp_path / "state.pt")
    before = gpu.memory_allocated(), len(gpu.trace)
    with pytest.warns(UserWarning, match="torch.load reads zeros") as told:
        state = torch.load(tmp_path / "state.pt", map_location="cpu", weights_only=weights_only)
    assert len(told) == 1
    assert (gpu.memory_allocated(), len(gpu.trace)) == before
    weight = state["model"]["weight"]
    assert (weight.device.type, weight.dtype, tuple(weight.shape)) == ("cpu", torch.bfloat16, (3, 4))
    assert weight.count_nonzero() == 0
    assert isinstance(state["bias"], torch.nn.Parameter)
    assert (state["bias"].device.type, state["bias"].requires_grad, state["step"]) == ("cpu", True, 7)
    model.load_state_dict(state["model"])
    torch.nn.Linear(4, 3).load_state_dict(state["model"])


def test_a_file_saved_from_the_gpu_is_read_to_the_gpu(gpu, tmp_path):
    torch.save({"a": ones(gpu, 300), "b": torch.ones(3)}, tmp_path / "state.pt")
    for map_location in (None, gpu.device):
        before = gpu.memory_stats()["requested_bytes.all.current"]
        state = torch.load(tmp_path / "state.pt", map_location=map_location)
        assert state["a"].is_meta
        assert state["b"].device == (map_location or torch.device("cpu"))
        n_bytes = 1200 + (12 if map_location else 0)
        assert gpu.memory_stats()["requested_bytes.all.current"] - before == n_bytes
        (state["a"] + 1, state["b"] * 2)
        del state


def test_an_encoder_that_would_leave_out_padding_says_how_not_to(gpu):
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1).to(gpu.device).eval()
    x, pads = (torch.zeros(2, 9, *rest, device=gpu.device) for rest in ((64,), ()))
    with torch.no_grad(), pytest.raises(RuntimeError, match="enable_nested_tensor=False"):
        encoder(x, src_key_padding_mask=pads.bool())


def test_bfloat16_gradients_are_not_unscaled(gpu):
    model = torch.nn.Linear(4, 4, device=gpu.device, dtype=torch.bfloat16)
    optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler(gpu.device.type)
    scaler.scale(model(torch.zeros(1, 4, device=gpu.device, dtype=torch.bfloat16)).sum()).backward()
    with pytest.raises(NotImplementedError, match="got bfloat16"):
        scaler.step(optimizer)


def test_the_ledger_says_where_values_were_read(gpu):
    x = computed(gpu, 3)
    assert "were read" not in repr(Ledger.now(gpu))
    before = Ledger.now(gpu)
    with pytest.warns(UserWarning, match="reads zeros"):
        x.sum().item()
    (place,) = gpu.values_read
    assert place.startswith("dispatch/test_values.py:")
    after, said = Ledger.now(gpu), f"values that are computed were read, as zeros, at: {place}"
    assert repr(after).endswith(said)
    for shown in (after._repr_html_(), repr(after.by("module").largest(1)), repr(after - before)):
        assert said in shown
    assert before.values_read == ()
    assert after.of_the_program.values_read == (place,)
