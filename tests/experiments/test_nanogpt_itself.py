"""nanoGPT's own model.py on the simulated GPU holds what it holds under the CUDA build, if the file is here."""

import hashlib
import json
import os
import runpy
from pathlib import Path

import pytest
import torch.nn.functional as F
from places import REFERENCE

from utils import Ledger, SimulatedGPU
from utils.experiments import nanogpt_itself
from utils.experiments.gpt_article import gpt_steps

VARIABLE = "NANOGPT_MODEL"
MODEL = os.environ.get(VARIABLE, "")
NEEDS_THE_FILE = pytest.mark.skipif(
    not MODEL, reason=f"{VARIABLE} is not set to nanoGPT's model.py: curl -O {nanogpt_itself.ADDRESS}"
)
RECORDING = json.loads(nanogpt_itself.RECORDED.read_text(encoding="utf-8"))
# A class in the place of nanoGPT's, with its interface and its switch, to try the loop on: two small matrices.
STAND_IN = """
from dataclasses import dataclass
import torch

@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    bias: bool
    dropout: float

class GPT(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.is_fused = hasattr(torch.nn.functional, "scaled_dot_product_attention")
        print("not to be seen")
        self.tokens = torch.nn.Embedding(config.vocab_size, 1 if self.is_fused else 2)
        self.head = torch.nn.Linear(2, 1, bias=config.bias)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        assert device_type == "cuda"
        return torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=betas, fused=True)

    def forward(self, tokens, targets):
        logits = self.head(self.tokens(tokens))
        return logits, logits.mean()
"""


@pytest.fixture
def stand_in(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(STAND_IN, encoding="utf-8")
    return path


@NEEDS_THE_FILE
@pytest.mark.parametrize("program", nanogpt_itself.PROGRAMS)
def test_the_simulated_gpu_holds_what_was_recorded(program):
    model_py = Path(MODEL)
    assert hashlib.sha256(model_py.read_bytes()).hexdigest() == RECORDING["sha256"], "model.py of another commit"
    marks = runpy.run_path(str(REFERENCE / "record_nanogpt.py"))["marks"]
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        run = nanogpt_itself.nanogpt_steps(gpu, model_py, with_product=nanogpt_itself.PROGRAMS[program])
    assert marks(run) == RECORDING["programs"][program]


def test_two_names_make_our_gpt_allocate_what_nanogpt_does():
    """Not so in forward: nanoGPT also names the last norm's output, which is gone when backward begins."""
    recorded = RECORDING["programs"]["nanoGPT's model.py"]
    with SimulatedGPU("a100-80gb") as gpu:
        run = gpt_steps(gpu, b=12, wrap=nanogpt_itself.holding_embeddings)
    for mark in ("step 1 zero_grad", "step 2 forward", "step 2 backward", "step 2 zero_grad"):
        row = run[int(mark[5]), mark[7:]]
        assert (row.requested_bytes, row.allocated_bytes, row.reserved_bytes) == tuple(
            recorded[mark][count] for count in ("requested", "allocated", "reserved")
        )
    assert run[2, "backward"].peak_bytes == recorded["step 2 backward"]["peak"]
    norm_output = 4 * 12 * 1024 * 768
    assert recorded["step 2 forward"]["peak"] - run[2, "forward"].peak_bytes == norm_output


def test_the_recording_next_to_the_article():
    as_it_is, after_a_product = nanogpt_itself.recorded_rows()
    article = nanogpt_itself.ARTICLE
    assert {row.requested_bytes for row in (article, as_it_is, after_a_product)} == {2_057_548_088}
    assert as_it_is.allocated_bytes - article.allocated_bytes == 786_432
    assert after_a_product.allocated_bytes == article.allocated_bytes
    assert [f"{row.peak_gib:.4f}" for row in (as_it_is, after_a_product)] == ["21.8995", "21.8986"]
    assert nanogpt_itself.table([article]).splitlines()[1] == (
        "the article's              measured   2,057,548,088   6,855,368  2,064,403,456  21.898 GiB"
    )


def test_the_file_is_run_as_it_is_with_explicit_attention(stand_in, capsys):
    before = F.scaled_dot_product_attention
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        nanogpt_itself.nanogpt_steps(gpu, stand_in)
        parts = Ledger.at(gpu.trace, "step 1 zero_grad").parts
    assert parts["parameters"] == parts["gradients"] == 4 * (2 * 50304 + 2)
    assert F.scaled_dot_product_attention is before
    assert capsys.readouterr().out == ""


def test_a_product_first_takes_its_workspace_before_the_model(stand_in):
    at_model = []
    for with_product in (False, True):
        with SimulatedGPU("a100-80gb", cuda=True) as gpu:
            run = nanogpt_itself.nanogpt_steps(gpu, stand_in, with_product=with_product)
        at_model.append(run[0, "model"].requested_bytes)
    assert at_model[1] - at_model[0] == 8_519_680


def test_run_prints_both_programs(stand_in):
    head, *rows = nanogpt_itself.run(stand_in).splitlines()
    assert head.split() == ["program", "requested", "slack", "allocated", "peak"]
    assert [row[:26].strip() for row in rows] == list(nanogpt_itself.PROGRAMS)
    assert all("simulated" in row for row in rows)


def test_without_the_file(tmp_path):
    missing = tmp_path / "model.py"
    assert nanogpt_itself.run(missing) == "no model.py here"
    with (
        SimulatedGPU("a100-80gb", cuda=True) as gpu,
        pytest.raises(ValueError, match="model_py must be nanoGPT's model.py: got .*, which is not a file"),
    ):
        nanogpt_itself.nanogpt_steps(gpu, missing)


def test_a_gpu_that_does_not_answer_to_cuda(stand_in):
    with (
        SimulatedGPU("a100-80gb") as gpu,
        pytest.raises(ValueError, match=r'gpu must answer to "cuda": got meta; open it as SimulatedGPU'),
    ):
        nanogpt_itself.nanogpt_steps(gpu, stand_in)
