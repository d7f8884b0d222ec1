"""The exercises of chapter 6: each answer is held to a closed form that tests hold to runs, or to a run as a rank."""

from collections.abc import Callable, Collection, Mapping

import torch
from torch.distributed.tensor.parallel import parallelize_module

from every_byte.gpu.ranks import ranks
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.formulas.estimates import half_precision_activations
from utils.formulas.tensor_parallel import rank_saved
from utils.layers import MLP

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, raised, right

LAYER = {"b": 4, "s": 2048, "d": 6144, "a": 64, "t": 4, "L": 1}
TENSORS = {
    "the input of norm2": "norm2: input",
    "q, k and v": "attention: q, k, v",
    "softmax's result": "attention: weights",
    "the input of out": "attention: output",
    "the input of up": "mlp: input",
    "GELU's input": "mlp: activation input",
    "the mask of the dropout behind down": "mlp: dropout mask",
}
STATES = tuple({"N": 124_373_760, "n": n, "stage": stage} for n in (1, 2, 8, 64) for stage in (0, 1, 2, 3))
MODELS = (
    {"R": 157_682_688, "B": 28_317_696, "L": 12, "reshard": True},
    {"R": 157_682_688, "B": 28_317_696, "L": 12, "reshard": False},
    {"R": 1000, "B": 3000, "L": 40, "reshard": True},
    {"R": 9000, "B": 1000, "L": 2, "reshard": False},
)
T, B, S, D = 4, 2, 64, 128


def layer_by_hand(answer: int | None) -> Verdict:
    """Exercise 1: what a rank of four keeps of a layer in tensor parallel, by the paper's count."""
    paper = half_precision_activations()
    scores = 5 * LAYER["a"] * LAYER["s"] ** 2 * LAYER["b"]
    truth = paper.bytes(**LAYER)
    return check(
        answer,
        truth,
        {
            paper.bytes(**LAYER | {"t": 1}): "That is one GPU's: what do four ranks divide?",
            half_precision_activations(sequence=True).bytes(**LAYER): (
                "That is a quarter of everything; ten bytes of the stream stay whole where the sequence is not divided."
            ),
            truth - scores // 4: "The scores are missing: softmax, its mask, and what dropout left.",
            truth + scores - scores // 4: "Each rank has a quarter of the heads, and so of the scores.",
        },
    )


def whole(answer: Collection[str] | None) -> Verdict:
    """Exercise 2: which tensors each rank keeps whole in tensor parallel, without sequence parallel."""
    if answer is None:
        return NO_ANSWER
    if isinstance(answer, str) or not isinstance(answer, Collection):
        return not_yet(f"a list of names, please: got {answer!r}.")
    if unknown := [name for name in answer if name not in TENSORS]:
        return not_yet(f"{unknown[0]!r} is none of {'; '.join(TENSORS)}.")
    formula = rank_saved(attention="explicit", activation="gelu", dropout=0.1)
    one, eight = (formula.by_term(b=2, s=64, d=64, a=8, e=2, t=t) for t in (1, 8))
    truth = {name for name, term in TENSORS.items() if one[term] == eight[term]}
    if missing := [name for name in TENSORS if name in truth - set(answer)]:
        return not_yet(f"{missing[0]} stands whole, too: it lies between the products, not inside a rank's term.")
    if wrong := [name for name in TENSORS if name in set(answer) - truth]:
        return not_yet(f"{wrong[0]} belongs to a rank's own heads or hidden numbers: it is divided.")
    return right(f"{len(truth)} of {len(TENSORS)}, as the closed form has it for 8 ranks and for 1.")


def states(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: bytes of weights, gradients and Adam's averages on each of n ranks, by ZeRO's stage."""

    def truth(N: int, n: int, stage: int) -> int:
        return sum(n_bytes * N // (n if stage >= first else 1) for n_bytes, first in ((4, 3), (4, 2), (8, 1)))

    def one_late(N: int, n: int, stage: int) -> int:
        return truth(N, n, max(stage - 1, 0))

    def order(N: int, n: int, stage: int) -> int:
        return sum(n_bytes * N // (n if stage >= first else 1) for n_bytes, first in ((4, 1), (4, 2), (8, 3)))

    mistakes = {
        "Stage 1 divides something already: the optimizer's state.": one_late,
        "The optimizer's state goes first, the weights last.": order,
    }
    return check_function(function, truth, STATES, mistakes)


def gathered(function: Callable[..., int | None]) -> Verdict:
    """Exercise 4: the most that FSDP2 has gathered in a forward through two or more blocks."""

    def truth(R: int, B: int, L: int, reshard: bool) -> int:
        return max(2 * R + 2 * B, R + (3 if reshard else L + 2) * B)

    def only_first(R: int, B: int, L: int, reshard: bool) -> int:
        return 2 * R + 2 * B

    def only_last(R: int, B: int, L: int, reshard: bool) -> int:
        return R + (3 if reshard else L + 2) * B

    mistakes = {
        "That is the first block's moment; a later one may have more.": only_first,
        "That is a later block's moment; the first finds the root in two copies.": only_last,
        "The buffer that arrives is a second copy, of the root and of a block.": lambda R, B, L, reshard: (
            R + (1 if reshard else L) * B
        ),
    }
    return check_function(function, truth, MODELS, mistakes)


def plan(function: Callable[[], Mapping]) -> Verdict:
    """Exercise 5: a plan for `parallelize_module` that splits an MLP over ranks and keeps as little as it can."""
    if not callable(function):
        return not_yet(f"pass your function itself: got {function!r}.")
    try:
        shape, kept_bytes, exchanged = split_mlp(function())
    except Exception as error:
        return not_yet(raised(error, "your plan"))
    if shape != (B, S, D):
        return not_yet(f"the result must be y[{B}, {S}, {D}], whole on each rank: got {list(shape)}.")
    least_bytes = sum(rank_mlp_bytes().values())
    if kept_bytes != least_bytes:
        return not_yet(
            f"a rank keeps {exact(kept_bytes)}, and can do with {exact(least_bytes)}: x whole, and {1}/{T} of what "
            "GELU takes and gives."
        )
    if exchanged != ["all_reduce"]:
        return not_yet(f"forward needs one exchange, a sum: yours has {', '.join(exchanged) or 'none'}.")
    return right(f"a rank keeps {exact(kept_bytes)}, and forward exchanges one sum.")


def split_mlp(styles: Mapping) -> tuple[tuple[int, ...], int, list[str]]:
    """Forward of an MLP as one of T ranks: the shape of its result, what it keeps in bytes, and what is exchanged."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(T) as mesh:
        mlp = parallelize_module(MLP(D, "gelu", device=gpu.device), mesh, dict(styles), src_data_rank=None)
        x = torch.empty(B, S, D, device=gpu.device, requires_grad=True)
        with SavedTensorContext(mlp.parameters()) as saved:
            y = mlp(x)
        prefix = "_c10d_functional::"
        exchanged = [event.operation for event in gpu.trace if event.action == "alloc"]
        names = [name.removeprefix(prefix) for name in exchanged if name.startswith(prefix)]
        return tuple(y.shape), saved.saved_tensor_mem, names


def rank_mlp_bytes() -> dict[str, int]:
    """What a rank keeps of that MLP at least, term by term."""
    formula = rank_saved(attention="explicit", activation="gelu")
    terms = formula.by_term(b=B, s=S, d=D, a=T, e=4, t=T)
    return {name: n_bytes for name, n_bytes in terms.items() if name.startswith("mlp: ")}
