"""The exercises of chapter 6: each answer is compared with simulated ranks and with the closed form of a rank."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import torch
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from every_byte.gpu.capacity import Fit
from every_byte.gpu.ranks import ranks
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.experiments.mesh_step import MeshRun, MeshStep
from utils.experiments.readings import requested
from utils.formulas.tensor_parallel import rank_saved
from utils.layers import MLP
from utils.models.data_parallel import fully_sharded, replicated
from utils.models.gpt import GPT
from utils.models.regions import set_regions

from .judge import Verdict, check, no_function, no_names, not_yet, raised, right

Clip: TypeAlias = Callable[[Iterable[nn.Parameter]], None]
TENSORS = {
    "the input of norm2": "norm2: input",
    "q, k and v": "attention: q, k, v",
    "softmax's result": "attention: weights",
    "the input of out": "attention: output",
    "the input of up": "mlp: input",
    "GELU's input": "mlp: activation input",
    "the mask of the dropout after down": "mlp: dropout mask",
}
T, B, S, D = 4, 2, 64, 128
ROWS, WIDTH, N_RANKS = 50_257, 768, 8
CROWDED = MeshStep(
    model="gpt2-medium", s=40_960, b=1, t=4, sequence="off", recompute="none", attention="flash", stage="0", n=2,
    gpu="rtx3090-24gb",
)  # fmt: skip
LEAST = replace(CROWDED, b=2, t=8, sequence="on, gathered again", stage="none")
_GIVEN = ("model", "s", "recompute", "attention", "gpu")


def padding(answer: int | None) -> Verdict:
    """Exercise 1: what eight ranks together hold of a table, its gradient and averages, beyond 16 bytes a number."""
    one = 4 * WIDTH * (-ROWS % N_RANKS)
    truth = sum(map(_of_table, range(N_RANKS))) - 16 * ROWS * WIDTH
    return check(
        answer,
        truth,
        {
            0: "Eight equal shares have more rows than the table.",
            one: "That is the padding of the weights. What else does FSDP2 exchange in equal shares?",
            4 * one: "Adam makes its averages for the rows that a rank owns, and the last rank owns fewer.",
            3 * one: "Adam has two averages, and neither of them is padded.",
            one // 4: "That counts the padded numbers of the weights; each number takes four bytes.",
        },
    )


@cache
def _of_table(rank: int) -> int:
    """The requested bytes of the table's weights, gradients and Adam's averages on one rank."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS, rank) as mesh:
        table = fully_sharded(nn.Embedding(ROWS, WIDTH, device=gpu.device), mesh)
        optimizer = torch.optim.AdamW(table.parameters(), foreach=True)
        table(torch.zeros(4, dtype=torch.int64, device=gpu.device)).sum().backward()
        optimizer.step()
        parts = Ledger.now(gpu).parts
        return sum(parts[name] for name in ("parameters", "gradients", "optimizer state"))


def whole(answer: Collection[str] | None) -> Verdict:
    """Exercise 2: which tensors each rank keeps whole under tensor parallelism without sequence parallelism."""
    if (wrong := no_names(answer, TENSORS)) is not None:
        return wrong
    formula = rank_saved(attention="explicit", activation="gelu", dropout=0.1)
    one, eight = (formula.by_term(b=2, s=64, d=64, a=8, e=2, t=t) for t in (1, 8))
    truth = {name for name, term in TENSORS.items() if one[term] == eight[term]}
    named = set(answer or ())
    if divided := [name for name in TENSORS if name in named - truth]:
        return not_yet(f"{divided[0]} is divided: it belongs to a rank's own heads or hidden numbers.")
    if n_missing := len(truth - named):
        what = "one whole tensor is" if n_missing == 1 else f"{n_missing} whole tensors are"
        return not_yet(f"{what} missing. Which of those you left out are between the products, not in a rank's term?")
    return right(f"{len(truth)} of {len(TENSORS)}; in the closed form they are the same on 1 rank and on each of 8.")


def plan(function: Callable[[], Mapping[str, ParallelStyle]]) -> Verdict:
    """Exercise 3: a plan for `parallelize_module` that splits an MLP over ranks and keeps as little as possible."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        shape, kept_bytes, exchanged = split_mlp(function())
    except Exception as error:
        return not_yet(raised(error, "your plan"))
    if shape != (B, S, D):
        return not_yet(f"the result must be y[{B}, {S}, {D}], whole on each rank: got {list(shape)}.")
    least_bytes = sum(rank_mlp_bytes().values())
    if kept_bytes != least_bytes:
        return not_yet(
            f"a rank keeps {exact(kept_bytes)}, and {exact(least_bytes)} would be enough. Which tensor does it keep "
            "whole of which a share would do?"
        )
    if exchanged != ["all_reduce"]:
        return not_yet(f"forward needs a single exchange, a sum: yours has {', '.join(exchanged) or 'none'}.")
    return right(f"a rank keeps {exact(kept_bytes)}, and forward has one exchange, a sum.")


def split_mlp(styles: Mapping[str, ParallelStyle]) -> tuple[tuple[int, ...], int, list[str]]:
    """An MLP's forward as one of T ranks: the shape of its result, the bytes it keeps, and its exchanges."""
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
    """The least that a rank must keep of that MLP, term by term."""
    formula = rank_saved(attention="explicit", activation="gelu")
    terms = formula.by_term(b=B, s=S, d=D, a=T, e=4, t=T)
    return {name: n_bytes for name, n_bytes in terms.items() if name.startswith("mlp: ")}


def clipped(function: Clip) -> Verdict:
    """Exercise 4: a function that clips gradients to -1 .. 1 inside DDP's buckets and allocates nothing for it."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        complaint = _wrong_gradients(function)
        stays_bytes, more_bytes = _taken_by(function)
    except Exception as error:
        return not_yet(raised(error))
    if complaint:
        return not_yet(complaint)
    if stays_bytes:
        return not_yet(
            f"{exact(stays_bytes)} more are still held afterwards: a gradient is now a tensor of its own, and its "
            "bucket is still there."
        )
    if more_bytes:
        return not_yet(
            f"nothing more is held afterwards, but {exact(more_bytes)} are for a moment: a copy of a gradient."
        )
    return right("the gradients are clipped in place, for 0 bytes more during and after.")


def _wrong_gradients(function: Clip) -> str:
    """What is wrong with the gradients that a function leaves, on the CPU; "" if they are right."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    expected = []
    for parameter in layer.parameters():
        parameter.grad = 3 * torch.randn_like(parameter)
        expected.append(parameter.grad.clamp(-1, 1))
    function(list(layer.parameters()))
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        if parameter.grad is None:
            return "a gradient is gone, and the optimizer needs it."
        if not torch.equal(parameter.grad, gradient):
            largest = float(parameter.grad.abs().max())
            return f"a gradient still reaches {largest:.3g}, or others of its numbers have changed."
    return ""


def _taken_by(function: Clip) -> tuple[int, int]:
    """How many bytes more are held after a function has clipped the gradients of a layer in DDP, and during it."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS) as mesh:
        layer = nn.Linear(1024, 1024, device=gpu.device)
        model = replicated(layer, mesh, gradient_as_bucket_view=True)
        for _ in range(2):
            model(torch.empty(8, 1024, device=gpu.device)).sum().backward()
        before_bytes = requested(gpu)
        gpu.reset_peak_memory_stats()
        function(list(layer.parameters()))
        return requested(gpu) - before_bytes, requested(gpu, "peak") - before_bytes


def copies(answer: int | None) -> Verdict:
    """Exercise 5: autocast's copies on one of eight ranks under FSDP2 after forward, with each block a checkpoint."""
    truth, all_copies = _copies("every block"), _copies("none")
    return check(
        answer,
        truth,
        {
            all_copies: "That many exist without checkpoints. What does a checkpoint keep of its block?",
            0: "One of the products is in no block.",
            truth // 8: "Autocast copies the gathered weight, which is whole on each rank.",
            2 * truth: "A copy is in half precision.",
            all_copies - truth: "Those are the copies that the checkpoints drop.",
        },
    )


@cache
def _copies(regions: str) -> int:
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS) as mesh:
        model = set_regions(fully_sharded(GPT.from_name("gpt2", context_length=64, device=gpu.device), mesh), regions)
        tokens = torch.zeros(1, 64, dtype=torch.int64, device=gpu.device)
        with gpu.autocast(torch.bfloat16):
            _, loss = model(tokens, tokens)
        n_bytes = Ledger.now(gpu).parts["autocast copies"]
        loss.backward()
        return n_bytes


def fits(step: MeshStep) -> Verdict:
    """Exercise 6: the step of `CROWDED` on the same GPUs and with as many sequences, changed so that it fits."""
    if not isinstance(step, MeshStep):
        return not_yet(f"pass a MeshStep: got {step!r}.")
    for name in _GIVEN:
        if getattr(step, name) != getattr(CROWDED, name):
            return not_yet(f"{name} must stay {getattr(CROWDED, name)!r}: got {getattr(step, name)!r}.")
    if step.n_ranks != CROWDED.n_ranks:
        return not_yet(f"there are {CROWDED.n_ranks} GPUs, and t times the number of groups makes {step.n_ranks}.")
    if (n_sequences := _sequences(step)) != _sequences(CROWDED):
        return not_yet(f"a step must have {_sequences(CROWDED)} sequences, b in each group: yours has {n_sequences}.")
    try:
        fit = _fit(step)
    except ValueError as error:
        return not_yet(raised(error, "your step"))
    if not fit.fits:
        given = fit.needed_bytes - _fit(CROWDED).needed_bytes
        compared = f"{exact(abs(given))} {'more' if given > 0 else 'less'} than" if given else "the same as"
        least = f"each rank must be able to reserve {exact(fit.needed_bytes)}"
        return not_yet(f"{exact(-fit.margin_bytes)} short: {least}, {compared} in the step you were given.")
    above = fit.needed_bytes - _fit(LEAST).needed_bytes
    score = f"{exact(above)} more than in the best step we know" if above > 0 else "we know no step that needs less"
    return right(f"a rank reserves {exact(fit.needed_bytes)} and has {exact(fit.margin_bytes)} to spare; {score}.")


def _sequences(step: MeshStep) -> int:
    return step.b * step.n_ranks // step.t


@cache
def _run(step: MeshStep) -> MeshRun:
    return step.run()


def _fit(step: MeshStep) -> Fit:
    fit = _run(step).fit()
    assert fit is not None  # it is simulated
    return fit
