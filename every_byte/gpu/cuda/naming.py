"""Where a program says that something is to lie: on "cuda", on "meta", or where PyTorch puts it by default."""

import threading
from contextlib import AbstractContextManager

import torch
from torch._C import _len_torch_function_stack
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from every_byte.gpu.memory.as_cuda import AsCuda, parsed
from every_byte.gpu.memory.attachment import this_thread
from every_byte.gpu.memory.modes import Mode, attached, standing_for_cuda

HERE, EMPTY = "cuda", "meta"


def simulated_cuda() -> Mode:
    """The dispatch mode of the GPU that "cuda" means here, which there is wherever this is asked."""
    mode = standing_for_cuda()
    assert mode is not None
    return mode


def as_cuda() -> AsCuda:
    """As which of a machine's GPUs a program finds it."""
    place = simulated_cuda().memory.as_cuda
    assert place is not None
    return place


def is_outside() -> bool:
    """Whether it is the program that runs now: no operation is at work on a simulated GPU, or about to be.

    A function mode, as that of a default device, calls what was called once more.
    """
    return not (this_thread.depth or this_thread.asked)


def named(device: torch.device | str | int | None) -> str:
    """Which of the two kinds a device is, for a program beside an open GPU that stands for "cuda"; "" for others.

    Raises: RuntimeError for another GPU than the simulated one; as `torch.device` for what is no device.
    """
    place = parsed(device)
    if place is None or place.type not in (HERE, EMPTY):
        return ""
    if place.type == HERE:
        as_cuda().must_be_here(place)
        if not attached():
            raise RuntimeError(
                f'a simulated GPU counts on the thread that opened it, and on those started since: "cuda" is '
                f"{simulated_cuda().memory.spec.name}, and something was to lie there by the thread "
                f"{threading.current_thread().name!r}, which is older; open a GPU on this thread."
            )
    return place.type


def by_default() -> torch.device | None:
    """The device of `torch.set_default_device`, or of a context `with torch.device(...)`."""
    if not _len_torch_function_stack():
        return None
    modes = reversed(_get_current_function_mode_stack())
    return next((mode.device for mode in modes if isinstance(mode, DeviceContext)), None)


def asking(kind: str) -> AbstractContextManager[None]:
    """What is made inside is on that kind of device by the program's own word: "cuda" or "meta"."""
    return this_thread.having("asked", kind)
