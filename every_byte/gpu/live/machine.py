"""What GPU this machine has, and what of the process or the machine changes what is measured on it: a sentence each."""

import os
import platform
import sys
from dataclasses import dataclass
from typing import Any

import torch

from every_byte.units import exact

_ALLOCATOR = "it changes how PyTorch's allocator cuts and keeps its memory"
_NO_ALLOCATOR = "it turns PyTorch's caching allocator off, which then counts nothing"
_WORKSPACE = "it changes the cuBLAS workspaces"
_BLAS = "it changes which library multiplies matrices, and what that takes to work in"
_ATTENTION = "it changes which attention kernel is preferred"
SETTINGS = {
    "PYTORCH_ALLOC_CONF": _ALLOCATOR,
    "PYTORCH_CUDA_ALLOC_CONF": _ALLOCATOR,
    "PYTORCH_HIP_ALLOC_CONF": _ALLOCATOR,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _NO_ALLOCATOR,
    "PYTORCH_NO_HIP_MEMORY_CACHING": _NO_ALLOCATOR,
    "CUBLAS_WORKSPACE_CONFIG": _WORKSPACE,
    "CUBLASLT_WORKSPACE_SIZE": _WORKSPACE,
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE": _WORKSPACE,
    "TORCH_CUBLAS_WORKSPACE_CACHE": _WORKSPACE,
    "TORCH_BLAS_PREFER_CUBLASLT": _BLAS,
    "TORCH_CUDNN_SDPA_DEPRIORITIZED": _ATTENTION,
}
"""Variables of the environment that change what a program takes from the allocator, and how."""


@dataclass(frozen=True)
class Machine:
    """This machine's own GPU, as far as the book can measure on it.

    `name` is the GPU's, "" where there is none; `reason` says in a sentence why nothing can be measured here, and is ""
    where something can. `cannot_be_simulated` says why no simulation stands beside a measurement, or is "".
    """

    name: str = ""
    reason: str = ""
    cannot_be_simulated: str = ""


def this_machine() -> Machine:
    """What GPU PyTorch sees here."""
    if torch.cuda.is_available():
        return Machine(torch.cuda.get_device_name(), cannot_be_simulated=_other_rules())
    return Machine(reason=_why_none())


def _other_rules() -> str:
    if torch.version.hip is None:
        return ""
    return (
        "This is an AMD GPU under ROCm. What it measures is its own: the simulated GPU follows the rules of NVIDIA's, "
        "so it is not compared."
    )


def _why_none() -> str:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.version.cuda is None and torch.version.hip is None:
        if torch.backends.mps.is_available():
            return (
                "PyTorch sees Apple's GPU on this machine, and no CUDA GPU: Apple's has another allocator, which is "
                "not read here."
            )
        return f"PyTorch sees no GPU on this machine: {torch.__version__} is a build without CUDA."
    if hidden is not None and hidden.strip() in ("", "-1"):
        return f'PyTorch sees no GPU on this machine: CUDA_VISIBLE_DEVICES="{hidden}" hides them.'
    return "PyTorch sees no GPU on this machine."


def knows_operations() -> bool:
    """Whether PyTorch's memory history tells on this machine in which operation an allocation was made.

    Source: torch/csrc/profiler/unwind/unwind.cpp, which reads C++ stacks on Linux on x86-64 alone.
    """
    return sys.platform == "linux" and platform.machine() == "x86_64"


def conditions(device: torch.device) -> list[str]:
    """What else the reader of a measured figure should know: a sentence each; none where all is as the book assumes.

    Counts: settings of the process that change what is allocated, other processes' memory, a part of a GPU (MIG),
            several GPUs.
    """
    known = [
        f"{name}={os.environ[name]} is set: {effect}." for name, effect in SETTINGS.items() if os.environ.get(name)
    ]
    preferred: Any = torch.backends.cuda.preferred_blas_library()  # an enumeration of C++
    if (library := preferred.name) not in ("Default", "Cublas"):
        known.append(f"torch.backends.cuda.preferred_blas_library is {library}: {_BLAS}.")
    if (fraction := torch.cuda.get_per_process_memory_fraction(device)) < 1:
        known.append(f"torch.cuda.set_per_process_memory_fraction leaves this process {fraction:.1%} of the GPU.")
    if settings := _settings_of_the_program():
        known.append(f"The program has set PyTorch's allocator to {settings}: {_ALLOCATOR}.")
    if (backend := torch.cuda.get_allocator_backend()) != "native":
        known.append(f"PyTorch's allocator here is {backend}, another than its own: {_ALLOCATOR}.")
    if not knows_operations():
        known.append(
            "PyTorch's memory history names no operations on this machine: a trace has none, nor what they tell."
        )
    name = torch.cuda.get_device_name(device)
    if " MIG " in f" {name} ":
        known.append("This is a part of a GPU (MIG): its memory and its multiprocessors are those of the part.")
    if torch.cuda.device_count() > 1:
        known.append(
            f"This is GPU {device.index} of the {torch.cuda.device_count()} that PyTorch sees; torch.cuda.set_device "
            "chooses another."
        )
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    elsewhere = total_bytes - free_bytes - torch.cuda.memory_reserved(device)
    if elsewhere > _USUAL_CONTEXT_BYTES:
        known.append(
            f"{exact(elsewhere)} of this GPU are taken outside of this process's allocator, more than a CUDA context: "
            "other processes use it, too."
        )
    return known


def _settings_of_the_program() -> str:
    """What the allocator was told, by the environment or by the program since."""
    settings: str = getattr(torch._C, "_accelerator_getAllocatorSettings", lambda: "")()  # not in every version
    return "" if settings in (os.environ.get(name) for name in SETTINGS) else settings


_USUAL_CONTEXT_BYTES = 2 << 30
"""More than the CUDA context and the libraries of one process take on any GPU of today."""
