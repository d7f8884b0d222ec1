"""A model that another one took the place of is told; a teacher, an average and a model of other shapes are not."""

import pytest
from wrong_programs import found

RULE = "two models"
FOLDS = """
def made(): return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()  # here
results = []
for fold in range(2):
    model = made()
    optimizer = torch.optim.AdamW(model.parameters())
    results.append(WHAT)
    for i in range(3): step(64)
"""


def test_the_model_of_the_fold_before(run):
    finding, said = found(run, FOLDS.replace("WHAT", "(model, optimizer)"), RULE)
    (parameters,) = {s["allocated_bytes"] for s in said.figures["lines"] if "# here" in s["line"]["text"]}
    assert finding["n_bytes"] == parameters // 2 * 3  # the model that is kept has its state beside it
    assert "# here" in finding["line"]["text"]
    assert "keep a state_dict on the CPU" in finding["sentence"]


RIGHT = {
    "what went with its name": FOLDS.replace("WHAT", "fold"),
    "a teacher": """
        import copy
        teacher = copy.deepcopy(model)
        for i in range(3):
            x = batch(64)
            with torch.no_grad(): y = teacher(x)
            (model(x) - y).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
    "an average": """
        average = torch.optim.swa_utils.AveragedModel(model)
        for i in range(3): step(64); average.update_parameters(model)
        average(batch(64))
        """,
    "another model": """
        frozen = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 128)).cuda()
        with torch.no_grad(): frozen(batch(64))
        for i in range(3): step(64)
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
