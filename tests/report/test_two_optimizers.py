"""Two optimizers with state of the same parameters are told; two that share none, and one that holds another, not."""

import pytest
from wrong_programs import found

RULE = "two optimizers"
TWO = """
warmup = torch.optim.Adam(model.parameters())
step()
for i in range(2):
    model(batch()).pow(2).mean().backward()
    warmup.step()  # here
    warmup.zero_grad()
"""


def test_state_of_an_optimizer_that_another_took_over_from(run):
    finding, said = found(run, TWO, RULE)
    weights = said.figures["peak"]["by_category"]["parameters"]
    assert 2 * weights <= finding["n_bytes"] < 2 * weights + 8192
    assert "2 optimizers, AdamW and Adam, each keep state of the same 4 parameters" in finding["sentence"]
    assert finding["line"]["text"] == "optimizer.step()"


RIGHT = {
    "each its own parameters": """
        first = torch.optim.Adam(model[0].parameters()); last = torch.optim.SGD(model[2].parameters(), momentum=0.9)
        for i in range(3):
            model(batch()).pow(2).mean().backward(); first.step(); last.step(); model.zero_grad()
        """,
    "one that keeps no state": """
        plain = torch.optim.SGD(model.parameters())
        for i in range(3):
            model(batch()).pow(2).mean().backward(); (plain if i else optimizer).step(); model.zero_grad()
        """,
    "one that is deleted": TWO.replace("for i", "del optimizer\nfor i"),
    "one that wraps another": """
        class Sharp(torch.optim.Optimizer):
            def __init__(self, base):
                self.base = base
                super().__init__(base.param_groups, {})
            def step(self, closure=None):
                for p in model.parameters(): self.state[p]["old"] = p.detach().clone()
                self.base.step()
        sharp = Sharp(optimizer)
        for i in range(3):
            model(batch()).pow(2).mean().backward(); sharp.step(); model.zero_grad()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
