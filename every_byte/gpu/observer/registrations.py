"""Tells those who observe of each parameter and buffer that a module of any thread registers.

PyTorch goes through its hooks for this in a loop of Python, in which another thread may take its turn: a hook that came
or went then would end the loop with an error. So one stays from the first time that somebody observes.
"""

from collections.abc import Callable
from threading import Lock

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

Observer = Callable[[nn.Module, str, torch.Tensor | None], None]

_changing = Lock()
_observers: tuple[Observer, ...] = ()
_is_installed = False


def observe(observer: Observer) -> None:
    """Call this function with each module, name and tensor that are registered from now on."""
    global _observers, _is_installed
    with _changing:
        _observers += (observer,)
        if not _is_installed:
            register_module_parameter_registration_hook(_tell)
            register_module_buffer_registration_hook(_tell)
            _is_installed = True


def end(observer: Observer) -> None:
    """Call it no more; nothing if it is not among the observers."""
    global _observers
    with _changing:
        _observers = tuple(other for other in _observers if other != observer)


def _tell(module: nn.Module, name: str, tensor: torch.Tensor | None) -> None:
    for observer in _observers:
        observer(module, name, tensor)
