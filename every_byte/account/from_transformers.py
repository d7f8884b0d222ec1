"""Models of Hugging Face's `transformers` by name of class, from a configuration in letters: nothing is downloaded."""

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from torch import nn

from every_byte.formula.expressions import Expression, in_order
from every_byte.step.letters import with_signature

_READ = re.compile(r'\bconfig\.([a-z]\w*)\b(?!\s*\()|getattr\(\s*(?:self\.)?config,\s*"(\w+)"')
_TAKEN = re.compile(r'\bkwargs\.(?:get|pop)\(\s*"([a-z]\w*)"')
_NUMBER = re.compile(r"\b(int|float)\b")


def hugging_face(name: str, **configuration: Any) -> Callable[..., nn.Module]:
    """A function that makes a model of that class, with fresh weights, for `account`.

    What is configured is as in the class's own configuration, with what that takes or the model reads beside it, as
    `attn_implementation` or `decoder_start_token_id`; a whole number may be written in letters, which are then
    arguments of the function: `hugging_face("LlamaForCausalLM", hidden_size="d", num_hidden_layers="L")`. What is not
    said has the configuration's default, and where there is none what is said is taken as it is.

    Raises: ImportError where `transformers` is not installed; ValueError for a class or setting that there is not.
    Example: hugging_face("LlamaForCausalLM", hidden_size="d", num_hidden_layers=2)
    """
    model_class = _class_of(name)
    config_class = model_class.config_class
    defaults = config_class()
    beside = [key for key in configuration if not hasattr(defaults, key)]
    known = _taken_by(defaults) | _read_by(model_class) if beside else set()
    if unknown := [key for key in beside if key not in known]:
        there = sorted({name for name in vars(defaults) if not name.startswith("_")} | known)
        raise ValueError(
            f"{config_class.__name__} must have what is configured: got {unknown[0]!r}"
            f"{_near(unknown[0], there)}; it has {', '.join(there)}."
        )
    written = {
        key: Expression(value)
        for key, value in configuration.items()
        if isinstance(value, str) and key not in beside and _is_number(defaults, key)
    }
    letters = in_order(letter for size in written.values() for letter in size.letters)

    def make(**values: int) -> nn.Module:
        sizes = {key: size.value(values) for key, size in written.items()}
        with _quietly():
            made: nn.Module = model_class(config_class(**configuration | sizes))
        return made

    make.__name__ = name
    by_name = [inspect.Parameter(letter, inspect.Parameter.KEYWORD_ONLY) for letter in letters]
    return with_signature(make, inspect.Signature(by_name))


def _is_number(defaults: Any, key: str) -> bool:
    """Whether a setting is one, by its default; where that is None, by its type."""
    default = getattr(defaults, key)
    if default is None and dataclasses.is_dataclass(defaults):
        types = {field.name: str(field.type) for field in dataclasses.fields(defaults)}
        return bool(_NUMBER.search(types.get(key, "int")))
    return not isinstance(default, str | bool | Mapping)


def _taken_by(defaults: Any) -> set[str]:
    """What a configuration takes without keeping it by that name: a configuration accepts any word."""
    names = "__init__", "__post_init__", "convert_rope_params_to_dict"
    functions = (vars(cls).get(name) for cls in type(defaults).__mro__ for name in names)
    taken = {name for each in functions if each is not None for name in _TAKEN.findall(_source(each))}
    has_rotary = hasattr(defaults, "rope_parameters")  # what all configurations inherit asks for words of those, too
    return {name for name in taken if has_rotary or "rope_" not in name and "rotary" not in name}


def _read_by(model_class: type) -> set[str]:
    """What the model's own code asks of its configuration, which may have no default for it."""
    files = {cls.__module__ for cls in model_class.__mro__ if ".models." in cls.__module__}
    found = (names for file in files for names in _READ.findall(_source(sys.modules[file])))
    return {name for names in found for name in names if name}


def _source(of: Any) -> str:
    try:
        return inspect.getsource(of)
    except (OSError, TypeError):  # there is no source
        return ""


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


def _class_of(name: str) -> Any:
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        raise ImportError("hugging_face needs transformers, which is not there: pip install transformers.") from None
    found = getattr(transformers, name, None)
    if found is None or getattr(found, "config_class", None) is None:
        raise ValueError(
            f"name must be a class of a model in transformers {transformers.__version__}: got {name!r}"
            f"{_near(name, dir(transformers))}; "
            "try LlamaForCausalLM, GPT2LMHeadModel, BertForMaskedLM or ViTForImageClassification."
        )
    return found


def _near(name: str, known: Iterable[str]) -> str:
    """The likeliest of what is known, as a question; "" if none is near."""
    near = get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
