"""Public architectures by their libraries' own classes, small and in letters: what each is made of, and trained on."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from types import MappingProxyType
from typing import Any

from torch import nn

from every_byte.account import hugging_face
from every_byte.step.batch import numbers, tokens

WORDS = tokens("b", "s", below="V")
TEXT = {"input_ids": WORDS, "labels": WORDS}
IMAGES = {"pixel_values": numbers("b", 3, "32*p", "32*p"), "labels": tokens("b", below=2)}
DECODER = {"b": "b", "s": "s", "d": "64*a", "a": "a", "L": "L"}
TWO_STACKS = "two stacks, of different lengths or with attention from one to the other"
NOTHING_ELSE: Mapping[str, Any] = MappingProxyType({})
NO_TRANSFORMER = "no attention"
NO_PLAIN_ATTENTION = "attention within windows, or to fewer keys than queries"


@dataclass(frozen=True)
class Architecture:
    """A class of a library, how it is configured, the batch that it is trained on, and the sizes of the account.

    `configuration` is in letters as `hugging_face` has it, or a function of letters that returns one, where sizes stand
    in lists. `block` says which expressions the letters b, s, d, a and L of the usual formula of activations are, or
    in words why that formula has nothing to say.
    """

    name: str
    library_class: str
    configuration: Mapping[str, Any] | Callable[..., dict[str, Any]]
    batch: Mapping[str, object]
    letters: Mapping[str, int]
    block: Mapping[str, str] | str = field(default_factory=lambda: DECODER)
    family: str = ""

    def maker(self) -> Callable[..., nn.Module]:
        """A function of letters that makes the model. Raises: ImportError where its library is not installed."""
        if isinstance(self.configuration, Mapping):
            make: Callable[..., nn.Module] = hugging_face(self.library_class, **self.configuration)
            return make
        return _in_lists(self.library_class, self.configuration)

    @property
    def model_letters(self) -> dict[str, int]:
        """The sizes of the model, without those that the batch alone has."""
        names = inspect.signature(self.maker()).parameters
        return {letter: size for letter, size in self.letters.items() if letter in names}


def _in_lists(library_class: str, configuration: Callable[..., dict[str, Any]]) -> Callable[..., nn.Module]:
    """The same where a function says the configuration, whose arguments are the letters."""

    @wraps(configuration)
    def make(**letters: int) -> nn.Module:
        model: nn.Module = hugging_face(library_class, **configuration(**letters))()
        return model

    return make


def text(
    name: str,
    library_class: str,
    *,
    batch: Mapping[str, object] = TEXT,
    block: Mapping[str, str] | str = DECODER,
    of: Mapping[str, str | None] = NOTHING_ELSE,
    sizes: Mapping[str, int | None] = NOTHING_ELSE,
    **configuration: Any,
) -> Architecture:
    """A model of text, whose configuration has `hidden_size` and so on.

    `sizes` are other sizes, further letters, and with None letters less.

    A library's own words for these are in `of`, as {"hidden_size": "n_embd"}; None: it has no such setting.
    """
    usual = {
        "hidden_size": "64*a",
        "num_hidden_layers": "L",
        "num_attention_heads": "a",
        "intermediate_size": "256*a",
        "vocab_size": "V",
    }
    renamed = {of.get(key, key): size for key, size in usual.items()}
    named = {key: size for key, size in renamed.items() if key is not None}
    all_sizes: dict[str, int | None] = {"b": 4, "s": 256, "a": 6, "L": 2, "V": 4000, **sizes}
    letters = {letter: size for letter, size in all_sizes.items() if size is not None}
    return Architecture(name, library_class, named | configuration, batch, letters, block)


as_many = partial(text, num_key_value_heads="a")
"""A model of text with as many heads of keys and values as of queries."""
IN_GROUPS: dict[str, Any] = dict(
    hidden_size="64*g*k", intermediate_size="256*g*k", num_attention_heads="g*k", num_key_value_heads="k"
)
"""So many groups of heads of queries, g to a head of keys and values."""
N_OF_GPT2 = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}


def swin(a: int, L: int, p: int) -> dict[str, Any]:
    """Two stages, the second of twice the width; windows of 4 x 4 patches, shifted in every other layer."""
    return dict(image_size=32 * p, embed_dim=32 * a, depths=[2 * L, 2 * L], num_heads=[a, 2 * a], window_size=4)


def convnext(c: int, L: int) -> dict[str, Any]:
    """Four stages."""
    return dict(hidden_sizes=[c, 2 * c, 4 * c, 8 * c], depths=[L, L, L, L])


def resnet(c: int, L: int) -> dict[str, Any]:
    """Four stages of bottlenecks."""
    return dict(embedding_size=c, hidden_sizes=[4 * c, 8 * c, 16 * c, 32 * c], depths=[L, L, L, L])


def segformer(a: int, L: int) -> dict[str, Any]:
    """Four stages, the later ones of more heads."""
    return dict(
        hidden_sizes=[32 * a, 64 * a, 160 * a, 256 * a],
        num_attention_heads=[a, 2 * a, 5 * a, 8 * a],
        depths=[L, L, L, L],
        decoder_hidden_size=256,
    )


def clip(a: int, L: int, V: int, s: int, p: int) -> dict[str, Any]:
    """A tower of text and one of images, of the same width."""
    tower = dict(hidden_size=64 * a, intermediate_size=256 * a, num_hidden_layers=L, num_attention_heads=a)
    words = dict(vocab_size=V, max_position_embeddings=s, pad_token_id=0, bos_token_id=0, eos_token_id=1)
    return dict(text_config=tower | words, vision_config=tower | dict(image_size=32 * p, patch_size=32))


def of_images(
    name: str,
    library_class: str,
    configuration: Callable[..., dict[str, Any]],
    block: str,
    batch: Mapping[str, object] = IMAGES,
    **letters: int,
) -> Architecture:
    """A model of images, whose sizes stand in lists."""
    return Architecture(name, library_class, configuration, batch, letters, block)


def of_patches(
    name: str,
    library_class: str,
    *,
    block: Mapping[str, str] = DECODER | {"s": "4*p**2 + 1"},
    **configuration: Any,
) -> Architecture:
    """A transformer over patches of 16 x 16 pixels."""
    usual: dict[str, Any] = dict(
        hidden_size="64*a", num_hidden_layers="L", num_attention_heads="a", intermediate_size="256*a"
    )
    usual = {key: size for key, size in (usual | dict(image_size="32*p") | configuration).items() if size is not None}
    return Architecture(name, library_class, usual, IMAGES, dict(b=4, a=4, L=2, p=7), block)


LANGUAGE = (
    text("Llama", "LlamaForCausalLM", **IN_GROUPS, block=DECODER | {"d": "64*g*k", "a": "g*k"},
         sizes=dict(a=None, g=2, k=4, V=8000)),
    as_many("Mistral", "MistralForCausalLM"),
    as_many("Qwen2", "Qwen2ForCausalLM"),
    as_many("Qwen3", "Qwen3ForCausalLM", head_dim=64),
    as_many("Gemma 2", "Gemma2ForCausalLM", head_dim=64),
    as_many("Gemma 3", "Gemma3ForCausalLM", head_dim=64),
    as_many("Phi-3", "Phi3ForCausalLM", pad_token_id=0),
    text("GPT-2", "GPT2LMHeadModel", of=N_OF_GPT2 | {"intermediate_size": "n_inner"}),
    text("GPT-NeoX", "GPTNeoXForCausalLM"),
    text("OPT", "OPTForCausalLM", of={"intermediate_size": "ffn_dim"}, word_embed_proj_dim="64*a"),
    text(
        "BLOOM",
        "BloomForCausalLM",
        of={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": None},
    ),
    text("Falcon", "FalconForCausalLM", of={"intermediate_size": "ffn_hidden_size"}),
    as_many("OLMo 2", "Olmo2ForCausalLM"),
    as_many("Granite", "GraniteForCausalLM"),
    text("GPT-J", "GPTJForCausalLM", of=N_OF_GPT2 | {"intermediate_size": "n_inner"}, rotary_dim=64),
)  # fmt: skip
MIXTURES = (as_many("Mixtral", "MixtralForCausalLM", num_local_experts=4),)
STATE_SPACES = (
    text("Mamba", "MambaForCausalLM", of={"num_attention_heads": None, "intermediate_size": None},
         block=NO_TRANSFORMER, sizes=dict(s=32)),
)  # fmt: skip
ENCODERS = (
    text("BERT", "BertForMaskedLM"),
    text("RoBERTa", "RobertaForMaskedLM"),
    text("DeBERTa-v2", "DebertaV2ForMaskedLM"),
    text("ELECTRA", "ElectraForMaskedLM", embedding_size="64*a"),
    text("DistilBERT", "DistilBertForMaskedLM",
         of={"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
             "intermediate_size": "hidden_dim"}),
    text("MPNet", "MPNetForMaskedLM"),
    text("ModernBERT", "ModernBertForMaskedLM", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1,
         eos_token_id=2, num_hidden_layers="3*L", block=DECODER | {"L": "3*L"}, sizes=dict(L=1)),
)  # fmt: skip
PAIRS = {"input_ids": WORDS, "labels": tokens("b", "t", below="V")}
TWO_OF_BART = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
DECODER_OF_BART = dict(decoder_layers="L", decoder_attention_heads="a", decoder_ffn_dim="256*a")
ENCODER_DECODERS = (
    text(
        "T5", "T5ForConditionalGeneration", batch=PAIRS | {"decoder_input_ids": PAIRS["labels"]}, block=TWO_STACKS,
        d_kv=64,
        of={"hidden_size": "d_model", "num_hidden_layers": "num_layers", "num_attention_heads": "num_heads",
            "intermediate_size": "d_ff"}, num_decoder_layers="L", sizes={"t": 128},
    ),
    text("BART", "BartForConditionalGeneration", batch=PAIRS, block=TWO_STACKS, of=TWO_OF_BART, sizes={"t": 128},
         **DECODER_OF_BART),
    text(
        "Whisper", "WhisperForConditionalGeneration", block=TWO_STACKS, of=TWO_OF_BART, max_source_positions="s",
        batch={"input_features": numbers("b", 80, "2*s"), "labels": tokens("b", "t", below="V")}, sizes={"t": 128},
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, **DECODER_OF_BART,
    ),
)  # fmt: skip
IMAGE_MODELS = (
    of_patches("ViT", "ViTForImageClassification"),
    of_patches("DeiT", "DeiTForImageClassification", block=DECODER | {"s": "4*p**2 + 2"}),
    of_patches("DINOv2", "Dinov2ForImageClassification", intermediate_size=None, patch_size=16),
    of_patches("BEiT", "BeitForImageClassification"),
    of_images("Swin", "SwinForImageClassification", swin, NO_PLAIN_ATTENTION, b=4, a=6, L=1, p=7),
    of_images("ConvNeXt", "ConvNextForImageClassification", convnext, NO_TRANSFORMER, b=4, c=32, L=2, p=7),
    of_images("ResNet", "ResNetForImageClassification", resnet, NO_TRANSFORMER, b=4, c=16, L=2, p=7),
    of_images(
        "SegFormer", "SegformerForSemanticSegmentation", segformer, NO_PLAIN_ATTENTION,
        {"pixel_values": IMAGES["pixel_values"], "labels": tokens("b", "32*p", "32*p", below=2)}, b=4, a=1, L=2, p=7,
    ),
)  # fmt: skip
TWO_TOWERS = (
    of_images(
        "CLIP", "CLIPModel", clip, TWO_STACKS,
        {"input_ids": WORDS, "pixel_values": IMAGES["pixel_values"], "return_loss": True},
        b=4, s=64, a=4, L=2, V=2000, p=7,
    ),
)  # fmt: skip
AUDIO = (
    Architecture(
        "wav2vec 2.0", "Wav2Vec2ForSequenceClassification",
        dict(hidden_size="64*a", num_hidden_layers="L", num_attention_heads="a", intermediate_size="256*a",
             apply_spec_augment=False, layerdrop=0.0),
        {"input_values": numbers("b", "320*s"), "labels": tokens("b", below=2)},
        dict(b=2, s=100, a=4, L=2), DECODER | {"s": "s - 1"},
    ),
)  # fmt: skip
FAMILIES = {
    "language": LANGUAGE,
    "mixture of experts": MIXTURES,
    "state space": STATE_SPACES,
    "encoder": ENCODERS,
    "encoder-decoder": ENCODER_DECODERS,
    "vision": IMAGE_MODELS,
    "two towers": TWO_TOWERS,
    "audio": AUDIO,
}
ARCHITECTURES = {each.name: replace(each, family=family) for family, of_it in FAMILIES.items() for each in of_it}
"""By name."""
