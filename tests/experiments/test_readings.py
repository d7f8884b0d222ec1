"""What is requested is counted to the byte, now and at its peak."""

import torch

from utils import SimulatedGPU
from utils.experiments.readings import requested


def test_what_is_requested_now_and_was_at_the_peak():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(100, device=gpu.device)
        y = torch.empty(50, device=gpu.device)
        del x
        assert (requested(gpu), requested(gpu, "peak")) == (y.nbytes, 600)
