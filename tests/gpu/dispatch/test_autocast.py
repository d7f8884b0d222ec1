"""Autocast on a simulated GPU: CUDA's lists, its casts, its cache of weights, and what it leaves alone."""

import re
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from running import ones
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.gpu.dispatch import autocast as casts
from every_byte.gpu.operators.autocast import Policy, policies
from utils import SimulatedGPU

HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
POLICIES = {  # the macro of the header that lists a policy's operators, and its policy here
    "LOWER_PRECISION_FP": Policy.LOWER_PRECISION,
    "FP32": Policy.FLOAT32,
    "FP32_SET_OPT_DTYPE": Policy.RESULT_IN_FLOAT32,
    "PROMOTE": Policy.WIDEST,
}
HALVES = (torch.float16, torch.bfloat16)


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb") as gpu:
        yield gpu


@pytest.mark.long
@pytest.mark.parametrize(("macro", "policy"), POLICIES.items())
def test_the_lists_are_those_of_the_header(macro, policy):
    listed = re.search(rf"#define AT_FORALL_{macro}\(_\)(.*?)\n\n", HEADER.read_text(), re.DOTALL)[1]
    names = {".".join(re.split(r",\s*", name)) for name in re.findall(r"_\(([\w, ]+)\)", listed)}
    ours = {name for name, ours in policies().items() if ours is policy}
    registered_elsewhere = {"cudnn_convolution", "cudnn_convolution_transpose"}  # by CUDA alone, not in the macro
    assert len(names) > 10
    assert ours - registered_elsewhere == names


def test_every_operator_that_autocast_knows_has_a_policy():
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    of_the_cuda_build = {"_cudnn_rnn"}
    assert {name.removeprefix("aten::") for name in names} - of_the_cuda_build == set(policies())
    assert len(policies()) == 119


@pytest.mark.parametrize("dtype", HALVES)
def test_each_policy_casts(gpu, dtype):
    x, half, y = ones(gpu, 4, 4), ones(gpu, 4, 4, dtype=dtype), ones(gpu, 4, 4, dtype=torch.float64)
    with gpu.autocast(dtype):
        assert (x @ x).dtype is (x @ half).dtype is F.linear(half, x).dtype is dtype
        assert half.exp().dtype is F.layer_norm(half, (4,)).dtype is torch.float32
        assert half.softmax(-1).dtype is half.sum().dtype is torch.float32
        assert half.softmax(-1, dtype=dtype).dtype is half.sum(dtype=dtype).dtype is dtype
        assert torch.ops.aten.norm.Scalar(half).dtype is torch.ops.aten.norm.ScalarOpt_dim(half, 2, [0]).dtype
        assert torch.ops.aten.norm.Scalar(half).dtype is torch.float32
        assert torch.addcmul(half, half, x).dtype is torch.float32
        assert torch.addcmul(half, half, half).dtype is dtype
        assert (half + half).dtype is F.gelu(half).dtype is dtype
        assert (y @ y).dtype is y.exp().dtype is y.sum().dtype is torch.float64
        assert torch.einsum("ij,jk->ik", x, x).dtype is dtype
    assert (x @ x).dtype is torch.float32


def test_integers_are_left_alone(gpu):
    x = torch.ones(4, device=gpu.device, dtype=torch.int64)
    with gpu.autocast(torch.bfloat16):
        assert x.sum().dtype is torch.int64
        assert x.cumsum(0).dtype is torch.int64


def test_tensors_of_the_cpu_are_left_alone(gpu):
    x = torch.ones(4, 4)
    with gpu.autocast(torch.bfloat16):
        assert (x @ x).dtype is torch.float32
        assert torch.equal(x @ x, torch.full((4, 4), 4.0))
        assert F.cross_entropy(x, torch.zeros(4, dtype=torch.int64)).dtype is torch.float32


def test_a_weight_has_one_copy_until_autocast_ends(gpu):
    x, weight = ones(gpu, 512, 512), ones(gpu, 512, 512, requires_grad=True)
    gpu.load_libraries()
    before = gpu.memory_allocated()
    with gpu.autocast(torch.bfloat16), torch.no_grad():
        x @ weight
        x @ weight
        assert gpu.memory_allocated() - before == 512 * 512 * 2
    assert gpu.memory_allocated() == before


def test_a_graph_keeps_the_copy_longer(gpu):
    x, weight = ones(gpu, 512, 512, requires_grad=True), ones(gpu, 512, 512, requires_grad=True)
    gpu.load_libraries()
    before = gpu.memory_allocated()
    with gpu.autocast(torch.bfloat16):
        y = x @ weight
    assert gpu.memory_allocated() - before == 3 * 512 * 512 * 2  # both operands' copies, and y
    del y
    assert gpu.memory_allocated() == before


def copies(gpu, compute) -> int:
    """How many copies `compute` makes: what it allocates beyond its one result."""
    key = "allocation.all.allocated"
    before = gpu.memory_stats()[key]
    compute()
    return gpu.memory_stats()[key] - before - 1


def test_what_is_no_weight_is_cast_each_time(gpu):
    weight, data = ones(gpu, 8, 8, requires_grad=True), ones(gpu, 8, 8)
    gpu.load_libraries()
    with gpu.autocast(torch.bfloat16):
        assert [copies(gpu, lambda: data @ weight) for _ in range(2)] == [2, 1]  # data is no weight
        assert [copies(gpu, lambda: data @ weight.t()) for _ in range(2)] == [2, 2]  # nor is a view
        assert [copies(gpu, lambda: data @ (weight.detach())) for _ in range(2)] == [2, 2]
    with gpu.autocast(torch.bfloat16, cache_enabled=False):
        assert [copies(gpu, lambda: data @ weight) for _ in range(2)] == [2, 2]
    with gpu.autocast(torch.bfloat16), torch.inference_mode():
        assert [copies(gpu, lambda: data @ weight) for _ in range(2)] == [2, 2]


def test_a_copy_made_under_no_grad_still_leads_to_its_weight(gpu):
    weight, data = ones(gpu, 8, 8, requires_grad=True), ones(gpu, 8, 8)
    with gpu.autocast(torch.bfloat16):
        with torch.no_grad():
            data @ weight
        y = data @ weight
    y.sum().backward()
    assert weight.grad is not None


def test_nesting(gpu):
    weight = ones(gpu, 8, 8, requires_grad=True)
    with gpu.autocast(torch.bfloat16):
        assert (weight @ weight).dtype is torch.bfloat16
        with gpu.autocast(torch.bfloat16, enabled=False):
            assert (weight @ weight).dtype is torch.float32
            with gpu.autocast(torch.float16):  # the copy that is there is taken, of whichever type
                assert (weight @ weight).dtype is torch.bfloat16
                assert (weight.detach() @ weight.detach()).dtype is torch.float16
        assert copies(gpu, lambda: weight @ weight) == 0  # the cache lives as long as the outermost context
    assert not torch.is_autocast_enabled("cuda")


def test_pytorchs_own_names_mean_the_simulated_gpu(gpu):
    x = ones(gpu, 8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for device_type in ("cuda", x.device.type):
            with torch.autocast(device_type, dtype=torch.bfloat16):
                assert torch.is_autocast_enabled(device_type)
                assert torch.get_autocast_dtype(device_type) is torch.bfloat16
                assert (x @ x).dtype is torch.bfloat16
        with torch.autocast("cuda"):
            assert (x @ x).dtype is torch.float16


def test_custom_functions_follow_their_decorators(gpu):
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            seen.append((gradient.dtype, torch.is_autocast_enabled("cuda")))
            return gradient

    x = ones(gpu, 8, 8, requires_grad=True)
    with gpu.autocast(torch.bfloat16):
        y = Square.apply(x)
    y.sum().backward()
    assert seen == [(torch.float16, False), (torch.float16, False)]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_runs_again_under_the_autocast_it_began_in(gpu, use_reentrant):
    seen = []

    class Watched(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            seen.append(y.dtype)
            return y.tanh()  # which keeps its result, so that the region runs again to its end

    layer, x = Watched(8, 8, device=gpu.device), ones(gpu, 8, 8, requires_grad=True)
    with gpu.autocast(torch.bfloat16):
        y = checkpoint(layer, x, use_reentrant=use_reentrant)
    y.sum().backward()
    assert seen == [torch.bfloat16, torch.bfloat16]


def test_binary_cross_entropy_is_refused(gpu):
    x = ones(gpu, 4)
    with gpu.autocast(torch.float16), pytest.raises(RuntimeError, match="not safe under autocast.*with_logits"):
        F.binary_cross_entropy(x, x)


def test_a_third_type_is_refused_where_types_are_promoted(gpu):
    x = ones(gpu, 4, dtype=torch.bfloat16)
    with gpu.autocast(torch.float16), pytest.raises(RuntimeError, match="addcmul.*takes torch.float16 and float32.*bf"):
        torch.addcmul(x, x, x)


def test_other_types_are_refused(gpu):
    with pytest.raises(ValueError, match="torch.float16 or torch.bfloat16: got dtype=torch.float32"):
        gpu.autocast(torch.float32)


def test_closing_the_gpu_restores_everything():
    names = "is_autocast_enabled", "get_autocast_dtype", "clear_autocast_cache"
    before = [getattr(torch, name) for name in names]
    with SimulatedGPU("a100-80gb") as gpu, gpu.autocast(torch.bfloat16):
        assert [getattr(torch, name) for name in names] != before
    assert [getattr(torch, name) for name in names] == before
    assert not torch._C._dispatch_tls_is_dispatch_key_included(casts.KEY)
    x = torch.ones(4, 4, device="meta")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.float32
    without_gpu = pytest.warns(UserWarning, match="CUDA is not available")
    with nullcontext() if torch.cuda.is_available() else without_gpu:
        torch.autocast("cuda", dtype=torch.bfloat16)


def test_autocast_is_the_threads_own(gpu):
    seen = []

    def elsewhere():
        with SimulatedGPU("h100-80gb") as other:
            x = ones(other, 4, 4)
            seen.append((x @ x).dtype)

    with gpu.autocast(torch.bfloat16):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == [torch.float32]


# --------------------------------------------------------------------------------------- beside the machine's own GPU


@pytest.mark.parametrize("has_gpu", [False, True])
def test_whether_bfloat16_is_supported(has_gpu, monkeypatch):
    """A program asks the machine, where it has a GPU; autocast asks the simulated one, on every machine alike."""
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: asked.append("the machine") or False)
    with SimulatedGPU("t4-16gb") as gpu:
        assert torch.cuda.is_bf16_supported() is (not has_gpu)
        assert asked == ["the machine"] * has_gpu
        _as_if_new(gpu)
        with torch.autocast("cuda", torch.bfloat16), torch.autocast("cuda", torch.bfloat16):
            pass
        assert asked == ["the machine"] * has_gpu, "autocast asks the simulated GPU"
        assert [(e.action, e.n_bytes) for e in gpu.trace if e.action in ("alloc", "free")] == [
            ("alloc", 2),
            ("free", 2),
        ]


def _as_if_new(gpu):
    """As if nothing had been asked of it; its own look at its tensors waits for PyTorch's modules."""
    gpu.trace.events.clear()
    gpu._mode.tried_bfloat16 = False


def test_other_tensors_get_pytorch_s_own_kernel(gpu, monkeypatch):
    """Ours is for a simulated GPU's tensors alone."""
    ours = []
    monkeypatch.setattr(casts, "_cast_all", lambda args, dtype: ours.append(args) or list(args))
    with gpu.autocast(torch.bfloat16):
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.cat([torch.ones(2), torch.ones(2)])
        assert not ours
        ones(gpu, 2, 2) @ ones(gpu, 2, 2)
        assert len(ours) == 1


def test_autocast_of_cuda_does_not_concern_the_cpu(gpu):
    """Its rules are for CUDA's tensors: what it refuses of them it does not refuse of the CPU's."""
    chance = torch.full((3,), 0.5)
    with gpu.autocast(torch.bfloat16):
        assert F.binary_cross_entropy(chance, chance).dtype is torch.float32
        assert F.softmax(chance.half(), -1).dtype is torch.float16
        with pytest.raises(RuntimeError, match="is not safe under autocast"):
            F.binary_cross_entropy(ones(gpu, 3), ones(gpu, 3))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", HALVES)
def test_a_real_gpu_s_autocast_is_pytorch_s_own(gpu, dtype, monkeypatch):
    monkeypatch.setattr(casts, "_cast_all", None)  # nothing of ours is called
    layer, x = nn.Linear(8, 8).cuda(), torch.ones(4, 8, device="cuda")
    with torch.autocast("cuda", dtype):
        y = layer(x)
        assert y.dtype is dtype
        assert F.softmax(y, -1).dtype is torch.float32
        assert torch.cat([y, x[:, :8]]).dtype is torch.float32
        with_list = torch.stack([y, x])
        F.cross_entropy(layer(x), torch.zeros(4, dtype=torch.long, device="cuda")).backward()
    assert with_list.dtype is torch.float32
    assert layer.weight.grad.dtype is torch.float32
    assert not casts.CACHE._copies
