"""Functions of letters: which sizes one takes, calling it with these, and the same with some of them as numbers."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar


def arguments(function: Callable[..., Any]) -> set[str]:
    """The names of a function's arguments, letters all of them."""
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return {name for name, one in inspect.signature(function).parameters.items() if one.kind not in kinds}


F = TypeVar("F", bound=Callable[..., Any])


def called_with(function: Callable[..., Any], letters: Mapping[str, int]) -> Any:
    """What a function returns that has some of the letters as arguments.

    Raises: ValueError for one without a value.
    """
    wanted = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted):
        return function(**letters)
    required = [p.name for p in wanted if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if missing := [name for name in required if name not in letters]:
        name = getattr(function, "__name__", "a function")
        raise ValueError(
            f"every letter must have a value: {missing[0]} of {name} has none; try account(…, {missing[0]}=8)."
        )
    return function(**{p.name: letters[p.name] for p in wanted if p.name in letters})


def with_numbers(function: Callable[..., Any], fixed: Mapping[str, int]) -> Callable[..., Any]:
    """A function of letters whose arguments of these names are numbers now; the others stay, with their defaults."""
    signature = inspect.signature(function)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    given = {letter: n for letter, n in fixed.items() if takes_all or letter in signature.parameters}
    if not given:
        return function
    left = [
        p.replace(kind=p.KEYWORD_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p
        for p in signature.parameters.values()
        if p.name not in given
    ]
    return of_letters(left, lambda **values: function(**values | given), getattr(function, "__name__", "a function"))


def of_letters(
    letters: list[inspect.Parameter] | set[str], function: Callable[..., Any], name: str
) -> Callable[..., Any]:
    """A function that says by its signature which letters it takes."""

    def made(**values: int) -> Any:
        return function(**values)

    if isinstance(letters, set):
        letters = [inspect.Parameter(letter, inspect.Parameter.KEYWORD_ONLY) for letter in sorted(letters)]
    made.__name__ = name
    return with_signature(made, inspect.Signature(letters))


def with_signature(function: F, signature: inspect.Signature) -> F:
    """The same function, which says that it takes these arguments."""
    vars(function)["__signature__"] = signature
    return function
