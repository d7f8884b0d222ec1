"""A checkpoint that stays on the GPU after it was taken over is told; one that went, or data from a file, is not."""

import pytest
from wrong_programs import found

RULE = "kept checkpoint"
SAVED = """
step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "c.pt")
checkpoint = torch.load("c.pt", map_location=WHERE)  # here
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
MORE
for i in range(3): step()
"""


def saved(where: str = "'cuda'", more: str = "") -> str:
    return SAVED.replace("WHERE", where).replace("MORE", more)


def test_a_checkpoint_that_a_name_keeps(run):
    finding, said = found(run, saved(), RULE)
    weights = said.figures["peak"]["by_category"]["parameters"]
    assert weights <= finding["n_bytes"] < weights + 4096
    assert finding["line"]["text"] == "checkpoint = torch.load(\"c.pt\", map_location='cuda') # here"
    assert 'load it with map_location="cpu", or del it' in finding["sentence"]


RIGHT = {
    "one that is deleted": saved(more="del checkpoint"),
    "one that is loaded to the CPU": saved("'cpu'"),
    "one whose tensors the model takes as its own": """
        torch.save(model.state_dict(), "c.pt")
        model.load_state_dict(torch.load("c.pt", map_location="cuda"), assign=True)
        for i in range(3): model(batch()).sum().backward()
        """,
    "data from a file": """
        torch.save([torch.randn(512, 256) for _ in range(9)], "d.pt")
        data = torch.load("d.pt", map_location="cuda")
        for x in data: model(x).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
    "an average of the weights": "ema = [p.detach().clone() for p in model.parameters()]\nstep()\nstep()",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
