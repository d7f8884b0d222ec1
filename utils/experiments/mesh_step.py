"""A GPT's training step as one of n x t ranks on a GPU: tensor parallel within, data parallel between."""

from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.formula.formula import Formula
from every_byte.gpu.capacity import Room
from every_byte.gpu.device import spec_of
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.ranks import ranks
from every_byte.ledger.trace import Trace
from utils.formulas.mesh import DROPOUT, MOMENTS, MeshSettings, beginnings, held_on_mesh
from utils.formulas.moments import Beginning, in_order_of_categories
from utils.layers import check_positive
from utils.models.data_parallel import fully_sharded, replicated, states_sharded
from utils.models.gpt import GPT, SIZES, VOCABULARY_SIZE, blocks_of
from utils.models.regions import library_checkpoint, set_regions
from utils.models.tensor_parallel import plain_shares, tensor_parallel

from .rank_steps import MODELS, gather_again
from .step_run import StepRun, roomy_gpu
from .training import StepSettings, adamw, random_tokens, train_steps

SHAPES = {
    **{name: {letter: found[letter] for letter in "Lda"} | {"V": 51200} for name, found in MODELS.items()},
    **{
        name: {"L": size["n_layers"], "d": size["d_model"], "a": size["n_heads"], "V": VOCABULARY_SIZE}
        for name, size in SIZES.items()
    },
}
"""The letters L, d, a and V of the models of Korthikanti et al. 2022, table 3, and of the four GPT-2s."""

_ADAMW = partial(adamw, most=16)


@dataclass(frozen=True, kw_only=True)
class MeshStep:
    """A way to train one of SHAPES on a mesh of n groups of t ranks, as rank 0; `MeshSettings` says what else.

    `b` sequences of `s` tokens are one group's. With t = 1 the model is not split. With the stage "none" there is
    one group, whatever n says; else n is 2 or more. `gpu` is that of `GPTStep`.

    Raises: ValueError for a model or GPU that is not known, for a b, s, t or n that is no positive integer and, as
            `MeshSettings` does, for the other names.
    """

    model: str = "22B"
    s: int = 2048
    b: int = 4
    t: int = 8
    sequence: str = "on"
    recompute: str = "selective"
    attention: str = "explicit"
    stage: str = "3"
    n: int = 8
    gpu: str | GPUSpec = "a100-80gb"
    micro_batches = 1

    def __post_init__(self) -> None:
        if self.model not in SHAPES:
            raise ValueError(f"model must be one of {', '.join(SHAPES)}: got model={self.model!r}.")
        check_positive(b=self.b, s=self.s, t=self.t, n=self.n)
        if self.stage != "none" and self.n < 2:
            raise ValueError(f"n must be 2 groups or more: got n={self.n}; without data parallelism, stage='none'.")
        _ = self.spec, self.settings  # what they refuse, they refuse at once

    @property
    def settings(self) -> MeshSettings:
        """The same, as the closed forms take it."""
        return MeshSettings(
            is_split=self.t > 1,
            sequence=self.sequence,
            recompute=self.recompute,
            attention=self.attention,
            stage=self.stage,
        )

    @property
    def spec(self) -> GPUSpec:
        return spec_of(self.gpu)

    @property
    def letters(self) -> dict[str, int]:
        """The letters of the closed forms."""
        sizes = {"b": self.b, "s": self.s, "t": self.t, "n": self.n, "W": self.spec.cublas_workspace_bytes}
        return SHAPES[self.model] | sizes

    @property
    def n_ranks(self) -> int:
        """How many there are in all."""
        return self.t * (1 if self.stage == "none" else self.n)

    @property
    def held(self) -> dict[str, Formula]:
        """For each of MOMENTS the closed form."""
        return _held(self.settings)

    @property
    def beginnings(self) -> dict[str, Beginning]:
        """By which event each of MOMENTS begins."""
        return beginnings(self.settings)

    @property
    def n_steps(self) -> int:
        """From the second on, each asks for the same; with DDP, which divides its buckets anew, from the third on."""
        return 3 if self.settings.is_in_ddp else 2

    def run(self) -> "MeshRun":
        """Train for n_steps.

        Raises: ValueError for stage 2, of which PyTorch has no engine, and as `tensor_parallel` does.
        """
        if self.stage == "2":
            raise ValueError(
                "PyTorch has no engine for ZeRO's stage 2, so there is only the prediction. Closest to it is stage 3 "
                "with weights kept."
            )
        room = Room()
        flash = sdpa_kernel(SDPBackend.FLASH_ATTENTION)
        with roomy_gpu(self.gpu) as gpu, flash, ranks(self.n_ranks) as all_ranks:
            shape = (self.n_ranks // self.t, self.t)
            mesh = init_device_mesh(all_ranks.device_type, shape, mesh_dim_names=("data", "tensor"))
            optimizers = {"1": lambda model: states_sharded(model, mesh["data"], fused=True)}

            def make_model() -> nn.Module:
                model = self._model_on(gpu, mesh)
                gpu.empty_cache()  # of the whole model, which was cut, nothing stays reserved
                return model

            train_steps(
                gpu,
                make_model,
                lambda: random_tokens(gpu, b=self.b, s=self.s, V=self.letters["V"]),
                StepSettings(optimizer=optimizers.get(self.stage, _ADAMW)),
                n_steps=self.n_steps,
                at_mark=lambda _: room.note(gpu),
            )
            # Nothing of the run is left to look at; looking would take as long as the run in a large process.
            return MeshRun(self, replace(gpu.trace, look=None), room)

    def _model_on(self, gpu: GPU, mesh: DeviceMesh) -> nn.Module:
        """The model, divided: within a group first, then over the groups; then what of it runs again in backward."""
        L, d, a, V = (self.letters[letter] for letter in "LdaV")
        kind = "explicit" if self.attention == "explicit" else "sdpa"
        model = GPT(V, self.s, d, L, a, DROPOUT, gpu.device, torch.bfloat16, kind=kind)
        if self.t > 1:
            tensor_parallel(model, mesh["tensor"], sequence=self.settings.splits_positions)
            if self.settings.gathers_again:
                for block in blocks_of(model):
                    gather_again(block)
        if self.settings.is_in_fsdp:
            fully_sharded(model, mesh["data"], reshard_after_forward=self.settings.reshard_after_forward)
        if self.recompute == "full":
            for block in blocks_of(model):
                block.__dict__["forward"] = partial(library_checkpoint, block.forward)
        elif self.recompute == "selective":
            set_regions(model, "attention only", run=library_checkpoint)
        return replicated(plain_shares(model), mesh["data"]) if self.settings.is_in_ddp else model


@cache
def _held(settings: MeshSettings) -> dict[str, Formula]:
    return {name: in_order_of_categories(formula) for name, formula in held_on_mesh(settings).items()}


class MeshRun(StepRun):
    """The same of a rank's steps."""

    step: MeshStep

    @property
    def added_state_bytes(self) -> int:
        """By how much the optimizer's state is more than ZeRO's share: whole parameters are dealt out in stage 1."""
        share = self.step.held[MOMENTS[-1]].by_term(**self.step.letters)["optimizer state"]
        return self.account()[MOMENTS[-1]]["optimizer state"] - share

    @property
    def needed(self) -> Trace:
        """What a rank that makes its share and nothing else must have room for.

        The simulated run makes the whole model, and cuts; on GPUs too small for that, scripts make it on `meta`.
        """
        return without_what_is_cut(self.trace)


def without_what_is_cut(trace: Trace) -> Trace:
    """A trace without what is let go before the first step: the parts of a whole model that a rank does not keep."""
    end = trace.position("model")
    gone = {event.allocation for event in trace.events[:end] if event.action == "free"}
    kept = [event for event in trace.events[:end] if event.action == "mark" or event.allocation not in gone]
    emptied = [position - end + len(kept) for position in trace.emptied if position > end]
    return replace(trace, events=[*kept, *trace.events[end:]], emptied=emptied)
