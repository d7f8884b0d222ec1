"""A Llama's step with any of the remedies: what it refuses, that each runs, and what it takes of the host."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from places import ROOT

from utils import SimulatedGPU
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, OPTIMIZERS, PRECISIONS

pytestmark = pytest.mark.sampled(6)

SMALL = {"model": "llama-3.2-1b", "s": 16, "gpu": "a100-80gb"}
EXCLUDE = "steps_in_backward and {} exclude each other: gradients go as they come."


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "llama-9b"}, "model must be one of llama-2-7b; "),
        ({"precision": "int8"}, "precision must be one of float32; autocast; bfloat16; float32 masters: got"),
        ({"loss": "none"}, "loss must be one of all logits; all logits, bfloat16; chunks, recomputed; chunks, fused"),
        ({"optimizer": "Lion"}, "optimizer must be one of AdamW, fused; "),
        ({"offload": "weights"}, "offload must be one of nothing; activations; optimizer; optimizer, gradients: got"),
        ({"b": 0}, "b must be a positive integer"),
        ({"micro_batches": 0}, "micro_batches must be a positive integer"),
        ({"steps_in_backward": True, "micro_batches": 2}, EXCLUDE.format("micro_batches > 1")),
        ({"steps_in_backward": True, "precision": "float32 masters"}, EXCLUDE.format("float32 masters")),
        ({"steps_in_backward": True, "offload": "optimizer"}, EXCLUDE.format("an offloaded optimizer")),
        (
            {"offload": "optimizer, gradients", "micro_batches": 2},
            "gradients that leave at once cannot add up: offload 'optimizer', or micro_batches=1.",
        ),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LlamaStep(**settings)


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        *({"optimizer": name} for name in OPTIMIZERS),
        *({"loss": name} for name in LOSSES),
        *({"offload": name} for name in OFFLOADS),
        *({"precision": name} for name in PRECISIONS),
        {"rank": 2, "is_checkpointed": True},
    ],
    ids=lambda settings: ", ".join(map(str, settings.values())),
)
@pytest.mark.parametrize("step", [LlamaStep(**SMALL), GPTRemedyStep(s=16, gpu="a100-80gb")], ids=["Llama", "GPT-2"])
def test_each_runs(step, settings):
    """The step is whole, and fits on a card of 80 GB."""
    run = replace(step, **settings).run()
    assert sum(event.action == "mark" for event in run.trace) == 1 + 2 * 5
    assert run.trace.position(run.after) < run.peak < run.trace.position(run.until)
    assert run.fit().fits


def test_other_sizes_take_the_place_of_the_models():
    changes = {"vocabulary_size": 50, "d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "d_mlp": 24}
    with SimulatedGPU("a100-80gb") as gpu:
        readings = LlamaStep(**SMALL).train(gpu, **changes)
    n_parameters = 50 * 16 + (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24 + 2 * 16) + 16  # the head is the embedding
    tables = 2 * 16 * 8 * 4
    assert readings[0, "model"].requested_bytes == 2 * n_parameters + tables


@pytest.mark.nightly
@pytest.mark.parametrize("offload", ["activations", "optimizer, gradients"])
def test_what_8b_brings_to_the_host_takes_none_of_its_memory(offload):
    """In a process of its own: 67 GB of activations, or 32 of copies, within 2 GiB with all of Python and PyTorch."""
    program = (
        "from opening_snapshots import peak_bytes; from utils.experiments.llama_step import LlamaStep; "
        f"LlamaStep(offload={offload!r}).run(); print(peak_bytes())"
    )
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "helpers")))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 2 << 30
