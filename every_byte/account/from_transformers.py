"""Models of Hugging Face's `transformers` by name of class, from a configuration in letters: nothing is downloaded."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn

from every_byte.formula.expressions import Expression, in_order


def hugging_face(name: str, **configuration: Any) -> Callable[..., nn.Module]:
    """A function that makes a model of that class, with fresh weights, for `account`.

    What is configured is as in the class's own configuration; a whole number may be written in letters, which are then
    arguments of the function: `hugging_face("LlamaForCausalLM", hidden_size="d", num_hidden_layers="L")`. What is not
    said has the configuration's default.

    Raises: ImportError where `transformers` is not installed; ValueError for a class or setting that there is not.
    """
    model_class = _class_of(name)
    config_class = model_class.config_class
    defaults = config_class()
    if unknown := [key for key in configuration if not hasattr(defaults, key)]:
        raise ValueError(
            f"{config_class.__name__} must have what is configured: got {unknown[0]!r}; "
            f"it has {', '.join(sorted(vars(defaults)))}."
        )
    written = {
        key: Expression(value)
        for key, value in configuration.items()
        if isinstance(value, str) and not isinstance(getattr(defaults, key), str | bool | Mapping)
    }
    letters = in_order(letter for size in written.values() for letter in size.letters)

    def make(**values: int) -> nn.Module:
        sizes = {key: size.value(values) for key, size in written.items()}
        with _quietly():
            return model_class(config_class(**configuration | sizes))

    make.__name__ = name
    make.__signature__ = inspect.Signature(
        [inspect.Parameter(letter, inspect.Parameter.KEYWORD_ONLY) for letter in letters]
    )
    return make


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what transformers says of the default numbers of special tokens, which a small vocabulary lacks."""
    logging = importlib.import_module("transformers").logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _class_of(name: str):
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise ImportError("hugging_face needs transformers, which is not there: pip install transformers.") from None
    found = getattr(transformers, name, None)
    if found is None or getattr(found, "config_class", None) is None:
        raise ValueError(
            f"name must be a class of a model in transformers {transformers.__version__}: got {name!r}; "
            "try LlamaForCausalLM, GPT2LMHeadModel, BertForMaskedLM or ViTForImageClassification."
        )
    return found
