"""Opening and closing a GPU, what it answers, and what it says when something does not fit together."""

import gc
import subprocess
import sys
import threading
import warnings
import weakref

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils._foreach_utils as foreach_utils

from utils import LiveGPU, SimulatedGPU, open_gpu
from utils.device import current_gpu
from utils.simulated.specs import SPECS, GPUSpec

WORKSPACE = 8_519_680
SMALL = GPUSpec("tiny", "a GPU of 64 MiB", (8, 0), 64 * 2**20, 8, context_bytes=0)


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb") as gpu:
        yield gpu


def ones(gpu, *shape, **options):
    return torch.ones(*shape, device=gpu.device, **options)


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
    assert len(gpu._memory.blas_workspaces) == 1
    y.backward()
    assert len(gpu._memory.blas_workspaces) == 2


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


# ------------------------------------------------------------------------------------------ opening and closing


def pytorch_state():
    x = torch.empty(4, 4, device="meta")
    return (
        foreach_utils._get_foreach_kernels_supported_devices(),
        foreach_utils._get_fused_kernels_supported_devices(),
        torch.__future__.get_swap_module_params_on_conversion(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta"),
        F.dropout(x.requires_grad_(), 0.5).grad_fn.name(),
    )


def test_leaving_restores_everything():
    before = pytorch_state()
    with SimulatedGPU() as outer, SimulatedGPU("h100-80gb") as inner:
        assert current_gpu() is inner
        ones(inner, 4)
    assert pytorch_state() == before
    assert not outer.is_open
    assert before[-1] == "MulBackward0"
    with pytest.raises(ZeroDivisionError), SimulatedGPU():
        raise ZeroDivisionError
    assert pytorch_state() == before


def test_importing_attaches_nothing():
    code = (
        "import torch, utils; assert torch._C._len_torch_dispatch_stack() == 0; "
        "x = torch.empty(2, device='meta'); y = x + 1; print(type(y).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Tensor\n"


def test_cpu_programs_run_as_before(gpu):
    x = torch.randn(3, 3, requires_grad=True)
    (x @ x).sum().backward()
    assert x.grad.abs().sum() > 0
    assert gpu.memory_allocated() == 0


def test_opening_again_starts_afresh():
    first = open_gpu("a100-80gb")
    x = ones(first, 1000)
    second = open_gpu("a100-80gb")
    try:
        assert (first.is_open, second.is_open) == (False, True)
        assert (first.memory_allocated(), second.memory_allocated()) == (4096, 0)
        with pytest.raises(RuntimeError, match=r"from an earlier a100-80gb, while a100-80gb is open; make it again"):
            x + 1
        del x
        assert first.memory_allocated() == 0, "an old GPU still sees its tensors go"
    finally:
        second.close()
    second.close()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_only_the_innermost_gpu_counts():
    with SimulatedGPU("a100-80gb") as outer:
        x = ones(outer, 10)
        with SimulatedGPU("t4-16gb") as inner:
            y = ones(inner, 1000)
            with pytest.raises(RuntimeError, match="from a100-80gb, while t4-16gb is open"):
                x + y
            with pytest.raises(RuntimeError, match="belongs to the GPU on which it was made"):
                x.relu()
            assert (outer.memory_allocated(), inner.memory_allocated()) == (512, 4096)
            del x
            assert outer.memory_allocated() == 0, "what is freed is freed where it lay"
        with pytest.raises(RuntimeError, match="from t4-16gb, while a100-80gb is open"):
            y + 1


def test_out_of_order_and_other_threads():
    with SimulatedGPU("a100-80gb") as outer:
        with SimulatedGPU("t4-16gb"), pytest.raises(RuntimeError, match="close t4-16gb before a100-80gb"):
            outer.close()
        with pytest.raises(RuntimeError, match="a100-80gb is open already"):
            outer.__enter__()
        errors = []

        def elsewhere():
            try:
                outer.close()
            except RuntimeError as error:
                errors.append(str(error))
            torch.ones(1000, device="meta")  # not on the GPU: it is open on the other thread
            with SimulatedGPU("h100-80gb") as own:
                x = ones(own, 256)
                errors.append(own.memory_allocated())
                del x

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert errors == ["a simulated GPU must be closed on the thread that opened it: a100-80gb.", 1024]
        assert outer.memory_allocated() == 0


def test_tensors_may_die_on_any_thread(gpu):
    tensors = [ones(gpu, 100) for _ in range(200)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    for _ in range(200):
        ones(gpu, 100)
    thread.join()
    assert gpu.memory_allocated() == 0
    assert gpu.trace.requested_bytes() == 0


def test_a_collection_in_the_middle_of_an_allocation(gpu, monkeypatch):
    """Python's collector may free a tensor while the allocator is at work on another."""
    cycle = [ones(gpu, 100)]
    cycle.append(cycle)
    del cycle
    malloc = gpu._memory.allocator.malloc

    def malloc_and_collect(n_bytes):
        block = malloc(n_bytes)
        gc.collect()
        return block

    monkeypatch.setattr(gpu._memory.allocator, "malloc", malloc_and_collect)
    x = ones(gpu, 7)
    assert gpu.memory_allocated() == 512
    assert [e.action for e in gpu.trace][-2:] == ["alloc", "free"]
    del x


# ------------------------------------------------------------------------------------------ what goes wrong


def test_unknown_names():
    with pytest.raises(ValueError, match=r"got 'a100', known: a100-80gb, .*did you mean 'a100-[48]0gb'\?"):
        SimulatedGPU("a100")
    with pytest.raises(ValueError, match=r"name must be a GPU that the book knows: got 'abacus'"):
        open_gpu("abacus")
    with pytest.raises(ValueError, match="got 7"):
        open_gpu(7)


def test_no_gpu_is_open():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(RuntimeError, match=r'call open_gpu\("a100-80gb"\) first'):
        current_gpu()
    with pytest.raises(RuntimeError, match=r"this machine has none; use open_gpu\(\"a100-80gb\"\)"):
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
        workspaces = sum(block.size_bytes for block in gpu._memory.blas_workspaces.values())
        assert gpu.memory_allocated() == 7 * 4 * 2**20 + workspaces


def test_values_are_zeros_and_it_says_so_once(gpu):
    x = ones(gpu, 3)
    with pytest.warns(UserWarning, match="nothing is computed on a simulated GPU: .*_local_scalar_dense reads zeros"):
        assert x.sum().item() == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.cpu().tolist() == [0.0, 0.0, 0.0]
        assert not bool(x.sum() > 1)
        assert torch.empty(3).copy_(x).tolist() == [0.0, 0.0, 0.0]


def test_what_is_not_modelled_is_named(gpu):
    x = ones(gpu, 4, 4)
    with pytest.warns(UserWarning, match="aten::cumsum is not modelled: its outputs are counted"):
        y = x.cumsum(0)
    assert gpu.unmodelled == {"aten::cumsum"}
    assert gpu.memory_allocated() == 1024
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = x.cumsum(0)
    del y


# ------------------------------------------------------------------------------------------ specs and the live GPU


def test_the_specs():
    with SimulatedGPU("h100-80gb") as gpu:
        properties = gpu.get_device_properties()
        assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, 132)
        assert gpu.mem_get_info() == (85_017_624_576 - 560 * 2**20, 85_017_624_576)
        gpu.load_libraries()
        assert gpu.memory_allocated() == 33_554_432
        assert repr(gpu) == "SimulatedGPU('h100-80gb', open, 33,554,432 bytes allocated)"
    assert all(spec.allocator_bytes > 10**10 for spec in SPECS.values())


def test_a_closed_gpu_is_let_go():
    with SimulatedGPU() as gpu:
        ones(gpu, 3)
    gone = weakref.ref(gpu)
    del gpu
    gc.collect()
    assert gone() is None


def test_the_live_gpu_passes_everything_on(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a stand-in")
    names = [n for n in vars(SimulatedGPU) if "memory" in n or n in ("mem_get_info", "synchronize", "empty_cache")]
    names = [n for n in names if not n.startswith("_")] + ["get_device_properties"]
    for name in names:
        answer = [{"device": 0}, {"device": 1}] if name == "memory_snapshot" else name
        monkeypatch.setattr(torch.cuda, name, lambda *a, name=name, answer=answer: asked.append((name, *a)) or answer)
    live = LiveGPU()
    answers = {name: getattr(live, name)() for name in names}
    assert answers.pop("memory_snapshot") == [{"device": 0}]
    assert answers.pop("empty_cache") is None
    assert answers == {name: name for name in answers}
    without_device = {"memory_snapshot", "empty_cache"}
    assert asked == [(n,) if n in without_device else (n, torch.device("cuda", 0)) for n in names]


@pytest.mark.gpu
def test_live_and_simulated_agree_on_blocks():
    live = LiveGPU()
    before = live.memory_allocated()
    x = torch.ones(1000, device=live.device)
    assert live.memory_allocated() - before == 4096
    del x
