"""What all tests share: a GPU test skips where there is no GPU, and runs once more with a simulated one open around it;
hypothesis knows no deadline on a busy machine."""

import gc
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hypothesis import settings
from pytorchs_switches import standing

pytest.register_assert_rewrite("running")  # whose comparisons show both sides, as a test's own do

# CI draws the same examples each time, so that what it says of a change is about the change.
settings.register_profile("book", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("book")


# The files that take longest, the longest first, by build/reports: no process is to be left alone with one at the end.
LONGEST = """
    gpu/test_recorded explorers/test_ranks formulas/test_mesh gpu/operators/test_takes
    gpu/dispatch/test_autocast_recorded widget/test_gpus formulas/test_tensor_parallel models/test_regions
    experiments/test_checkpointed_step explorers/test_gallery formulas/test_data_parallel gpu/operators/test_attention
    tools/test_slides tools/test_teachers
    ledger/test_ledger gpu/test_torchrun gpu/test_ranks_recorded models/test_compiled
    browser/test_every_page_of_the_site browser/test_explorer_on_a_page browser/test_mlp_chapter
    browser/test_activations_explorer_in_lab browser/test_backward_explorer_in_lab
""".split()


FEW_VALUES, A_HANDFUL = 8, 5


def _not_sampled(items) -> Iterator[pytest.Item]:
    """Of each test that is marked `sampled(n)` the cases that only `make nightly` runs: all but one in n.

    Those of the day are so chosen that each parameter with few values has them all; a handful of cases is not divided.
    `sampled(n, slow=True)` is for cases that are alike and take seconds each: they are divided simply, a handful, too.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("nightly"):
            cases[item.function].append(item)
    for those in cases.values():
        mark = those[0].get_closest_marker("sampled")
        (every,) = mark.args
        if mark.kwargs.get("slow"):
            yield from (item for i, item in enumerate(those) if i % every)
        elif len(those) > A_HANDFUL:
            by_day = _sample(those, every)
            yield from (item for item in those if item not in by_day)


def _sample(cases: list[pytest.Item], every: int) -> set[pytest.Item]:
    """Those with a value of a parameter that none before had, if it has few values; then one after the other."""
    values = [_values(item) for item in cases]
    n_values = Counter(name for name, _ in set().union(*values))
    chosen, seen = set(), set()
    for item, of_item in zip(cases, values):
        new = {value for value in of_item if n_values[value[0]] <= FEW_VALUES} - seen
        if new or not chosen:
            chosen.add(item)
            seen |= new
    for item in cases[::every]:
        if len(chosen) >= len(cases) / every:
            break
        chosen.add(item)
    return chosen


def _values(item) -> set[tuple[str, str]]:
    """The value that each parameter has in a case."""
    return {(name, repr(value)) for name, value in item.callspec.params.items()}


def pytest_collection_modifyitems(items):
    for item in list(_not_sampled(items)):
        item.add_marker(pytest.mark.nightly)

    of_the_site = {item.path for item in items if "site" in item.fixturenames}

    def rank(item) -> int:
        path = item.path.as_posix()
        others = len(LONGEST) + (item.path in of_the_site)  # by then it is built, and nobody waits for it
        return next((i for i, name in enumerate(LONGEST) if name in path), others)

    items.sort(key=rank)


MANY = 50
_known_modules = 0


def _keep_what_there_is() -> None:
    """No collection, and no look at a ledger, passes what there is now again."""
    global _known_modules
    gc.collect()
    gc.freeze()
    _known_modules = len(sys.modules)


@pytest.fixture(autouse=True, scope="module")
def _of_other_files():
    _keep_what_there_is()
    yield
    _undo_a_notebooks_cells()


def _undo_a_notebooks_cells() -> None:
    """Close the GPU that `open_gpu` has opened for the rest of a notebook, and follow no named version any more."""
    device = sys.modules.get("every_byte.gpu.device")
    if device is not None and (gpu := vars(device._opened).pop("gpu", None)) is not None:
        gpu.close()
    if versions := sys.modules.get("every_byte.gpu.memory.versions"):
        versions.follow()


@pytest.fixture(autouse=True)
def _of_libraries():
    if len(sys.modules) > _known_modules + MANY:  # some are loaded when they are first used
        _keep_what_there_is()


@pytest.fixture(autouse=True)
def _leaves_pytorchs_switches(request):
    """A test that turns one and leaves it so is an error itself, and not the cause of another's, in some order."""
    if "torch" not in sys.modules:
        yield
        return
    before = standing()
    yield
    after = standing()
    assert after == before, f"{request.node.name} leaves one of PyTorch's switches turned"


@pytest.fixture
def _gpu_or_skip(request):
    if request.node.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA GPU")


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("gpu"):
        metafunc.parametrize("_around", ["alone", "beside a simulated GPU"], indirect=True)


@pytest.fixture(autouse=True)
def _around(request, _gpu_or_skip):
    """Around a test marked `gpu`, the second time, an open simulated GPU, which must leave the machine's own alone."""
    if getattr(request, "param", "alone") == "alone":
        yield
        return
    from utils import SimulatedGPU

    with SimulatedGPU("h100-80gb"):
        yield


_ON_CARD = pytest.mark.gpu


@pytest.fixture(
    params=["cpu", "meta", "simulated", *(pytest.param(p, marks=_ON_CARD) for p in ("cuda", "cuda beside"))]
)
def device(request):
    """Each kind of device: a real GPU also with a simulated one open around it."""
    import torch

    from utils import SimulatedGPU

    with SimulatedGPU("a100-80gb") if request.param in ("simulated", "cuda beside") else nullcontext() as gpu:
        yield gpu.device if request.param == "simulated" else torch.device(request.param.split()[0])


@pytest.fixture
def gpu():
    """A fresh simulated A100, open for one test."""
    from utils import SimulatedGPU

    with SimulatedGPU("a100-80gb") as gpu:
        yield gpu


@pytest.fixture
def card():
    """A pretended card, whose allocator and history answer in the place of CUDA's."""
    from pretended_card import pretended_card

    with pretended_card() as card:
        yield card


@pytest.fixture
def live(card):
    """That card's live GPU, open as a scope."""
    from utils import LiveGPU

    with LiveGPU() as gpu:
        yield gpu


@pytest.fixture
def pretended_gpus(monkeypatch):
    """A machine with eight GPUs, as far as their names and numbers go; returns the properties that can be changed."""
    import torch

    state = {"name": "a stand-in", "count": 8, "current": 0}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: state["name"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: state["count"])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: state["current"])
    for variable in ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    return state
