"""Forms guessed at points in no order: nothing is one only where enough runs show it."""

from every_byte.closed_form.forms import Form, guessed


def test_nothing_at_too_few_points_is_no_form():
    """Three runs with nothing may be of any kind of rows; a fourth says that there is none."""
    points = [(1,), (2,), (3,), (5,)]
    assert guessed(("b",), points[:3], [0, 0, 0]) is None
    assert guessed(("b",), points, [0, 0, 0, 0]) == Form(())
