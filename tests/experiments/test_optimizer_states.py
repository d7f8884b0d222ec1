"""What optimizers keep of a Llama-3-8B in bfloat16, added up from its parameters."""

import pytest

from every_byte.units import GiB
from utils.experiments.optimizer_states import bitsandbytes_states, sizes_of, states_of, torchao_states
from utils.models.llama import Llama

SIZES = sizes_of("llama-3-8b")
N = 8_030_261_248
BLOCKS = 6_979_321_856  # elements of the blocks' matrices


def test_adamw_has_two_averages_and_a_counter_for_each_parameter():
    assert states_of("AdamW").kept_bytes == 2 * 2 * N + 4 * len(SIZES)


def test_momentum_is_one_average_and_plain_sgd_none():
    assert states_of("SGD, momentum").kept_bytes == 2 * N
    assert states_of("SGD").kept_bytes == 0


@pytest.mark.long
def test_adafactor_keeps_rows_and_columns():
    shapes = [parameter.shape for parameter in Llama.from_name("llama-3-8b", device="meta").parameters()]
    found = states_of("Adafactor")
    assert found.kept_bytes == sum(2 * sum(shape) for shape in shapes) == 6_304_768
    assert found.temporary_bytes > 2 * max(SIZES)  # its step takes one of the largest parameter's size


@pytest.mark.nightly
def test_muon_keeps_one_average_for_matrices():
    found = states_of("Muon, AdamW")
    others = N - BLOCKS
    assert found.kept_bytes == 2 * BLOCKS + 2 * 2 * others + 4 * (2 + 65)  # counters of embedding, head and norms
    assert round(found.kept_bytes / GiB, 2) == 16.92
    assert found.temporary_bytes == 2 * (3 * 14_336 * 4096 + 2 * 4096 * 4096)  # of Newton-Schulz


def test_an_optimizer_that_is_not_known():
    with pytest.raises(ValueError, match="optimizer must be one of AdamW; SGD; "):
        states_of("Lion")


def test_the_libraries_rules_for_eight_billion():
    assert bitsandbytes_states(SIZES) == 2 * N + 8 * N // 256 + 2048 == 16_311_470_208
    assert torchao_states(SIZES) == 2 * N + 8 * N // 256 + 2048 * len(SIZES) == 16_312_064_128
    assert torchao_states(SIZES, bits=4) == N + 8 * N // 128 + 128 * len(SIZES) == 8_532_189_824


def test_the_libraries_rules_at_their_edges():
    assert bitsandbytes_states([4095]) == 8 * 4095
    assert bitsandbytes_states([4097]) == 2 * 4097 + 8 * 17 + 2048
    assert torchao_states([4095, 4097, 4160]) == 2 * 2 * (4095 + 4097 + 4160)  # blocks divide none of them
    assert torchao_states([4096]) == 2 * 4096 + 8 * 16 + 2048
    with pytest.raises(ValueError, match="bits must be 8 or 4: got bits=2"):
        torchao_states([4096], bits=2)
