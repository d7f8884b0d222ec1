"""The closed form of a training step on a mesh of n x t ranks: t share each model, and n groups share the batch."""

from dataclasses import dataclass, replace

from every_byte.formula.formula import Formula, Selector, Term

from .data_parallel import gathered, rank_states
from .moments import Beginning, by_category
from .settings import STATES, STEP_BYTES, GPTSettings
from .tensor_parallel import rank_gpt_saved

MOMENTS = ("end of forward", "middle of the loss", "end of backward")
"""When `held_on_mesh` says what a rank holds."""

SEQUENCE = ("off", "on", "on, gathered again")
RECOMPUTE = ("none", "selective", "full")
STAGES = {"none": None, "0": 0, "1": 1, "2": 2, "3": 3, "3, weights kept": 3}
ATTENTIONS = ("explicit", "flash")
DROPOUT = 0.1
_KNOWN = {"sequence": SEQUENCE, "recompute": RECOMPUTE, "stage": tuple(STAGES), "attention": ATTENTIONS}


@dataclass(frozen=True, kw_only=True)
class MeshSettings:
    """What a rank's step depends on beside sizes. All is bfloat16, without biases, with dropout of 0.1 and fused AdamW.

    `is_split`: whether `tensor_parallel` has split the model, as for t > 1. `sequence`: whether it has over positions,
    too, and whether what is gathered for qkv and up is kept or gathered again in backward. `recompute`: nothing, the
    core of attention or whole blocks. `stage` is ZeRO's among the n groups: "none" for no data parallelism, "0" for
    DDP; "3, weights kept" gathers a block once, and keeps it until backward is through with it.

    Raises: ValueError for what is none of SEQUENCE, RECOMPUTE, STAGES, ATTENTIONS.
    """

    is_split: bool = True
    sequence: str = "off"
    recompute: str = "none"
    attention: str = "explicit"
    stage: str = "none"

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {'; '.join(known)}: got {name}={getattr(self, name)!r}.")

    @property
    def gpt(self) -> GPTSettings:
        """The same, as the closed forms of one GPU take it."""
        return GPTSettings("bfloat16", self.attention, dropout=DROPOUT)

    @property
    def reshard_after_forward(self) -> bool | None:
        """That of `fully_sharded`."""
        return False if self.stage == "3, weights kept" else None

    @property
    def splits_positions(self) -> bool:
        """Whether the model is sequence parallel."""
        return self.sequence != "off"

    @property
    def gathers_again(self) -> bool:
        """Whether the inputs of qkv and up are gathered again in backward."""
        return self.sequence == "on, gathered again"

    @property
    def is_in_ddp(self) -> bool:
        """Whether DDP exchanges the gradients."""
        return self.stage in ("0", "1")

    @property
    def is_in_fsdp(self) -> bool:
        """Whether FSDP2 gathers the weights."""
        return STAGES[self.stage] == 3


def held_on_mesh(settings: MeshSettings) -> dict[str, Formula]:
    """For each of MOMENTS what a rank's GPU holds, one term for each category of the ledger.

    The middle of the loss is where it has most for itself: in its forward if the logits are split over ranks, as
    `loss_parallel` computes it in float32, else in its backward. The context is s; the step is not the first; the
    logits and the loss keep their names until the next forward replaces them.

    Shapes: tokens[b, s] for each group -> logits[b, s, V/t]
    Counts: every byte requested on rank 0; W is one cuBLAS workspace. A share of 1/n is rounded up, in rows. In stage 1
            it is ZeRO's, 1/n of all; PyTorch's ZeroRedundancyOptimizer deals out whole parameters.
    Unit:   bytes, exact. t divides a and V and, with `sequence`, s.
    Source: Korthikanti et al. 2022; Rajbhandari et al. 2020; held to PyTorch's engines by tests/formulas/test_mesh.py.
    """
    saved = _saved(settings)
    before_loss = [term for term in saved if term.name != "loss: total weight"]
    moments = {
        "end of forward": [*_gathered(settings, "after forward"), *saved, _logits(1)],
        "middle of the loss": [*before_loss, *(_split_loss if settings.is_split else _loss)(settings)],
        "end of backward": [*_states(settings, "gradients"), _logits(1)],
    }
    return {
        name: by_category(Formula(f"GPT on a mesh of ranks, {name}", (*_standing(settings), *terms)))
        for name, terms in moments.items()
    }


def beginnings(settings: MeshSettings) -> dict[str, Beginning]:
    """For each of MOMENTS by which event of the step it begins; the loss's: behind its last large allocation."""
    if settings.is_split:
        in_loss = Beginning("batch", ("aten::log", "aten::_to_copy"))  # in forward
    else:
        in_loss = Beginning("forward", ("aten::_log_softmax_backward_data",))
    return dict(zip(MOMENTS, (Beginning("forward"), in_loss, Beginning("backward")), strict=True))


def _standing(settings: MeshSettings) -> list[Term]:
    """What is there in every phase."""
    return [
        *_states(settings, "parameters", "gradient buckets", "optimizer state"),
        *([_term("buffers", "2*L*s**2", "a causal mask in each block")] if settings.attention == "explicit" else []),
        _term("inputs", "16*b*s", "tokens and targets, int64"),
        _term("cuBLAS workspace", "2*W", "forward and backward"),
    ]


def _states(settings: MeshSettings, *names: str) -> list[Term]:
    """Of parameters, gradients, buckets and optimizer state those that a rank has of these."""
    stage = STAGES[settings.stage]
    states = {term.name: term for term in rank_states(settings.gpt, stage or 0, split=True).terms}
    if stage is None:
        del states["gradient buckets"]
    if stage == 1:
        shared = STATES[settings.gpt.optimizer] * settings.gpt.weight_bytes
        states["optimizer state"] = _term(
            "optimizer state",
            f"{shared}*up(({states['parameters'].elements})/n, 1) + {STEP_BYTES}*(6*L + 3)",
            "1/n, of what the rank updates",
        )
    return [states[name] for name in names if name in states]


def _gathered(settings: MeshSettings, moment: str) -> list[Term]:
    if not settings.is_in_fsdp:
        return []
    reshard = settings.reshard_after_forward
    return list(gathered(settings.gpt, moment, reshard_after_forward=reshard, split=True).terms)


def _saved(settings: MeshSettings) -> list[Term]:
    """What autograd keeps for backward; of whole blocks that run again their input alone."""
    formula = rank_gpt_saved(
        attention=settings.attention,
        dropout=DROPOUT,
        core=settings.recompute != "selective",
        sequence=settings.splits_positions,
        gathers_again=settings.gathers_again,
    )
    terms = [replace(term, element_bytes=2) if term.element_bytes == "e" else term for term in formula.terms]
    if settings.recompute != "full":
        return terms
    positions = "/t" if settings.splits_positions else ""
    given = Term("regions: input", f"L*b*s*d{positions}", 2, (Selector("blocks*", "checkpoint", "inputs*"),), "")
    return [given, *(term for term in terms if not term.selectors[0].module.startswith("blocks."))]


def _loss(settings: MeshSettings) -> list[Term]:
    """In backward: the gradients of the log-probabilities and of the logits, and the 1 that backward begins with."""
    return [
        *_gathered(settings, "in the loss"),
        _logits(1),
        _term("temporaries", "4*b*s*V + 2", "gradients on their way"),
    ]


def _split_loss(settings: MeshSettings) -> list[Term]:
    """In forward: the logits, less their maximum, less the logarithm of their sum, each in float32.

    With sequence parallel the model has a name for the numbers of all positions, and each rank keeps its own.
    """
    positions = " + 8*s" if settings.splits_positions else ""
    return [
        *_gathered(settings, "head"),
        _logits(2),
        _term("temporaries", f"12*b*s*V/t + 12*b*s{positions}", "the loss, computed in float32"),
    ]


def _logits(n: int) -> Term:
    """Those of the step and of the step before, which has a loss already."""
    return _term("outputs", f"{2 * n}*b*s*V/t + 2", "logits and loss: the program has names for them")


def _term(name: str, size: str, why: str) -> Term:
    return Term(name, size, 1, (Selector("*", name, "*"),), why)
