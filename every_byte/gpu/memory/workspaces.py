"""What cuBLAS works in: how many bytes PyTorch gives a handle for each stream, by the variables that say so.

Each thread has a handle of its own, and a handle a workspace in each stream; cuBLASLt works in the same one, so what
CUBLASLT_WORKSPACE_SIZE asks for takes no memory: more than there is, is cut, with a warning.
Source: aten/src/ATen/cuda/CublasHandlePool.cpp; environment/workspaces of tests/reference.
"""

import re
import threading
import warnings
from typing import Protocol

import torch

from every_byte.palette import Category

from .attachment import this_thread
from .blocks import Block
from .environment import Environment
from .specs import GPUSpec
from .streams import Streams

WORKSPACE = Category.CUBLAS_WORKSPACE
"""The name of its allocations in a trace."""
_DEFAULT_LT_KIB = 1024
_LARGEST_SIZE = (1 << 64) - 1
_LARGEST_INT = (1 << 31) - 1


class Lender(Protocol):
    """What workspaces ask of the memory that they are taken from."""

    streams: Streams

    def allocate(self, n_bytes: int, name: str = "") -> tuple[Block, int]: ...
    def free(self, block: Block, number: int) -> None: ...


class Workspaces:
    """The workspaces that a GPU has taken, by thread and stream; None stands for one of no bytes.

    Backward runs on a thread of its own on CUDA, so a program in one stream has two; "forward" is the thread that
    opened the GPU. A thread that ends leaves its handle, with its workspaces, to the next thread that asks for its
    first one: the main thread and the backward thread too. A block stands with its number.
    Source: the cases two_by_two_matmul and side_products of tests/reference; DeviceThreadHandles.h.
    """

    def __init__(self, settings: Environment, spec: GPUSpec) -> None:
        self._settings, self._spec = settings, spec
        self._n_bytes: int | None = None
        self.taken: dict[tuple[int, int], tuple[Block, int] | None] = {}
        self._taken_by_lt: dict[tuple[int, int], tuple[Block, int]] = {}
        self._handles: dict[str | int, int] = {}
        self._left: list[int] = []
        self._lock = threading.Lock()

    def use(self, memory: Lender, by_lt: bool = False) -> None:
        """Take the workspace of the running thread and stream from this memory, unless it is there, or none is kept.

        Where cuBLASLt has one of its own, a product in it takes that: up to PyTorch 2.11 beside cuBLAS's.
        """
        if not self.are_kept:
            return
        in_backward = torch._C._current_graph_task_id() != -1
        thread = "backward" if in_backward else "forward" if this_thread.modes else threading.get_ident()
        key = self._handle_of(thread), memory.streams.current
        of_lt = self._lt_bytes if by_lt else 0
        if key not in self.taken and not (of_lt and self._spec.rules.lt_works_in_cublass):
            self.taken[key] = memory.allocate(self.n_bytes, WORKSPACE) if self.n_bytes else None
        if of_lt and key not in self._taken_by_lt:
            self._taken_by_lt[key] = memory.allocate(of_lt, WORKSPACE)

    def _handle_of(self, thread: str | int) -> int:
        """The number of a thread's handle: at first the last one that another thread has left, or a new one."""
        with self._lock:
            if thread not in self._handles:
                self._handles[thread] = self._left.pop() if self._left else len(self._handles)
            return self._handles[thread]

    def end_thread(self) -> None:
        """The running thread ends, and leaves its handle."""
        with self._lock:
            handle = self._handles.pop(threading.get_ident(), None)
            if handle is not None:
                self._left.append(handle)

    @property
    def are_kept(self) -> bool:
        """Whether a thread keeps its own; else each product takes one and gives it back, as from PyTorch 2.15 on.

        Source: isCUDABlasWorkspaceCachingEnabled.
        """
        return self._spec.rules.keeps_workspaces or self._settings.keeps_workspaces

    def of_a_product(self, by_lt: bool) -> int:
        """The bytes that a product takes for itself, in cuBLASLt or in cuBLAS; 0 where threads keep theirs."""
        if self.are_kept:
            return 0
        return self._lt_bytes if by_lt else self.n_bytes

    @property
    def _lt_bytes(self) -> int:
        """What cuBLASLt works in, where it has a workspace of its own; 0 where it works in cuBLAS's."""
        rules, settings = self._spec.rules, self._settings
        asked = settings.unifies_workspaces
        if self.are_kept and (rules.lt_works_in_cublass if asked is None else asked):
            return 0
        return lt_bytes(settings) or rules.lt_workspace_bytes

    @property
    def n_bytes(self) -> int:
        """What one takes."""
        if self._n_bytes is None:
            asked_bytes = lt_bytes(self._settings)
            self._n_bytes = workspace_bytes(self._settings, self._spec)
            if self.are_kept and not self._lt_bytes:  # then both are one
                _tell_of_less(asked_bytes, self._n_bytes)
        return self._n_bytes

    @n_bytes.setter
    def n_bytes(self, n_bytes: int | None) -> None:
        """What those take that come from now on; None stands for what the settings say."""
        self._n_bytes = n_bytes

    def clear(self, memory: Lender) -> None:
        """Give all of them back, as `torch._C._cuda_clearCublasWorkspaces` does; the next product takes a new one."""
        taken, self.taken, self._taken_by_lt = [*self.taken.values(), *self._taken_by_lt.values()], {}, {}
        for block_and_number in filter(None, taken):
            memory.free(*block_and_number)


def workspace_bytes(settings: Environment, spec: GPUSpec) -> int:
    """What a workspace takes: of ":4096:2:16:8", twice 4,096 KiB and 8 times 16; without the variable, the GPU's own.

    Source: parseChosenWorkspaceSize; what surrounds such pairs plays no part.
    Raises: RuntimeError, PyTorch's, for a number beyond 64 bits.
    """
    said, own = settings.cublas_workspace, spec.cublas_workspace_bytes
    if said is None:
        return own
    pairs = re.findall(r":([0-9]+):([0-9]+)", said)
    if not pairs:
        _warn(f"Could not parse CUBLAS_WORKSPACE_CONFIG, using default workspace size of {own} bytes.")
        return own
    if any(int(number) > _LARGEST_SIZE for pair in pairs for number in pair):
        raise RuntimeError(f"stoull: CUBLAS_WORKSPACE_CONFIG must have numbers of 64 bits: got {said!r}.")
    return sum(int(kib) * int(times) for kib, times in pairs) * 1024 & _LARGEST_SIZE


def lt_bytes(settings: Environment) -> int:
    """What CUBLASLT_WORKSPACE_SIZE asks for, in KiB: a number as C++ reads it; 0 without the variable.

    Up to what is no digit it counts, and a negative one wraps around.
    Source: parseCUDABlasLtWorkspaceSize.
    """
    said = settings.cublaslt_workspace
    if said is None:
        return 0
    found = re.match(r"\s*([+-]?[0-9]+)", said)
    default = f"using default workspace size of {_DEFAULT_LT_KIB} KiB."
    if found is None:
        _warn(f"invalid CUBLASLT_WORKSPACE_SIZE, {default}")
        return _DEFAULT_LT_KIB * 1024
    if not -_LARGEST_INT - 1 <= int(found[1]) <= _LARGEST_INT:
        _warn(f"CUBLASLT_WORKSPACE_SIZE out of range, {default}")
        return _DEFAULT_LT_KIB * 1024
    return int(found[1]) * 1024 & _LARGEST_SIZE


def _tell_of_less(asked_bytes: int, shared_bytes: int) -> None:
    """Warn, as PyTorch does, where cuBLASLt gets less to work in than was asked for.

    PyTorch says so at the first product that goes to cuBLASLt, and of its own 1,024 KiB too, where nobody has asked.
    Source: getCUDABlasLtWorkspaceSize.
    """
    if asked_bytes > shared_bytes:
        _warn(
            f"Requested unified CUBLASLT workspace size of {asked_bytes} bytes exceeds CUBLAS workspace size of "
            f"{shared_bytes} bytes. Please increase CUBLAS workspace size via CUBLAS_WORKSPACE_CONFIG or decrease "
            "requested CUBLASLT_WORKSPACE_SIZE. Otherwise CUBLASLT workspace size will be limited to the CUBLAS "
            "workspace size."
        )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
