"""Each diagram lies on its picture, and can be read on a telephone: its text is large enough, and within its boxes."""

import re
from itertools import combinations

import pytest
import torch
from diagrams import too_wide
from torch import nn

from every_byte.remedies.policies import COMPUTE_INTENSIVE
from utils import LinearStack, SavedTensorContext, SimulatedGPU
from utils.experiments import rank_steps
from utils.experiments.block_stack import Stack
from utils.experiments.llama_step import LlamaStep
from utils.figures.allocator_diagram import allocator_levels
from utils.figures.block_diagram import block_tensors
from utils.figures.diagram import Diagram
from utils.figures.graph_diagram import chain_graph, product_graph, two_layers
from utils.figures.llama_diagram import llama_block
from utils.figures.mlp_diagram import dropout_places, mlp_guess, mlp_tensors
from utils.figures.places_diagram import four_places
from utils.figures.ranks_diagram import kept_of_models, placements, split_block, three_exchanges
from utils.figures.references_diagram import references
from utils.figures.segments_diagram import segments_held
from utils.figures.selective_diagram import plain_and_selective
from utils.figures.shards_diagram import gathered_frames, zero_stages
from utils.formulas.block import ATTENTIONS
from utils.formulas.llama_settings import LlamaSettings

BLOCK = {"b": 12, "s": 1024, "d": 768, "a": 12, "e": 2}
MLP = {"b": 2, "s": 4096, "d": 1024, "e": 2}


def chain():
    stack = LinearStack(n_in=100, width=100, n_out=100, n_hidden=1, relu=True)
    with SavedTensorContext(stack.parameters()) as saved:
        loss = nn.functional.dropout(stack(torch.empty(640, 100))).sum()
    return chain_graph(loss, saved.rows(loss))


def long_names():
    model = nn.ModuleDict({"normalisation_of_heads": nn.LayerNorm(1024)})
    with SavedTensorContext(model.parameters()) as saved:
        y = model["normalisation_of_heads"](torch.empty(2, 12, 16, 1024).requires_grad_().exp()).sum()
    return chain_graph(y, saved.rows(y))


def levels():
    with SimulatedGPU("a100-80gb") as gpu:
        return allocator_levels(gpu, torch.empty(1_000_000, dtype=torch.uint8, device=gpu.device))


DIAGRAMS = {
    "levels": levels,
    "references": references,
    "product": lambda: product_graph(b=64, d=100, d_out=100),
    "two layers": lambda: two_layers(b=64, d=100),
    "chain": chain,
    "long names": long_names,
    "guess": lambda: mlp_guess(**MLP),
    "MLP": lambda: mlp_tensors(**MLP),
    "one MLP": lambda: mlp_tensors("relu", **MLP),
    "dropout": lambda: dropout_places(**MLP),
    "block": lambda: block_tensors(**BLOCK),
    "one block": lambda: block_tensors(attention="explicit", autocast=True, half="float16", dropout=True, **BLOCK),
    "softsign": lambda: block_tensors(activation="Softsign", dropout=True, autocast=True, **BLOCK),
    "kernels": lambda: block_tensors(attention=("efficient", "cudnn"), **BLOCK),
    "placements": placements,
    "exchanges": three_exchanges,
    "a block on a rank": lambda: split_block(t=8, **BLOCK | {"d": 12288, "a": 96}),
    "a sequence on ranks": lambda: split_block(t=2, sequence=True, **BLOCK),
    "a Llama's block": lambda: llama_block(LlamaSettings(), d=16384, a=128, g=8, f=53248),
    "places": lambda: four_places(
        LlamaStep(model="llama-3.2-1b", s=4096, is_checkpointed=True, optimizer="AdamW, foreach", gpu="rtx3090-24gb")
    ),
    "segments": segments_held,
    "one layer": lambda: segments_held(1, (1,)),
    "a selective checkpoint": lambda: plain_and_selective(Stack(kind="explicit", L=1).region(), COMPUTE_INTENSIVE),
    "stages": lambda: zero_stages(4),
    "stages of eight": lambda: zero_stages(8),
    "gathered": lambda: gathered_frames(48),
    "kept of models": lambda: kept_of_models(rank_steps.kept_of_models(), ("80 GB", 84_510_769_152)),
}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DIAGRAMS)
def test_it_can_be_read(name):
    diagram = DIAGRAMS[name]()
    assert diagram.width == 440
    assert min(float(size) for size in re.findall(r'font-size="([\d.]+)"', diagram.svg())) >= 13
    assert too_wide(diagram) == []


def test_what_would_be_said():
    diagram = Diagram("", 100)
    diagram.box(10, 10, 60, 30, "too long for this box")
    diagram.box(-5, 50, 60, 30, "short")
    diagram.box(100, 50, 60, 60)
    diagram.text(430, 20, "beyond")
    assert too_wide(diagram) == [
        "too long for this box",
        "a box at (-5.0, 50.0, 55.0, 80.0)",
        "a box at (100.0, 50.0, 160.0, 110.0)",
        "beyond",
    ]


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        *(
            (lambda names=names: block_tensors(attention=names, **BLOCK), "attention must be one or two, a column each")
            for names in ((), *combinations(ATTENTIONS, 3))
        ),
        (lambda: block_tensors(**BLOCK | {"e": 8}), "e must be 2 or 4, the bytes of a type: got e=8"),
        (lambda: mlp_tensors(("silu",), **MLP), "activation must be 'gelu' or 'relu', a column each: got 'silu'"),
        (lambda: mlp_tensors(("gelu", "relu", "gelu"), **MLP), "a column each: got 'gelu', 'relu', 'gelu'; mlp_saved"),
        (lambda: mlp_tensors((), **MLP), "a column each: got none"),
        (lambda: dropout_places("tanh", **MLP), "activation must be 'gelu' or 'relu', a column each: got 'tanh'"),
        (lambda: segments_held(40, (4,)), "n must be 1 to 16, the layers that fit across: got n=40; draw a shorter"),
        (lambda: segments_held(0, (1,)), "n must be 1 to 16"),
        (lambda: segments_held(6, (0,)), "ways must divide n: got 0 segments, n=6; one of 1, 2, 3, 6, or None"),
        (lambda: zero_stages(32), "n must be 1 to 8, ranks that can be told apart: got n=32; draw fewer"),
        (lambda: zero_stages(0), "n must be 1 to 8"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        draw()


def test_letters_that_a_diagram_needs_are_named():
    with pytest.raises(TypeError, match="'t'"):
        split_block(**BLOCK)
    with pytest.raises(TypeError, match="'s'"):
        mlp_guess(b=1, d=2, e=2)
