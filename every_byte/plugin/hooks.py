"""What pytest calls: options, markers, fixtures, and a simulated GPU around each test that is to be measured.

PyTorch is imported only when a test is measured.
"""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .baseline import Baselines
from .figures import FIGURES, figures_in
from .limits import MARKERS, gpu_name, wants_gpu

if TYPE_CHECKING:
    from every_byte.gpu.simulated import SimulatedGPU
    from every_byte.report.report import Report

    from .measured import Measured

_MEASURED = pytest.StashKey["Measured"]()
_BASELINES = pytest.StashKey[Baselines]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("every-byte", "GPU memory, on a simulated GPU")
    group.addoption("--every-byte", action="store_true", help="run all tests on it; show the largest owners of each")
    group.addoption("--every-byte-gpu", metavar="NAME", help="the GPU of tests that name none (default: a100-80gb)")
    group.addoption("--every-byte-store", metavar="FILE", type=Path, help="write what each test needs, as a baseline")
    group.addoption("--every-byte-against", metavar="FILE", type=Path, help="fail a test that needs more than there")
    parser.addini("every_byte_gpu", "the GPU of tests that name none", default="a100-80gb")


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest the markers, and read the baseline."""
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[_BASELINES] = Baselines.of(config.getoption("every_byte_against"))


def _is_measured(item: pytest.Item) -> bool:
    config = item.config
    wished = any(config.getoption(name) for name in ("every_byte", "every_byte_store", "every_byte_against"))
    return isinstance(item, pytest.Function) and (bool(wished) or wants_gpu(item))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Open the GPU right before the test's fixtures are made, which may be on it: pytest's own set-up is done then."""
    if _is_measured(item):
        from .measured import Measured

        item.stash[_MEASURED] = Measured(gpu_name(item))
        item.stash[_MEASURED].open()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Judge a test that has passed; of one that failed say what it needed up to there."""
    measured = item.stash.get(_MEASURED, None)
    if measured is None:
        return (yield)
    try:
        result = yield
    except Exception as error:
        item.add_report_section("call", "every-byte", measured.head(error))
        raise
    _judge(item, measured)
    return result


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Close the GPU when the test's fixtures are gone."""
    try:
        return (yield)
    finally:
        if (measured := item.stash.get(_MEASURED, None)) is not None:
            measured.close()
            del item.stash[_MEASURED]


def _judge(item: pytest.Item, measured: "Measured") -> None:
    """Fail a test that takes more than is allowed, and note what it took."""
    __tracebackhide__ = True
    figures = measured.figures()
    item.user_properties.append((FIGURES, figures))
    wrong = [*measured.beyond(item), *item.config.stash[_BASELINES].beyond(item.nodeid, figures)]
    if wrong:
        pytest.fail("\n\n".join(wrong), pytrace=False)


# fixtures


@pytest.fixture
def simulated_gpu(request: pytest.FixtureRequest) -> "SimulatedGPU":
    """The GPU that is "cuda" while a test runs: `gpu.max_memory_allocated()`, `gpu.trace`, and so on."""
    return request.node.stash[_MEASURED].gpu  # type: ignore[no-any-return]  # a node's stash is typed by its key


@pytest.fixture
def gpu_report(request: pytest.FixtureRequest, simulated_gpu: "SimulatedGPU") -> "Callable[[], Report]":
    """A function that makes the report of the test up to now: `gpu_report().peak.allocated_bytes`."""
    return request.node.stash[_MEASURED].report  # type: ignore[no-any-return]


# what is shown in the end


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The largest owners of each test, and where the baseline was written."""
    found = figures_in(terminalreporter.stats)
    if config.getoption("every_byte") and found:
        terminalreporter.section("every-byte: the largest owners of each test, simulated")
        for nodeid, figures in found.items():
            terminalreporter.write_line(f"{nodeid}: needs {figures['needs']} on {figures['gpu']}")
            for owner in figures["owners"][:3]:
                terminalreporter.write_line(f"  {owner['short']:>9}  {owner['in_words']}")
    if (path := config.getoption("every_byte_store")) and found:
        Baselines.store(path, found)
        terminalreporter.write_line(f"every-byte: {path} has what {len(found):,d} tests need")
