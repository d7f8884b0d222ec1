"""Tensors that PyTorch makes, unseen, of Python lists that index: `x[:, [0, 1]]`. They are to have their place."""

import sys
from collections.abc import Iterable
from sys import getrefcount

import torch
from torch import Tensor

from every_byte.gpu.memory.records import RECORDS
from every_byte.gpu.memory.storages import Memory
from every_byte.interpreter import OF_THE_QUESTION, is_subscribing

_UNNAMED = 3 + OF_THE_QUESTION  # references to an index of a call: the call's own, down to the question itself
_OF_LISTS = (torch.int64, torch.bool)
_FRAMES_OF_A_HOOK = 13


def adopt_lists(indices: Iterable[Tensor | None], memory: Memory) -> None:
    """Give a place to the index tensors that PyTorch has made, unseen, of Python lists: `x[:, [0, 1]]`.

    They are known by this, that nothing but the call refers to them; a tensor from outside has a name somewhere.
    """
    for i in indices:
        if i is not None and i.is_meta and i.untyped_storage()._cdata not in RECORDS and getrefcount(i) <= _UNNAMED:
            adopt_list(i, memory)


def adopt_list(index: Tensor, memory: Memory) -> None:
    """Give a place to one of them."""
    memory.operation = "aten::_to_copy"
    memory.place_if_new(index)


def is_list(x: Tensor, is_lifted: bool = False, n_frames: int = 0) -> bool:
    """Whether a tensor without a place was made of a list, and a hook on saved tensors has it, or has had it, in hand.

    Such a hook gets the index before the operation does, and may keep it. The hook was called out of a subscription.
    From PyTorch 2.15 on the list itself is lifted, called so out of a subscription, once it is a tensor. `n_frames` are
    of the caller's, beside the two that each has.
    """
    if x.dtype not in _OF_LISTS:
        return False
    if not is_lifted and torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return False
    frame = sys._getframe(1).f_back
    for _ in range(_FRAMES_OF_A_HOOK + n_frames):
        if frame is None or is_subscribing(frame):
            return frame is not None
        frame = frame.f_back
    return False
