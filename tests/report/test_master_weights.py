"""Master weights beside a model of float32 are told; beside one of 16 bits, and an average, they are not."""

import pytest
from wrong_programs import found

RULE = "master weights twice"
LOOP = """
model.to(TYPE)
masters = [p.detach().float().clone().requires_grad_() for p in model.parameters()]  # here
optimizer = torch.optim.AdamW(masters)
for i in range(3):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(batch().to(TYPE)).pow(2).mean()
    loss.backward()
    for master, p in zip(masters, model.parameters()):
        master.grad, p.grad = p.grad.float(), None
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters()): p.copy_(master)
"""


def test_a_copy_of_float32_beside_float32(run):
    finding, said = found(run, LOOP.replace("TYPE", "torch.float32"), RULE)
    assert finding["n_bytes"] * 2 == said.figures["peak"]["by_category"]["parameters"]
    assert finding["line"]["text"].endswith("# here")


RIGHT = {
    "a model of 16 bits": LOOP.replace("TYPE", "torch.bfloat16"),
    "an average": "ema = [p.detach().clone() for p in model.parameters()]\nfor i in range(3): step()",
    "a parameter of the program's own": """
        scale = torch.ones((), device="cuda", requires_grad=True)
        optimizer = torch.optim.AdamW([*model.parameters(), scale])
        for i in range(3): (scale * model(batch())).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
