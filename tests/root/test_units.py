"""Bytes as text."""

import pytest

from every_byte.units import GiB, KiB, MiB, exact, in_gib, short


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (-1, "-1 byte"),
        (1023, "1,023 bytes"),
        (KiB, "1,024 bytes (1 KiB)"),
        (83_886_080, "83,886,080 bytes (80 MiB)"),
        (150_994_945, "150,994,945 bytes (144 MiB)"),
        (-8_135_168, "-8,135,168 bytes (-7.76 MiB)"),
        (25_296_044_032, "25,296,044,032 bytes (23.6 GiB)"),
    ],
)
def test_exact_keeps_every_digit(n_bytes, text):
    assert exact(n_bytes) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(512, "512 B"), (1536, "1.5 KiB"), (MiB, "1 MiB"), (GiB - 1, "1,024 MiB"), (3 * GiB, "3 GiB")]
)
def test_short_is_in_powers_of_two(n_bytes, text):
    assert short(n_bytes) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0.0"), (512, "less than 0.1"), (60 * MiB, "0.1"), (GiB, "1.0"), (14 * GiB + 300 * MiB, "14.3")],
)
def test_gib_have_one_digit(n_bytes, text):
    assert in_gib(n_bytes) == text
