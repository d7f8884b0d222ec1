"""A Llama's training step with any of the remedies for a run that does not fit."""

from dataclasses import dataclass
from typing import Any

import torch

from utils.formulas.llama_settings import LlamaSettings
from utils.models.adapters import EVERY_LINEAR
from utils.models.llama import SIZES, Llama, letters

from .remedy_step import RemedyStep


@dataclass(frozen=True, kw_only=True)
class LlamaStep(RemedyStep):
    """A way to train a Llama, one of utils.models.llama.SIZES: the fields of `RemedyStep`.

    Raises: ValueError as `RemedyStep` does.
    """

    model: str = "llama-3-8b"
    sizes = SIZES
    linears = EVERY_LINEAR
    settings_type = LlamaSettings

    @property
    def model_letters(self) -> dict[str, int]:
        return letters(self.model)

    @property
    def is_tied(self) -> bool:
        return bool(SIZES[self.model].get("is_tied", False))

    def fresh_model(self, device: torch.device, **settings: Any) -> Llama:
        return Llama.from_name(self.model, device=device, **settings)
