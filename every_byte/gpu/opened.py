"""The simulated GPU of a process that a program has spawned: opened when the process begins, open until it ends."""

import base64
import os
import pickle
from collections import ChainMap

from every_byte.gpu.memory.as_cuda import AsCuda
from every_byte.gpu.simulated import SimulatedGPU

_OPEN: list[SimulatedGPU] = []


def open_as(told: str) -> None:
    """Open a GPU like the parent's, as `gpu/cuda/spawned.py` has told: its spec, its settings, and which it is."""
    spec, environment, index, n_devices, variables = pickle.loads(base64.b85decode(told))
    read = None if variables is None else ChainMap(variables, os.environ)
    gpu = SimulatedGPU(spec, settings=environment, cuda=AsCuda(index, n_devices, environment=read))
    _OPEN.append(gpu.__enter__())
