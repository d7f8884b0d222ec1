"""What PyTorch's allocator is set to on this machine: by the environment, and by what the program has said since."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from every_byte.gpu.memory.environment import ALLOCATOR, VARIABLES, Environment
from every_byte.gpu.memory.settings import AllocatorSettings


def allocator_settings(shown: Mapping[str, Any]) -> AllocatorSettings:
    """The settings of an allocator, which a snapshot tells in part as its `allocator_settings`.

    That has the last text that was set. Some settings outlive the text that they were in: those of the environment are
    read from there, and of expandable segments the snapshot says whether they are on. Where a text is none that is
    known here, as of another PyTorch, these are the defaults.
    """
    text = next((shown[name] for name in ALLOCATOR if name in shown), "")
    try:
        settings = _environment().allocator
        settings = settings if text in ("", settings.text) else settings.changed_by(text)
    except (ValueError, RuntimeError):
        settings = AllocatorSettings()
    return replace(settings, expandable_segments=shown.get("expandable_segments", settings.expandable_segments))


def followed_settings(device: torch.device) -> tuple[Environment, list[str]]:
    """What a simulation of this machine's GPU has to follow, and a sentence that says so, where it is set at all."""
    try:
        settings = _settings_of(device)
    except (ValueError, RuntimeError) as error:
        return Environment(), [f"Its simulation has the defaults: {error}."]
    return settings, [f"Its simulation follows {settings}."] if str(settings) else []


def _settings_of(device: torch.device) -> Environment:
    settings = _environment()
    allocator = allocator_settings(torch.cuda.memory._snapshot().get("allocator_settings", {}))
    fraction = torch.cuda.get_per_process_memory_fraction(device)
    return replace(settings, allocator=replace(allocator, per_process_memory_fraction=fraction))


def _environment() -> Environment:
    return Environment.read({name: os.environ[name] for name in VARIABLES if name in os.environ})
