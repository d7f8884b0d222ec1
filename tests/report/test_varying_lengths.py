"""Batches of varying length are named where expandable segments would reserve less, as a run with them shows."""

import pytest
from wrong_programs import found

from every_byte.units import in_gib

RULE = "varying lengths"
LENGTHS = (512, 777, 1111, 640, 1500, 901, 1720, 333, 1900, 1204)
LOOP = """
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for n in LENGTHS:
    x = torch.randn(32, n, 256, device="cuda")
    model(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def loop(*lengths: int) -> str:
    return LOOP.replace("LENGTHS", repr(lengths))


def test_what_a_replay_promises_is_what_a_run_reserves(run):
    finding, said = found(run, loop(*LENGTHS), RULE)
    (own, *_) = said.figures["fits"]["gpus"]
    _, expandable = found(run, loop(*LENGTHS), RULE, "--settings", "expandable_segments:True")
    (less, *_) = expandable.figures["fits"]["gpus"]
    assert finding["n_bytes"] == own["needed_bytes"] - less["needed_bytes"] > own["needed_bytes"] // 20
    assert "32×512×256, 32×777×256, 32×1111×256, 32×640×256 and 6 more" in finding["sentence"]
    assert f"it reserves {in_gib(less['needed_bytes'])}, as a replay shows" in finding["sentence"]
    assert expandable.figures["findings"] == []


@pytest.mark.parametrize("lengths", [(1024,) * 6, (1900, 1900, 1900, 1900), (1024,) * 5 + (7,)])
def test_what_looks_like_it_is_not(run, lengths):
    assert found(run, loop(*lengths), RULE)[0] is None
