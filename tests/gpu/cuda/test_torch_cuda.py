"""`torch.cuda`, `torch.accelerator`, `torch.backends`: all names answer, or refuse by name; as recorded, and beyond."""

import inspect
import warnings

import pytest
import torch
import torch.accelerator.memory
import torch.cuda.nccl
import torch.cuda.nvtx
import torch.cuda.profiler
import torch.cuda.tunable
from as_cuda import programs, ran, recorded

RECORDED = recorded("torch_cuda")
MODULES = (
    torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.nvtx, torch.cuda.profiler, torch.cuda.tunable,
    torch.accelerator, torch.accelerator.memory, torch.backends.cuda, torch.backends.cudnn,
)  # fmt: skip
WITHOUT_A_DRIVER = {"utilization", "temperature", "power_draw", "clock_rate", "memory_usage"}
"""What NVIDIA's library for management is asked, which is another package."""
KNOWN_REFUSALS = (NotImplementedError, RuntimeError, TypeError, ValueError, AssertionError, ModuleNotFoundError)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", RECORDED)
def test_as_on_cuda(warm_gpu, name):
    assert ran(programs("torch_cuda")[name]) == RECORDED[name]


@pytest.mark.long
def test_every_program_is_recorded():
    assert list(RECORDED) == list(programs("torch_cuda"))


def names(module) -> list[str]:
    public = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return [name for name in public if not inspect.ismodule(getattr(module, name))]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_name_fails_without_a_word(gpu, module):
    """Called without arguments: it answers, or says what is missing; it lacks nothing that a CUDA build has."""
    failed = {}
    for name in names(module):
        value = getattr(module, name)
        if not callable(value) or inspect.isclass(value):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value()
            except KNOWN_REFUSALS as error:
                if not str(error):
                    failed[name] = error
            except Exception as error:
                failed[name] = error
    assert failed == {}


@pytest.mark.parametrize("name", sorted(WITHOUT_A_DRIVER))
def test_the_library_for_management_is_another_package(gpu, name):
    with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py does not seem to be installed"):
        getattr(torch.cuda, name)()


def test_the_figures_are_the_gpus(gpu):
    x = torch.zeros(1000, device="cuda")
    assert torch.cuda.memory_allocated() == gpu.memory_allocated() == 4096
    assert torch.cuda.memory_reserved() == gpu.memory_reserved() == 2097152
    assert dict(torch.cuda.memory_stats()) == gpu.memory_stats()
    assert torch.cuda.mem_get_info() == gpu.mem_get_info() == torch.accelerator.get_memory_info()
    assert torch.cuda.memory_snapshot() == [segment | {"device": 0} for segment in gpu.memory_snapshot()]
    del x
    torch.cuda.empty_cache()
    assert gpu.memory_reserved() == 0


@pytest.mark.parametrize(
    ("name", "capability", "bf16"),
    [
        ("t4-16gb", (7, 5), False),
        ("a100-80gb", (8, 0), True),
        ("h100-80gb", (9, 0), True),
        ("b200-180gb", (10, 0), True),
    ],
)
def test_each_gpu_is_told_by_its_name(name, capability, bf16):
    from utils import SimulatedGPU

    with SimulatedGPU(name, cuda=True) as gpu:
        found = torch.cuda.get_device_properties()
        assert torch.cuda.get_device_name() == found.name == gpu.spec.device_name
        assert torch.cuda.get_device_capability() == (found.major, found.minor) == capability
        assert torch.cuda.is_bf16_supported(including_emulation=False) == bf16
        assert found.total_memory == gpu.spec.total_bytes == torch.cuda.mem_get_info()[1]


def test_what_is_not_known_of_a_gpu_says_so(gpu):
    found = torch.cuda.get_device_properties()
    with pytest.raises(
        AttributeError, match="no clock and no bus is known: 'clock_rate' was asked for; there are name,"
    ):
        found.clock_rate  # noqa: B018
    assert not hasattr(found, "memory_clock_rate")


def test_a_saved_history_can_be_read(gpu, tmp_path):
    import pickle

    x = torch.zeros(1000, device="cuda")
    torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    seen = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert [(e["action"], e["size"]) for e in seen["device_traces"][0]] == [("segment_alloc", 2097152), ("alloc", 4000)]
    assert seen["segments"][0]["blocks"][0]["requested_size"] == x.nbytes
