"""A GPT-2's training step with any of the remedies for a run that does not fit."""

from dataclasses import dataclass
from typing import Any

import torch

from utils.formulas.gpt_remedies import GPTRemedySettings
from utils.models.adapters import EVERY_LINEAR_OF_GPT
from utils.models.gpt import GPT, SIZES, letters

from .remedy_step import RemedyStep


@dataclass(frozen=True, kw_only=True)
class GPTRemedyStep(RemedyStep):
    """A way to train one of the four GPT-2s, without biases and with a context of s: the fields of `RemedyStep`.

    Beyond 1,024 tokens that is longer than the context of the published models.

    Raises: ValueError as `RemedyStep` does.
    """

    model: str = "gpt2"
    sizes = SIZES
    linears = EVERY_LINEAR_OF_GPT
    settings_type = GPTRemedySettings
    is_tied = True

    @property
    def model_letters(self) -> dict[str, int]:
        """Each head has keys and values of its own, and an MLP is four times as wide as the model."""
        found = letters(self.model)
        return {letter: found[letter] for letter in "VdLa"} | {"g": found["a"], "f": 4 * found["d"]}

    def fresh_model(self, device: torch.device, **settings: Any) -> GPT:
        return GPT.from_name(self.model, device=device, **settings)
