"""The GPU that an experiment runs on: a simulated one, or the machine's own, under the same names."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar

import torch

from every_byte.gpu.live.gpu import LIVE, LiveGPU, cleared, innermost_live
from every_byte.gpu.live.machine import this_machine
from every_byte.gpu.memory.environment import Settings
from every_byte.gpu.memory.modes import attached
from every_byte.gpu.memory.specs import SPECS, GPUSpec, find_spec
from every_byte.gpu.protocol import GPU

from .simulated import SimulatedGPU

_opened = threading.local()
_settings: ContextVar[Settings] = ContextVar("settings of simulated GPUs", default="")


def fresh_gpu(name: str | GPUSpec, *, traced: bool = True) -> AbstractContextManager[SimulatedGPU | LiveGPU]:
    """A GPU for one account, as a scope: a simulated one of its own, or for `LIVE` this machine's, `cleared`.

    A live one records no trace with `traced=False`, which takes it a few seconds the first time.

    Raises: ValueError for an unknown name; RuntimeError for `LIVE` without a GPU.
    """
    return cleared(traced=traced) if name == LIVE else SimulatedGPU(name, settings=_settings.get())


@contextmanager
def simulated_with(settings: Settings) -> Iterator[None]:
    """Simulated GPUs that `fresh_gpu` opens meanwhile have these settings: as beside a GPU that has them."""
    token = _settings.set(settings)
    try:
        yield
    finally:
        _settings.reset(token)


def gpu_names() -> list[str]:
    """The names that `fresh_gpu` knows here: those of the simulated GPUs and, where this machine has one, `LIVE`."""
    return [*SPECS, *([] if this_machine().reason else [LIVE])]


def spec_of(name: str | GPUSpec) -> GPUSpec:
    """The spec of the GPU that `fresh_gpu` would open.

    Raises: as `fresh_gpu`.
    """
    if isinstance(name, GPUSpec):
        return name
    return LiveGPU().spec if name == LIVE else find_spec(name)


def open_gpu(
    name: str | GPUSpec = "a100-80gb",
    settings: Settings = "",
    *,
    cuda: bool = False,
    torch: str = "",
    context_bytes: int | str | None = None,
) -> SimulatedGPU | LiveGPU:
    """Open a GPU for the rest of a notebook, and close the one that was opened so before.

    `"live"` is this machine's own GPU; any other name is simulated, with the allocator's `settings` as `SimulatedGPU`
    takes them: "expandable_segments:True", say. With `cuda=True` it stands for "cuda", and programs run unmodified; of
    the machine's own GPU that is so in any case. `torch` is the version whose rules a simulated one follows, as "2.15",
    by default the book's, and `context_bytes` the size of its CUDA context, as "863MiB", where it is known. Running the
    cell again starts afresh: tensors made before stay on the
    closed GPU until their names are gone, and the new one refuses them.

    Raises: ValueError for an unknown name, for settings as PyTorch does, for settings of "live", which PyTorch reads
        from the environment before it starts, and for a version that has no rules, or of "live"; RuntimeError for
        "live" without a GPU.
    Example: x = torch.ones(256, device=open_gpu("rtx4090-24gb").device)
    """
    if name == LIVE and settings:
        raise ValueError(
            f"settings of the machine's own GPU are PyTorch's: got {settings!r}; set PYTORCH_ALLOC_CONF before Python "
            "starts, or simulate the GPU."
        )
    if name == LIVE and context_bytes is not None:
        raise ValueError(
            f"context_bytes is the context of a simulated GPU: got {context_bytes!r} with {LIVE!r}, which has its own; "
            "leave it out."
        )
    if name == LIVE and torch:
        raise ValueError(
            f"torch is the version that a simulated GPU follows: got {torch!r} with {LIVE!r}, which runs the "
            "one that is installed; leave it out."
        )
    gpu = (
        LiveGPU()
        if name == LIVE
        else SimulatedGPU(name, settings=settings, cuda=cuda, torch=torch, context_bytes=context_bytes)
    )
    before = getattr(_opened, "gpu", None)
    if before is not None:
        before.close()
    with suppress(AttributeError):
        del _opened.gpu
    gpu.__enter__()
    _opened.gpu = gpu
    return gpu


def current_gpu() -> GPU:
    """The innermost GPU open on this thread: a simulated one, or else the machine's own.

    Raises: RuntimeError if there is neither.
    """
    if attached():
        return attached()[-1].owner
    if (live := innermost_live()) is not None:
        return live
    if torch.cuda.is_available():
        return LiveGPU()
    raise RuntimeError('no GPU is open on this thread: call open_gpu("a100-80gb") first, or name one with gpu=.')
