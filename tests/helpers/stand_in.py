"""A simulated GPU that stands for this machine's own: what explorers do with one is tested where there is none."""

import gc
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import torch

from every_byte.gpu import device
from every_byte.gpu.live import machine, settings
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.live.machine import Machine
from every_byte.gpu.memory.specs import GPUSpec, find_spec
from every_byte.gpu.simulated import SimulatedGPU

NAME = "NVIDIA Stand-in 80GB"
OPTION = f"{NAME} (this machine)"
BADGE = f"measured on {NAME}, PyTorch {torch.__version__}"
SPEC = replace(find_spec("h100-80gb"), name=NAME, device_name=NAME)

_places = {
    "this_machine": machine,
    "conditions": machine,
    "followed_settings": settings,
    "fresh_gpu": device,
    "LiveGPU": device,
}


class StandIn(SimulatedGPU):
    """Its figures are called measured."""

    origin = "measured"

    def __init__(self, spec: GPUSpec) -> None:
        super().__init__(spec)
        self._memory.trace.origin = self.origin


class Opened:
    """How often the stand-in was opened, and what of it was left when it was closed: bytes, which ought to be 0."""

    def __init__(self) -> None:
        self.times, self.left = 0, []


def install(
    spec: GPUSpec = SPEC, *, measures_as: GPUSpec | None = None, takes_s: float = 0.0, cannot_be_simulated: str = ""
) -> tuple[Opened, Callable[[], None]]:
    """Put it in the place of this machine's GPU, for all of utils that is imported; what was opened, and the way back.

    The machine says that it is of `spec`. Where `measures_as` is given, what it measures is that one's. An account
    takes at least `takes_s` seconds.
    """
    opened = Opened()

    class Live:
        """As far as anything asks it."""

        device = torch.device("meta")
        name = spec.name

        def __init__(self) -> None:
            self.spec = spec

        def memory_allocated(self) -> int:
            return 0

    @contextmanager
    def opening(name, *, traced=True):
        opened.times += name == LIVE
        with StandIn(measures_as or spec) if name == LIVE else SimulatedGPU(name) as gpu:
            yield gpu
            if name == LIVE:
                time.sleep(takes_s)
        if name == LIVE:
            gc.collect()
            left = gpu.trace.live_at().values()
            opened.left.append(sum(event.n_bytes for event in left if event.name != "cuBLAS workspace"))

    theirs = {
        "this_machine": lambda: Machine(spec.name, cannot_be_simulated=cannot_be_simulated),
        "conditions": lambda _device: [f"Opened {opened.times} times."],
        "followed_settings": lambda _device: ("", []),
        "fresh_gpu": opening,
        "LiveGPU": Live,
    }
    ours = {name: getattr(place, name) for name, place in _places.items()}
    _replace(ours, theirs)
    return opened, lambda: _replace(theirs, ours)


def _replace(before: dict, after: dict) -> None:
    modules = [
        found
        for name, found in sys.modules.items()
        if name.split(".")[0] in ("every_byte", "utils") and found is not None
    ]
    for module in modules:
        for name, item in before.items():
            if vars(module).get(name) is item:
                setattr(module, name, after[name])
