"""Every storage that lies on a simulated GPU: in whose memory, in which block, and what is known of its values."""

import weakref
from typing import Any

import torch

from .blocks import Block


class StorageRecord(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage that knows its memory, key and block; `content` is what is known of it (known/).

    One of no bytes has no block, and NO_ALLOCATION for its number.
    """

    __slots__ = ("memory", "key", "n_bytes", "block", "number", "content")

    memory: Any  # a `storages.Memory`, which comes later in the order of imports
    key: int
    n_bytes: int
    block: Block | None
    number: int
    content: Any  # a `known.content.Content`, which comes later in the order of imports, or None


RECORDS: dict[int, StorageRecord] = {}
"""Every storage that lies on a simulated GPU, by the address of its StorageImpl (`storage._cdata`)."""


def storage_died(record: StorageRecord) -> None:
    """Free the block of a storage whose last reference is gone."""
    if RECORDS.get(record.key) is record:
        del RECORDS[record.key]
    if record.block is not None:
        record.memory.free(record.block, record.number)
