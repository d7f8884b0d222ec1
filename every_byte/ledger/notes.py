"""What was noted of a program that ran on a simulated GPU, beside its memory: for a report, which says it."""

from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any

from .plain_attention import PlainAttention
from .source_lines import Line


@dataclass
class Notes:
    """What ran, what was not followed, and which files it left.

    `operators` has what ran, each by operator and type of numbers, and how many events came before; `unmodelled` in the
    same way the operations whose temporary memory is not known, `refused` what the program asked for that is not
    followed, with its line, and `values_read` the lines of the program that read a value that was not known.
    `assumed` has what was assumed of values on which the size of a tensor depends, with its line.
    `data_parallel` has the program's lines that made an `nn.DataParallel`, None for one that is not known.
    `unfused` has each attention that no fused kernel took, once.
    `calls` has, where it is a dict when a simulated GPU runs, what operators with memory of their own were called with,
    by how many events came before each: see `gpu/memory/calls.py`.
    `files_of_zeros` has the paths of files to which the program saved tensors; their values are zeros: nothing was
    computed. `snapshots_beside` maps the path of a snapshot that the program dumped over an existing file to the path
    that was written instead. `records_history` says whether the program is recording a history for a snapshot.
    `managed_bytes` is how much of CUDA's managed memory the program has taken, which no allocator of PyTorch's counts.
    """

    operators: dict[str, int] = field(default_factory=dict)
    unmodelled: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    values_read: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    data_parallel: dict[Line | None, int] = field(default_factory=dict)
    unfused: dict[PlainAttention, None] = field(default_factory=dict)
    calls: dict[int, Any] | None = None
    files_of_zeros: dict[str, None] = field(default_factory=dict)
    snapshots_beside: dict[str, str] = field(default_factory=dict)
    records_history: bool = False
    managed_bytes: int = 0

    def as_now(self) -> "Notes":
        """A copy, which what is noted later does not reach."""
        return Notes(**{one.name: copy(getattr(self, one.name)) for one in fields(self)})
