"""What a training step of a Llama depends on beside its sizes, for the closed forms."""

from dataclasses import dataclass

from .decoder_settings import DecoderSettings


@dataclass(frozen=True, kw_only=True)
class LlamaSettings(DecoderSettings):
    """What a training step of a `Llama` depends on beside its sizes: the fields of `DecoderSettings`.

    Raises: ValueError for a name that is not known.
    """

    family = "llama"
