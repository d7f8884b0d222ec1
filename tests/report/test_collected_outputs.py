"""Outputs that a list collects are told, with their line; a few of them, and what is computed from them, are not."""

import pytest
from wrong_programs import found

RULE = "collected outputs"
KEEPS = """
with torch.no_grad():
    for i in range(N):
        kept.append(model(batch(40_000))WHAT)  # here
"""


def keeps(n: int, what: str = "") -> str:
    return KEEPS.replace("N)", f"{n})").replace("WHAT", what)


@pytest.mark.parametrize("n", [9, 900])
def test_a_list_of_outputs(run, n):
    finding, said = found(run, keeps(n), RULE, "--gpu", "t4-16gb")
    is_out = said.figures["out_of_memory"] is not None
    assert is_out == (n == 900)
    assert finding["line"]["text"] == "kept.append(model(batch(40_000))) # here"
    outputs = 40_000 * 256 * 4
    assert finding["n_bytes"] % outputs == 0
    assert f"results of {outputs:,d} bytes (39.1 MiB) each are kept, " in finding["sentence"]


RIGHT = {
    "what is computed from them": keeps(9, ".argmax(dim=-1)"),
    "two of them": keeps(2),
    "on the CPU": keeps(9, ".cpu()"),
    "training": "for i in range(5): step(40_000)",
    "a stack of layers": "with torch.no_grad():\n    for i in range(5): model(batch(40_000))",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE, "--gpu", "t4-16gb")[0] is None
