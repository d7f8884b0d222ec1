"""What an error says in a sentence, and that nothing which it passed on its way stays alive once it is let go."""

import gc
import weakref

import pytest

from every_byte.failures import release, sentence


class Tensor:
    """Stands for what takes memory."""


@pytest.fixture
def alive():
    """Weak references to the tensors that the functions below made; none of them waits for the garbage collector."""
    gc.disable()
    yield []
    gc.enable()


def fails(alive, error=KeyError):
    tensor = Tensor()
    alive.append(weakref.ref(tensor))
    raise error("no such key")


def caught(function, *arguments) -> BaseException:
    try:
        function(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("it must fail")


def left(alive) -> int:
    return sum(reference() is not None for reference in alive)


# -------------------------------------------------------------------------------------------------------------- release


def test_what_the_frames_of_an_error_hold_goes(alive):
    def outer():
        tensor = Tensor()
        alive.append(weakref.ref(tensor))
        fails(alive)

    error = caught(outer)
    assert left(alive) == 2, "a traceback holds the local variables of all frames on its way"
    release(error)
    assert left(alive) == 0
    assert error.__traceback__ is None
    assert str(error) == "'no such key'"


def test_frames_that_another_holds_are_emptied(alive):
    """As an interactive session holds the last error's."""
    error = caught(fails, alive)
    held = error.__traceback__
    release(error)
    assert left(alive) == 0
    assert held.tb_next.tb_frame.f_code is fails.__code__


def as_a_cause(alive):
    try:
        fails(alive)
    except KeyError as error:
        raise ValueError("outer") from error


def as_a_cause_from_before(alive):
    raise ValueError("outer") from caught(fails, alive)


def as_the_context(alive):
    try:
        fails(alive)
    except KeyError:
        fails(alive, ValueError)


def as_the_context_that_is_not_shown(alive):
    try:
        fails(alive)
    except KeyError:
        raise ValueError("outer") from None


def several_deep(alive):
    try:
        as_a_cause(alive)
    except ValueError:
        try:
            as_the_context(alive)
        except ValueError as error:
            raise RuntimeError("outermost") from error


CHAINS = [as_a_cause, as_a_cause_from_before, as_the_context, as_the_context_that_is_not_shown, several_deep]


@pytest.mark.parametrize("function", CHAINS)
def test_what_the_errors_behind_it_hold_goes_too(alive, function):
    error = caught(function, alive)
    assert left(alive) == len(alive) >= 1
    release(error)
    assert left(alive) == 0
    behind = [error.__cause__, error.__context__]
    assert any(one is not None for one in behind), "what was the matter can still be told"
    assert all(one is None or one.__traceback__ is None for one in behind)


def test_errors_that_are_each_other_s_context_come_to_an_end(alive):
    one, other = caught(fails, alive), caught(fails, alive)
    one.__context__, other.__context__, one.__cause__ = other, one, one
    release(one)
    assert left(alive) == 0


def test_a_frame_that_still_runs_keeps_what_it_needs(alive):
    """It cannot be cleared, and need not: what it holds goes when it returns."""

    def running():
        tensor = Tensor()
        alive.append(weakref.ref(tensor))
        try:
            fails(alive)
        except KeyError as error:
            release(error)
            held = left(alive), error.__traceback__
        return held, tensor is not None

    assert running() == ((1, None), True)
    assert left(alive) == 0


def test_an_error_that_was_never_raised_has_nothing_to_let_go():
    error = ValueError("made, not raised")
    release(error)
    assert error.__traceback__ is None


# ------------------------------------------------------------------------------------------------------------- sentence


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("It failed.", "It failed."),
        ("\n  First line. \nSecond line.", "First line."),
        ("", "ValueError without a message."),
        (" \n ", "ValueError without a message."),
        ("a" * 400, "a" * 400),
        ("a" * 401, "a" * 399 + "…"),
        ("It is full. Free 3.5 bytes. " + "Or else" * 100, "It is full. Free 3.5 bytes."),
        ("Version 2.13 failed" + "d" * 400, "Version 2.13 failed" + "d" * 380 + "…"),
    ],
)
def test_an_error_says_a_sentence(message, said):
    assert sentence(ValueError(message)) == said
    assert len(said) <= 400


def test_a_key_error_says_its_key():
    assert sentence(KeyError("name")) == "'name'"
