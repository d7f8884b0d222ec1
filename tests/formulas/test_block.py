"""The closed form of a block against what autograd keeps on the simulated GPU, term by term."""

import random
import re
import threading

import pytest
import torch

from utils import SimulatedGPU
from utils.experiments.blocks import block_forward
from utils.formulas.block import ATTENTIONS, PARTS, block_parts, block_saved
from utils.formulas.mlp import ACTIVATIONS
from utils.models import activations

SIZE = {"b": 2, "s": 4096, "d": 1024}
BSD_BYTES = 2 * 2 * 4096 * 1024
OURS = ("LeakyReLU", "ELU", "Softplus", "SELU", "Tanh")
PER_ATTENTION = 30


@pytest.mark.parametrize(("activation", "n_bytes"), [("relu", 201_523_216), ("gelu", 268_632_080)])
def test_the_published_figures_with_2_heads(activation, n_bytes):
    with SimulatedGPU("a100-80gb") as gpu:
        forward = block_forward(gpu, **SIZE, a=2, activation=activation)
    assert forward.attention == "efficient"
    assert forward.saved_bytes == n_bytes
    assert forward.requested_bytes == forward.allocated_bytes == n_bytes - 16
    comparison = block_saved(attention="efficient", activation=activation).compare(forward.rows, **SIZE, a=2, e=2)
    assert comparison.is_exact
    items = {name: found for name, _, found in comparison.rows}
    assert items["norm1: statistics"] == items["norm2: statistics"] == items["attention: logsumexp"] == 65_536
    assert items["attention: random state"] == 16
    assert items["attention: q, k, v"] == 3 * BSD_BYTES
    assert items["mlp: down input"] == items.get("mlp: activation input", 4 * BSD_BYTES) == 4 * BSD_BYTES
    small = {"norm1: statistics", "norm2: statistics", "attention: logsumexp", "attention: random state"}
    whole = sum(found for name, found in items.items() if name not in small)
    assert whole == (12 if activation == "relu" else 16) * BSD_BYTES
    assert len(items) == (11 if activation == "relu" else 12)


def test_with_8_heads_flash_attention_keeps_a_little_more():
    with SimulatedGPU("a100-80gb") as gpu:
        forward = block_forward(gpu, **SIZE, a=8)
    assert forward.attention == "flash"
    assert forward.saved_bytes == 201_523_216 + 6 * 4 * 2 * 4096 + 8  # logsumexp of six more heads; 24 bytes for 16
    assert forward.requested_bytes == forward.saved_bytes
    assert forward.allocated_bytes == forward.saved_bytes + 2 * 512 - 24


def settings(attention):
    draw = random.Random(attention)
    for _ in range(PER_ATTENTION):
        from_output = draw.random() < 0.2
        drawn_from = OURS if from_output else [name for name in ACTIVATIONS if not name.startswith("Threshold")]
        a = draw.randint(1, 6)
        head = draw.randint(1, 40) if attention == "explicit" else 8 * draw.randint(1, 8)
        dtypes = [torch.bfloat16, torch.float16] + [torch.float32] * (attention in ("efficient", "explicit"))
        gpus = {"flash": ["rtx3090-24gb"], "cudnn": [], "efficient": ["t4-16gb"]}.get(attention, ["t4-16gb"])
        gpu = draw.choice(["h100-80gb"] + ([] if attention == "cudnn" else ["a100-80gb", *gpus]))
        yield {
            "gpu": gpu,
            "size": {"b": draw.randint(1, 5), "s": draw.randint(1, 70), "d": a * head, "a": a},
            "activation": draw.choice(drawn_from),
            "from_output": from_output,
            "dropout": 0.0 if attention == "cudnn" else draw.choice([0.0, 0.1]),  # cuDNN's has none here
            "dtype": draw.choice([torch.float16] if gpu == "t4-16gb" else dtypes),
            "bias": draw.random() < 0.5,
        }


@pytest.mark.long
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_random_shapes_term_by_term(attention):
    n_exact = 0
    for setting in settings(attention):
        name, from_output, dropout = setting["activation"], setting["from_output"], setting["dropout"]
        activation = getattr(activations, name)() if from_output else name
        more = {"dropout": dropout, "dtype": setting["dtype"], "bias": setting["bias"]}
        with SimulatedGPU(setting["gpu"]) as gpu:
            forward = block_forward(gpu, **setting["size"], activation=activation, attention=attention, **more)
        formula = block_saved(attention=attention, activation=name, dropout=dropout, from_output=from_output)
        comparison = formula.compare(forward.rows, **setting["size"], e=setting["dtype"].itemsize)
        assert comparison.is_exact, (setting, comparison)
        assert comparison.accounted_bytes == forward.saved_bytes
        n_exact += 1
    assert n_exact == PER_ATTENTION


@pytest.mark.long
def test_two_threads_do_not_take_each_others_kernels():
    """As when a reader moves an explorer's slider while cells still run: what is allowed is one setting for both."""
    found = {"flash": [], "efficient": []}

    def run(attention):
        for _ in range(40):
            with SimulatedGPU("a100-80gb") as gpu:
                found[attention].append(block_forward(gpu, b=1, s=8, d=16, a=2, attention=attention).attention)

    threads = [threading.Thread(target=run, args=(attention,)) for attention in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {attention: [attention] * 40 for attention in found}
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()


def test_the_parts_are_the_whole():
    choices = {"attention": "flash", "activation": "gelu", "dropout": 0.1}
    parts, letters = block_parts(**choices), dict(b=3, s=5, d=16, a=2, e=2)
    assert tuple(parts) == PARTS
    assert sum(part.bytes(**letters) for part in parts.values()) == block_saved(**choices).bytes(**letters)
    assert "kept for backward" in parts["mlp"].title


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"attention": "math", "activation": "relu"},
            "attention must be one of flash, efficient, cudnn, explicit: got attention='math'.",
        ),
        ({"attention": "flash", "activation": "swish"}, "activation must be one whose backward is known: got 'swish'"),
        (
            {"attention": "flash", "activation": "relu", "dropout": 1.0},
            "dropout must lie in [0, 1), or be True or False: got dropout=1.0.",
        ),
    ],
)
def test_bad_choices(choices, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        block_saved(**choices)


def test_bad_settings_of_the_experiment():
    with SimulatedGPU() as gpu:
        with pytest.raises(
            ValueError, match="attention must be one of explicit, flash, efficient, cudnn: got attention='sdpa'"
        ):
            block_forward(gpu, **SIZE, a=2, attention="sdpa")
        with pytest.raises(ValueError, match="a must be a positive integer: got a=0"):
            block_forward(gpu, **SIZE, a=0)
        with pytest.raises(RuntimeError, match="No available kernel"):
            block_forward(gpu, **SIZE, a=2, attention="flash")
        assert gpu.memory_allocated() == 8_519_680, "only the cuBLAS workspace of the last one's first product is left"


def test_the_title_says_what_was_chosen():
    titles = {
        "Block with flash, gelu, dropout: kept for backward": {
            "attention": "flash",
            "activation": "gelu",
            "dropout": 0.1,
        },
        "Block with explicit, elu from its output: kept for backward": {
            "attention": "explicit",
            "activation": "elu",
            "from_output": True,
        },
    }
    for title, choices in titles.items():
        assert block_saved(**choices).title == title
