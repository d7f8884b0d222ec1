"""The exercises of chapter 2: each answer is held to a run on the simulated GPU."""

from collections.abc import Callable

import torch

from every_byte.formula.formula import Formula
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.saved_tensors import SavedTensor
from utils.contexts import SavedTensorContext
from utils.experiments.first_programs import gated_rows, mlp_forward
from utils.formulas.mlp import mlp_saved
from utils.layers import MLP

from .judge import Verdict, check, check_formula, check_function

PACKED_SHAPES = (
    {"b": 2, "s": 4096, "d": 1024, "e": 2},
    {"b": 1, "s": 3, "d": 5, "e": 2},
    {"b": 3, "s": 7, "d": 11, "e": 4},
)
GATED_SHAPES = (
    {"b": 2, "s": 4096, "d": 1024, "w": 4096, "e": 2},
    {"b": 1, "s": 3, "d": 5, "w": 7, "e": 4},
    {"b": 2, "s": 9, "d": 8, "w": 1, "e": 2},
)


def by_hand(answer: int | None) -> Verdict:
    """Exercise 1: what a GELU MLP with dropout keeps in bfloat16 at b=8, s=2048, d=4096."""
    bsd = 8 * 2048 * 4096
    mistakes = {
        18 * bsd: "You left the mask out.",
        20 * bsd: "An element of the mask takes one byte, not two.",
        10 * bsd: "That is ReLU, without dropout.",
        11 * bsd: "That is ReLU.",
        28 * bsd: "The output is not kept by the MLP.",
        9 * bsd: "That many elements; at how many bytes each?",
        10 * bsd // 2: "That many elements, and for ReLU.",
        37 * bsd: "At 4 bytes each; bfloat16 has 2.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        truth = mlp_forward(gpu, b=8, s=2048, d=4096, activation="gelu", dropout=0.1).saved_bytes
    return check(answer, truth, mistakes)


def freezing(answer: int | None) -> Verdict:
    """Exercise 2: a GELU MLP whose `up` is frozen and whose input needs no gradient, b=2, s=4096, d=1024."""
    bsd = 2 * 4096 * 1024
    mistakes = {
        18 * bsd: "Nothing upstream of `down` is trained: for whom would the gradient of h be?",
        16 * bsd: "Nobody asks for the gradient of h, so GELU need not keep its input.",
        10 * bsd: "Only the weight of `up` needs x, and it is frozen.",
        4 * bsd: "That many elements; at how many bytes each?",
    }
    return check(answer, _frozen_bytes(), mistakes)


def packed_mask(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: a ReLU MLP whose dropout mask takes a bit for each element, rounded up to a whole byte."""
    mistakes = {
        "Round up: a last byte that is half full is a byte.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d // 8,
        "That is a byte for each element of the mask.": lambda b, s, d, e: 5 * b * s * d * e + b * s * d,
        "That is without the mask.": lambda b, s, d, e: 5 * b * s * d * e,
        "That is GELU.": lambda b, s, d, e: 9 * b * s * d * e + -(-b * s * d // 8),
    }
    return check_function(function, _packed_bytes, PACKED_SHAPES, mistakes)


def gated(function: Callable[..., int | None]) -> Verdict:
    """Exercise 4: what a gated MLP of hidden width w keeps."""
    mistakes = {
        "Two of width d: is x counted twice, or the output, which nobody keeps?": lambda b, s, d, w, e: (
            (2 * d + 4 * w) * b * s * e
        ),
        "The product keeps both its factors.": lambda b, s, d, w, e: (d + 3 * w) * b * s * e,
        "silu's input, silu's output, the other branch and the product are four tensors.": (
            lambda b, s, d, w, e: (d + 2 * w) * b * s * e
        ),
    }
    return check_function(function, lambda **shape: sum(_storages(gated_rows(**shape))), GATED_SHAPES, mistakes)


def gated_formula(formula: Formula) -> Verdict:
    """Exercise 5: the same as a Formula whose terms select the rows one to one."""
    return check_formula(formula, gated_rows, GATED_SHAPES)


def _storages(rows: list[SavedTensor]) -> list[int]:
    return list({row.storage: row.storage_bytes for row in rows}.values())


def _frozen_bytes() -> int:
    with SimulatedGPU("a100-80gb") as gpu:
        mlp = MLP(1024, "gelu", device=gpu.device, dtype=torch.bfloat16)
        mlp.up.requires_grad_(False)
        x = torch.empty(2, 4096, 1024, device=gpu.device, dtype=torch.bfloat16)
        with SavedTensorContext(mlp.parameters()) as saved:
            y = mlp(x)
        return saved.saved_tensor_mem if y.requires_grad else 0


def _packed_bytes(b: int, s: int, d: int, e: int) -> int:
    terms = mlp_saved(activation="relu", dropout=True).by_term(b=b, s=s, d=d, e=e)
    return sum(terms.values()) - terms["dropout mask"] + -(-terms["dropout mask"] // 8)
