"""Published peaks of a Llama 3 8B with adapters, and without, in a loss whose chunks keep what they make."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from every_byte.units import GiB
from utils.experiments.llama_step import LlamaStep
from utils.experiments.step_run import roomy_gpu

N_CHUNKS = 8


def kept_chunks(n: int) -> Callable:
    """A loss in n chunks of rows, none through a checkpoint, as torchtune has it: it keeps all log-probabilities."""

    def loss(h, head, targets):
        parts = zip(h.flatten(0, -2).chunk(n), targets.flatten().chunk(n), strict=True)
        sums = [F.cross_entropy(head(part).float(), wanted, reduction="sum") for part, wanted in parts]
        return (torch.stack(sums).sum() / targets.numel(),)

    return loss


@pytest.mark.long
@pytest.mark.parametrize(
    ("rank", "is_checkpointed", "gib"),
    [(8, False, 38.1), (0, True, 30.1)]
    + [pytest.param(*rest, marks=pytest.mark.nightly) for rest in ((0, False, 40.0), (8, True, 18.6))],
)
def test_adapters_beside_all_weights_whose_state_is_elsewhere(rank, is_checkpointed, gib):
    """Two sequences of 2,048 tokens; all weights by an optimizer without state on the card, as a paged one."""
    step = LlamaStep(
        b=2, s=2048, rank=rank, is_checkpointed=is_checkpointed, optimizer="AdamW, fused" if rank else "SGD"
    )
    with roomy_gpu(step.gpu) as gpu:
        step.train(gpu, loss=kept_chunks(N_CHUNKS))
        totals, _ = gpu.trace.totals()
    assert round(max(totals) / GiB, 1) == gib
