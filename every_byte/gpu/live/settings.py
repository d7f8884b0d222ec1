"""What PyTorch's allocator is set to on this machine: by the environment, and by what the program has said since."""

import os
from collections.abc import Mapping
from dataclasses import replace

import torch

from every_byte.gpu.memory.environment import ALLOCATOR, VARIABLES, Environment
from every_byte.gpu.memory.settings import AllocatorSettings


def allocator_settings(told: Mapping) -> AllocatorSettings:
    """The settings of an allocator, which a snapshot tells in part as its `allocator_settings`.

    That has the last text that was set. Some settings outlive the text that they were in: those of the environment are
    read from there, and of expandable segments the snapshot says whether they are on. Where a text is none that is
    known here, as of another PyTorch, these are the defaults.
    """
    text = next((told[name] for name in ALLOCATOR if name in told), "")
    try:
        found = _environment().allocator
        found = found if text in ("", found.text) else found.changed_by(text)
    except (ValueError, RuntimeError):
        found = AllocatorSettings()
    return replace(found, expandable_segments=told.get("expandable_segments", found.expandable_segments))


def followed_settings(device: torch.device) -> tuple[Environment, list[str]]:
    """What a simulation of this machine's GPU has to follow, and a sentence that says so, where it is set at all."""
    try:
        found = _settings_of(device)
    except (ValueError, RuntimeError) as error:
        return Environment(), [f"Its simulation has the defaults: {error}."]
    return found, [f"Its simulation follows {found}."] if str(found) else []


def _settings_of(device: torch.device) -> Environment:
    found = _environment()
    allocator = allocator_settings(torch.cuda.memory._snapshot().get("allocator_settings", {}))
    fraction = torch.cuda.get_per_process_memory_fraction(device)
    return replace(found, allocator=replace(allocator, per_process_memory_fraction=fraction))


def _environment() -> Environment:
    return Environment.read({name: os.environ[name] for name in VARIABLES if name in os.environ})
