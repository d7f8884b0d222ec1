"""Two steps of a small GPT, which figures of blocks and of segments draw."""

import pytest

from utils import SimulatedGPU
from utils.experiments.gpt_article import gpt_steps


@pytest.fixture(scope="module")
def step():
    """The trace of two steps of a small GPT, and the snapshot between them."""
    snapshots = {}
    with SimulatedGPU("a100-80gb") as gpu:
        keep = lambda mark: snapshots.update({mark: gpu.memory_snapshot()})  # noqa: E731
        gpt_steps(gpu, b=2, s=256, n_layers=2, at_mark=keep)
    return gpu.trace, snapshots["step 1 zero_grad"]
