"""Which cases of a file are chosen, and a file that is not there."""

import re

import pytest

from every_byte.gpu.cases.programs import chosen, load_cases
from every_byte.gpu.record import CASES


def test_names_choose_cases_in_the_order_of_the_file():
    cases = load_cases(CASES)
    assert chosen([], cases) == list(cases)
    assert chosen(["mlp_relu", "three*"], cases) == ["three_tensors", "mlp_relu"]
    with pytest.raises(
        ValueError, match="names must be those of cases, .*: got 'gpt3'; try one of three_tensors, two_"
    ):
        chosen(["three*", "gpt3"], cases)


def test_a_file_of_cases_must_exist(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"got {tmp_path / 'cases.py'}, which does not exist")):
        load_cases(tmp_path / "cases.py")
