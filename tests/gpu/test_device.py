"""Opening and closing a GPU, the specs, and the live GPU."""

import copy
import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
import torch.utils._foreach_utils as foreach_utils
from running import ones
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

from every_byte.gpu.device import current_gpu
from every_byte.gpu.memory.specs import SPECS
from utils import AllocatedMemContext, LiveGPU, SimulatedGPU, open_gpu

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


@pytest.mark.nightly
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
        said = "a GPU must be closed on the thread that opened it: a100-80gb; do so there."
        assert errors == [said, 1024]
        assert outer.memory_allocated() == 0


def test_closing_under_another_dispatch_mode():
    gpu = SimulatedGPU("a100-80gb").__enter__()
    try:
        with (
            FlopCounterMode(display=False),
            pytest.raises(RuntimeError, match="FlopCounterMode.* is on: leave it first"),
        ):
            gpu.close()
        assert gpu.is_open
    finally:
        gpu.close()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_closed_gpu_is_not_read_as_if_it_counted():
    with SimulatedGPU("a100-80gb") as gpu:
        pass
    with pytest.raises(RuntimeError, match="must be open: a100-80gb is not"), AllocatedMemContext(gpu):
        pass


def test_a_gpu_asked_for_on_another_thread_says_what_to_do(gpu):
    said = []

    def elsewhere():
        with pytest.raises(RuntimeError) as raised:
            torch.ones(3, device=gpu.device)
        said.append(str(raised.value))
        with SimulatedGPU() as own:
            _kept = torch.ones(3, device=own.device)
            said.append(own.memory_allocated())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert said == [
        "a simulated GPU counts on the thread that opened it: a100-80gb was asked on another; open one there, "
        '`with SimulatedGPU("a100-80gb") as gpu:`.',
        512,
    ]
    assert gpu.memory_allocated() == 0


def test_tensors_may_die_on_any_thread(gpu):
    tensors = [ones(gpu, 100) for _ in range(200)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    for _ in range(200):
        ones(gpu, 100)
    thread.join()
    assert gpu.memory_allocated() == 0
    assert gpu.trace.requested_bytes() == 0


def test_a_collection_while_the_cache_is_emptied(monkeypatch):
    """Of eight neighbours, three are free; a fourth is, between two of them, once the driver has the first back."""
    n_bytes = 30 * 2**20
    with SimulatedGPU("a100-80gb", settings="expandable_segments:True") as gpu:
        tensors = [torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device) for _ in range(8)]
        for number in (0, 4, 6):
            tensors[number] = None
        driver = gpu._memory.allocator._driver
        told = driver.on_segment

        def tell_and_collect(*change):
            told(*change)
            tensors[5] = None

        monkeypatch.setattr(driver, "on_segment", tell_and_collect)
        gpu.empty_cache()
        segments = gpu.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == gpu.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == gpu.memory_allocated() == 4 * n_bytes


def test_a_collection_in_the_middle_of_an_allocation(gpu, monkeypatch):
    """Python's collector may free a tensor while the allocator is at work on another."""
    cycle = [ones(gpu, 100)]
    cycle.append(cycle)
    del cycle
    malloc = gpu._memory.allocator.malloc

    def malloc_and_collect(*asked):
        block = malloc(*asked)
        gc.collect()
        return block

    monkeypatch.setattr(gpu._memory.allocator, "malloc", malloc_and_collect)
    x = ones(gpu, 7)
    assert gpu.memory_allocated() == 512
    assert [e.action for e in gpu.trace][-2:] == ["alloc", "free"]
    del x


# ------------------------------------------------------------------------------------------ specs and the live GPU


def test_the_specs():
    with SimulatedGPU("h100-80gb") as gpu:
        properties = gpu.get_device_properties()
        assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, 132)
        assert gpu.mem_get_info() == (85_017_624_576 - 560 * 2**20, 85_017_624_576)
        gpu.load_libraries()
        assert gpu.memory_allocated() == 33_554_432
        assert repr(gpu) == "SimulatedGPU('h100-80gb', open, 33,554,432 bytes allocated)"
    assert all(spec.allocator_bytes > 9 * 10**9 for spec in SPECS.values())


def test_a_closed_gpu_is_let_go():
    with SimulatedGPU() as gpu:
        ones(gpu, 3)
    gone = weakref.ref(gpu)
    del gpu
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("pretended_gpus")
def test_the_live_gpu_passes_everything_on(monkeypatch):
    asked = []
    names = [n for n in vars(SimulatedGPU) if "memory" in n or n in ("mem_get_info", "synchronize", "empty_cache")]
    names = [n for n in names if not n.startswith("_")] + ["get_device_properties"]
    for name in names:
        answer = [{"device": 0}, {"device": 1}] if name == "memory_snapshot" else name
        monkeypatch.setattr(torch.cuda, name, lambda *a, name=name, answer=answer: asked.append((name, *a)) or answer)
    live = LiveGPU()
    with_fraction = "set_per_process_memory_fraction"
    answers = {name: getattr(live, name)(*[0.5] * (name == with_fraction)) for name in names}
    assert answers.pop("memory_snapshot") == [{"device": 0}]
    assert answers.pop("empty_cache") is None
    assert answers == {name: name for name in answers if name != with_fraction} | {with_fraction: None}
    without_device = {"memory_snapshot", "empty_cache"}
    card = torch.device("cuda", 0)
    before = dict.fromkeys(without_device, ()) | {with_fraction: (0.5, card)}
    assert asked == [(name, *before.get(name, (card,))) for name in names]


@pytest.mark.parametrize(
    ("current", "count", "local_rank", "index"),
    [
        (0, 8, None, 0),
        (2, 8, None, 2),  # torch.cuda.set_device(2)
        (0, 8, "3", 3),  # torchrun
        (1, 8, "3", 1),  # torchrun, and the program has chosen
        (0, 1, "3", 0),  # torchrun, and each rank sees one GPU alone
        (0, 2, "3", 0),
    ],
)
def test_which_gpu_is_the_live_one(pretended_gpus, monkeypatch, current, count, local_rank, index):
    pretended_gpus.update(current=current, count=count)
    if local_rank:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert LiveGPU().device == torch.device("cuda", index)
    assert LiveGPU(0).device == torch.device("cuda", 0)


@pytest.mark.usefixtures("pretended_gpus")
def test_an_index_without_a_gpu():
    with pytest.raises(RuntimeError, match="index must be that of a GPU here, 0 to 7: got 8;"):
        LiveGPU(8)


@pytest.mark.usefixtures("pretended_gpus")
@pytest.mark.parametrize(("named", "index"), [(3, 3), ("cuda:3", 3), (torch.device("cuda", 3), 3), ("cuda", 0)])
def test_a_live_gpu_by_index_or_as_pytorch_names_it(named, index):
    assert LiveGPU(named).device == torch.device("cuda", index)


@pytest.mark.usefixtures("pretended_gpus")
def test_another_device_is_no_live_gpu():
    with pytest.raises(ValueError, match="is a CUDA device, as .*: got cpu"):
        LiveGPU("cpu")


@pytest.mark.usefixtures("pretended_gpus")
def test_a_live_gpu_sets_simulated_ones_aside():
    with SimulatedGPU() as outer:
        x = ones(outer, 3)
        with LiveGPU(traced=False) as live:
            assert current_gpu() is live
            assert not _get_current_dispatch_mode_stack()
            with pytest.raises(RuntimeError, match="a live GPU can be opened once at a time: a stand-in is open"):
                live.__enter__()
            with pytest.raises(
                RuntimeError, match="the innermost open GPU counts: a100-80gb was asked, a live one is it"
            ):
                _ = outer.device
            with pytest.raises(RuntimeError, match="closed innermost first: close the live one before a100-80gb"):
                outer.close()
            with SimulatedGPU("t4-16gb") as inner:
                assert current_gpu() is inner
                kept = ones(inner, 3)
                assert len(inner.trace) == 2, kept
            assert current_gpu() is live
        assert current_gpu() is outer
        assert not live._scope
        live.close()  # again: nothing
        assert len(outer.trace) == 2, "a segment and a block"
        x * 2
        assert len(outer.trace) == 4


@pytest.mark.usefixtures("pretended_gpus")
def test_a_live_gpu_is_closed_innermost_first_and_on_its_thread():
    live = LiveGPU(traced=False).__enter__()
    for inner in (SimulatedGPU("t4-16gb"), LiveGPU(1, traced=False)):
        with inner:
            x = ones(inner, 3) if isinstance(inner, SimulatedGPU) else None
            with pytest.raises(RuntimeError, match=f"innermost first: close .*{inner.name}.* before a stand-in"):
                live.close()
            assert current_gpu() is inner, x
    with ThreadPoolExecutor(1) as other, pytest.raises(RuntimeError, match="on the thread that opened it: a stand-in"):
        other.submit(live.close).result()
    assert current_gpu() is live
    live.close()
    assert current_gpu() is not live


@pytest.mark.gpu
def test_live_and_simulated_agree_on_blocks():
    live = LiveGPU()
    before = live.memory_allocated()
    x = torch.ones(1000, device=live.device)
    assert live.memory_allocated() - before == 4096
    del x


# ------------------------------------------------------------------------------------------ other threads

MODULES = {
    "linear": torch.nn.Linear(4, 4),
    "dropout": torch.nn.Dropout(0.5),
    "softmax": torch.nn.Softmax(-1),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
}


def on_another_thread(function):
    results = []

    def run():
        try:
            results.append(function())
        except RuntimeError as error:
            results.append(str(error))

    thread = threading.Thread(target=run, name="a worker")
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("name", MODULES)
def test_layers_on_a_thread_where_the_gpu_does_not_count(gpu, name):
    layer, x = MODULES[name], ones(gpu, 2, 3, 4)
    layer = copy.deepcopy(layer).to(gpu.device) if isinstance(layer, torch.nn.Module) else layer
    message = on_another_thread(lambda: layer(x))
    assert f"counts on the thread that opened it: aten::{name} on the thread 'a worker' got a tensor of" in message
    assert "a100-80gb, which is open on another; open a GPU on this thread" in message
    layer(x)
    gpu.close()
    assert on_another_thread(lambda: layer(x).is_meta), "nothing counts any more"
