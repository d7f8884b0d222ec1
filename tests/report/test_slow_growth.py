"""A leak of any size is told by its line, also one that memory bears for a million steps; no steady program is."""

import pytest
from wrong_programs import found

RULE = "slow growth"


LOOP = """
for i in range(6):
    y = model(batch(54))
    loss = y.pow(2).mean()  # loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(WHAT)
"""


@pytest.mark.parametrize(
    ("what", "n_bytes", "advice"),
    [
        ("torch.zeros(3456, device='cuda')", 13_824, "see what collects it"),
        ("loss", 512, "keep numbers, loss.item()"),
        ("loss.detach()", 512, "keep numbers, loss.item()"),
    ],
)
def test_it_is_told_by_its_line(run, what, n_bytes, advice):
    finding, said = found(run, LOOP.replace("WHAT", what), RULE, "--gpu", "t4-16gb")
    assert finding["n_bytes"] == n_bytes
    assert said.figures["growth"] is None
    assert said.figures["slow_growth"]["n_bytes"] == n_bytes
    made = f"kept.append({what})" if "zeros" in what else "loss = y.pow(2).mean() # loss"
    assert finding["line"]["text"] == made
    assert f"Each step leaves {n_bytes:,d} bytes" in finding["sentence"]
    assert finding["sentence"].endswith(f"{advice}.")


def test_a_fast_one_is_the_verdicts(run):
    what = "torch.zeros(1 << 24, device='cuda')"
    finding, said = found(run, LOOP.replace("WHAT", what), RULE, "--gpu", "t4-16gb")
    assert finding is None
    growth = said.figures["growth"]
    assert growth["n_bytes"] == 1 << 26
    assert growth["line"]["text"] == f"kept.append({what})"
    assert f", train.py:{growth['line']['line']}; if each later step does" in " ".join(said.report.split())


@pytest.mark.parametrize("what", ["loss.item()", "y.shape", "loss.detach().cpu()"])
def test_what_looks_like_it_is_not(run, what):
    finding, said = found(run, LOOP.replace("WHAT", what), RULE, "--gpu", "t4-16gb")
    assert finding is None
    assert said.figures["slow_growth"] is None
