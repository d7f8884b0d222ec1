"""nn.DataParallel is told with the line that makes it, whether or not lines are noted; DistributedDataParallel not."""

import pytest
from wrong_programs import found

RULE = "data parallel"


def test_a_model_in_it(run):
    finding, said = found(run, "model = nn.DataParallel(model)  # here\nstep()", RULE)
    assert finding["n_bytes"] == said.figures["peak"]["by_category"]["parameters"]
    assert finding["line"]["text"].endswith("# here")
    assert "Use DistributedDataParallel" in finding["sentence"]


def test_without_lines(run):
    finding, _ = found(run, "model = nn.DataParallel(model)\nstep()", RULE, "--no-lines")
    assert "nn.DataParallel serves all GPUs" in finding["sentence"]


RIGHT = {
    "a model without": "step()",
    "a process for each GPU": """
        import os
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")
        torch.distributed.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(model)
        step()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
