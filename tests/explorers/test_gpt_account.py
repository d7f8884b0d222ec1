"""The accounts of GPT's explorer that are kept: for whom they hold, and how many."""

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.memory.specs import SPECS, by_version
from every_byte.widget.settings import of_the_account
from utils.explorers import gpt


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules:UserWarning")
def test_an_account_is_kept_for_the_rules_and_the_kernels_that_it_was_taken_with(monkeypatch):
    explorer = gpt.gpt_explorer()
    settings = of_the_account(explorer.controls, explorer.value)
    first = explorer.measure(settings)
    assert explorer.measure(dict(settings)) is first
    with sdpa_kernel(SDPBackend.MATH):
        plain = explorer.measure(settings)
    assert plain.terms != first.terms
    assert explorer.measure(settings) is first
    monkeypatch.setitem(SPECS, settings["gpu"], by_version(settings["gpu"], "2.15"))
    assert explorer.measure(settings).terms != first.terms


def test_a_dozen_are_kept():
    """Each has its trace."""
    assert gpt._kept.cache_info().maxsize == gpt.N_KEPT == 12
