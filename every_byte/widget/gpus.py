"""The GPU of an explorer: the simulated ones by name and, last, this machine's own, to measure on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypedDict

import torch

from every_byte.failures import release, sentence
from every_byte.gpu.device import fresh_gpu, simulated_with, spec_of
from every_byte.gpu.live.gpu import LIVE, LiveGPU
from every_byte.gpu.live.machine import Machine, conditions, this_machine
from every_byte.gpu.live.settings import followed_settings
from every_byte.gpu.memory.specs import EXPLORED, GPUSpec
from every_byte.units import exact

from .account import Account
from .controls import Control

FIRST = next(iter(EXPLORED))
"""The GPU that an explorer starts with, and that settings without one mean."""

ALLOCATORS = {"default": ""} | {text: text for text in ("expandable_segments:True", "max_split_size_mb:128")}
"""The settings of PyTorch's allocator for which an explorer says whether a run fits, as PYTORCH_ALLOC_CONF has them."""

NO_KERNEL = "A page has no kernel to measure with: open the chapter in JupyterLab on a machine with a GPU."
_BESIDE = "beside"
_ANY = (0, 0)
_is_for_a_page: ContextVar[bool] = ContextVar("whether explorers are made for a page", default=False)


@contextmanager
def for_a_page() -> Iterator[None]:
    """Explorers that are made meanwhile are for a page without a kernel: the same on whatever machine."""
    token = _is_for_a_page.set(True)
    try:
        yield
    finally:
        _is_for_a_page.reset(token)


def _own(least: tuple[int, int]) -> Machine:
    """This machine's GPU, or why none can be chosen."""
    machine = Machine(reason=NO_KERNEL) if _is_for_a_page.get() else this_machine()
    if machine.reason or spec_of(LIVE).capability >= least:
        return machine
    needed = ".".join(map(str, least))
    return replace(machine, reason=f"{machine.name} cannot do this: it takes a GPU of compute capability {needed}.")


def _option(machine: Machine) -> str:
    return f"{machine.name} (this machine)" if machine.name else "this machine's GPU"


def available_gpus(least: tuple[int, int] = _ANY) -> dict[str, GPUSpec]:
    """The GPUs that can be chosen, by their options' names: those of at least this compute capability."""
    own = _own(least)
    known = {name: spec for name, spec in EXPLORED.items() if spec.capability >= least}
    return known if own.reason else known | {_option(own): spec_of(LIVE)}


def gpu_controls(
    label: str = "GPU", *, least: tuple[int, int] = _ANY, selects: bool = False, workspace: bool = False
) -> list[Control]:
    """The choice `gpu`, whose last option is this machine's own; with it, the checkbox that has it simulated as well.

    Where this machine has none, or `least`, a compute capability, asks for more, the option is disabled, with the
    reason. With `workspace`, W is the cuBLAS workspace; `selects` says that the GPU selects a formula.
    """
    own, specs = _own(least), available_gpus(least)
    option = _option(own)
    choice = Control.choice(
        "gpu",
        label,
        {name: name for name in specs if name != option} | {option: LIVE},
        letters={name: {"W": spec.cublas_workspace_bytes} for name, spec in specs.items()} if workspace else None,
        selects=selects,
        disabled={option: own.reason} if own.reason else None,
        live=None if own.reason else {option: own.name},
    )
    if own.reason or own.cannot_be_simulated:
        return [choice]
    return [
        choice,
        Control.toggle(_BESIDE, "simulate this card, too", selects=False, when={"gpu": [option]}, hides=True),
    ]


def allocator_control(least: tuple[int, int] = _ANY) -> Control:
    """The choice `allocator` of `ALLOCATORS`, on which the verdict of a simulated GPU depends; `least` as above."""
    own = _own(least)
    simulated = [name for name in available_gpus(least) if name != _option(own)]
    when = None if own.reason else {"gpu": simulated}
    return Control.choice("allocator", "allocator", ALLOCATORS, when=when, judges=True)


def gpu_and_rest(settings: Mapping[str, Any]) -> tuple[str | GPUSpec, dict[str, Any]]:
    """The GPU of a setting, and what else there is to choose."""
    rest = {symbol: item for symbol, item in settings.items() if symbol not in ("gpu", _BESIDE)}
    return settings.get("gpu", FIRST), rest


def with_gpu(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A setting with its GPU, and without what is no choice of the program's."""
    gpu, rest = gpu_and_rest(settings)
    return rest | {"gpu": gpu}


class Origin(TypedDict):
    """Where an `Account` comes from, as it takes it."""

    origin: str
    device: str
    note: str


def origin_of(origin: str, name: str, spec: GPUSpec) -> Origin:
    """Where an `Account` comes from: a GPU's or a trace's origin and name, and whose rules it follows."""
    note = str(spec.rules) if origin == "simulated" else f"PyTorch {torch.__version__}"
    return {"origin": origin, "device": name, "note": note}


def beside_its_simulation(account: Callable[[dict[str, Any]], Account]) -> Callable[[dict[str, Any]], Account]:
    """`account` for an Explorer with `gpu_controls`: of a measured one it says under which conditions it was measured,
    and sets the simulation of the same card beside it, where that is asked for.

    Raises: whatever `account` raises; then nothing of it stays on this machine's GPU.
    """

    def measure(settings: dict[str, Any]) -> Account:
        asked = with_gpu(settings)
        if asked["gpu"] != LIVE:
            return account(asked)
        measured = _measured(account, asked)
        live = LiveGPU()
        remarks = [measured.remark, this_machine().cannot_be_simulated, *conditions(live.device)]
        if left_bytes := live.memory_allocated():
            remarks.append(
                f"{exact(left_bytes)} on this card are other tensors': no figure but reserved bytes counts them."
            )
        beside = None
        if settings.get(_BESIDE):
            followed, sentences = followed_settings(live.device)
            remarks += sentences
            try:
                with simulated_with(followed):
                    beside = account(asked | {"gpu": spec_of(LIVE)})
            except Exception as error:  # a simulation that fails is no reason to hide what was measured
                remarks.append(f"There is no simulation of it: {sentence(error)}")
                release(error)
        return replace(measured, remark=" ".join(filter(None, remarks)), beside=beside)

    return measure


def _measured(account: Callable[[dict[str, Any]], Account], asked: dict[str, Any]) -> Account:
    try:
        return account(asked)
    except Exception as error:
        release(error)  # or its frames would keep tensors, and these their memory on the card
        with fresh_gpu(LIVE, traced=False):
            pass
        if type(error) is RuntimeError and (reason := _reason(account, asked)):
            raise RuntimeError(f"{sentence(error)} {reason}") from None
        raise


def _reason(account: Callable[[dict[str, Any]], Account], asked: dict[str, Any]) -> str:
    """Why this card's simulation refuses the same: PyTorch itself often says no more than that there is no kernel."""
    try:
        account(asked | {"gpu": spec_of(LIVE)})
    except Exception as error:
        release(error)
        return sentence(error)
    return ""
