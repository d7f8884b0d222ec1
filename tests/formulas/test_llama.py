"""The closed form of a Llama's training step against training on the simulated GPU: every requested byte."""

import random

import pytest
import torch
from agreement import agrees
from kernels_by_node import KERNELS

from utils import Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.decoder_backward import decoder_in_embedding, decoder_in_first_block, decoder_in_step
from utils.formulas.decoder_forward import decoder_after_forward, decoder_in_loss, decoder_in_loss_backward
from utils.formulas.decoder_settings import ATTENTIONS
from utils.formulas.llama_counts import llama_parameter_count
from utils.formulas.llama_settings import LlamaSettings
from utils.formulas.settings import PRECISIONS
from utils.models.llama import SIZES, Llama
from utils.models.regions import library_checkpoint

pytestmark = pytest.mark.sampled(4)

N_DRAWN = 40
OF_EACH_KIND = (0, 2, 3, 4, 8)


def draw(seed):
    """A Llama's sizes, how it is made and trained, and the GPU, drawn at random."""
    rng = random.Random(seed)
    g = rng.choice([1, 2, 3])
    a = g * rng.choice([1, 2, 4])
    letters = {
        "b": rng.randint(1, 4),
        "s": rng.randint(2, 200),
        "d": a * rng.choice([8, 16, 64, 128]),
        "a": a,
        "g": g,
        "f": 8 * rng.randint(1, 60),
        "L": rng.randint(1, 4),
        "V": rng.choice([64, 1000, 5001, 32000]),
    }
    precision = rng.choice(PRECISIONS)
    model = {"kind": rng.choice(["sdpa", "explicit"]), "is_tied": rng.random() < 0.4}
    if rng.random() < 0.5:
        model["run"] = library_checkpoint
    training = {
        "optimizer": rng.choice(["fused", "foreach", "loop"]),
        "set_to_none": rng.random() < 0.5,
        "keep_outputs": rng.random() < 0.5,
    }
    gpus = ["a100-80gb", "h100-80gb", *(["t4-16gb"] if precision != "bfloat16" else [])]
    return letters, model, precision, training, rng.choice(gpus)


def train(letters, model, precision, training, gpu_name):
    """The trace of three steps, and the settings for the closed form."""
    half = torch.float16 if gpu_name == "t4-16gb" else torch.bfloat16
    how = StepSettings(autocast=half if precision == "autocast" else None, **training)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    sizes = [letters[letter] for letter in ("V", "s", "d", "L", "a", "g", "f")]
    with SimulatedGPU(gpu_name) as gpu:
        batch = {letter: letters[letter] for letter in "bsV"}
        train_steps(
            gpu,
            lambda: Llama(*sizes, device=gpu.device, dtype=dtype, **model),
            lambda: random_tokens(gpu, **batch),
            how,
        )
        workspace_bytes = gpu.spec.cublas_workspace_bytes
    held = LlamaSettings(
        precision=precision,
        attention=attention_of(gpu.trace, model["kind"]),
        is_tied=model["is_tied"],
        is_checkpointed="run" in model,
        optimizer=f"AdamW, {training['optimizer']}",
        holds_logits=training["keep_outputs"],
        holds_gradients=not training["set_to_none"],
        workspace_bytes=workspace_bytes,
    )
    return gpu.trace, held


def attention_of(trace, kind) -> str:
    """The kernel that ran; where none takes grouped queries, PyTorch spells attention out."""
    operations = {event.operation for event in trace}
    kernels = [name for name in KERNELS.values() if f"aten::_scaled_dot_product_{name}_attention" in operations]
    return kernels[0] if kernels else {"sdpa": "math"}.get(kind, kind)


class Moments:
    """The positions in a trace's third step."""

    def __init__(self, trace, held) -> None:
        self.trace, self.held = trace, held
        self.forward, self.backward = trace.position("step 3 forward"), trace.position("step 3 backward")

    def first(self, operation, start, module=None) -> int:
        """Right behind the first allocation of an operation from there on."""
        found = (
            i
            for i, event in enumerate(self.trace.events)
            if i >= start and (event.action, event.operation) == ("alloc", operation)
            if module is None or event.module == module
        )
        return next(found) + 1

    def in_first_block(self) -> int:
        """Where the product of silu and up has given both their gradients."""
        wanted = "alloc", "aten::mul.Tensor", "blocks.0.mlp"
        found = [
            i
            for i, event in enumerate(self.trace.events[: self.backward])
            if (event.action, event.operation, event.module) == wanted and event.node.startswith("Mul")
        ]
        return found[-1] + 1

    def in_embedding(self) -> int:
        """The gradient of the embedding, or of one that is the head too, the sum of both."""
        if self.held.is_tied and not self.held.is_autocast:
            return self.first("aten::add.Tensor", self.forward, "tokens")
        return self.first("aten::embedding_dense_backward", self.forward)

    def in_step(self) -> int:
        """Where most is requested."""
        first, last = self.backward, self.trace.position("step 3 optimizer")
        levels = [self.trace.requested_bytes(first)]
        for event in self.trace.events[first:last]:
            levels.append(levels[-1] + {"alloc": 1, "free": -1}.get(event.action, 0) * event.n_bytes)
        return first + levels.index(max(levels))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_every_byte_at_each_moment(seed):
    letters, *rest = draw(seed)
    trace, held = train(letters, *rest)
    moments = Moments(trace, held)
    found = {
        decoder_after_forward: moments.forward,
        decoder_in_loss: moments.first("aten::nll_loss_forward", trace.position("step 3 batch")) + 1,
        decoder_in_loss_backward: moments.first("aten::_log_softmax_backward_data", moments.forward),
        decoder_in_first_block: moments.in_first_block(),
        decoder_in_embedding: moments.in_embedding(),
    }
    if held.optimizer != "AdamW, loop" or letters["V"] >= 2 * max(letters["d"], letters["f"]):
        found[decoder_in_step] = moments.in_step()
    for form, position in found.items():
        agrees(form(held), letters, Ledger.at(trace, position))


@pytest.mark.long
@pytest.mark.parametrize("name", SIZES)
def test_the_count_is_the_models(name):
    model, sizes = Llama.from_name(name, device="meta", context_length=2), SIZES[name]
    letters = {"V": "vocabulary_size", "d": "d_model", "L": "n_layers", "a": "n_heads", "g": "n_kv_heads", "f": "d_mlp"}
    count = llama_parameter_count(is_tied=sizes.get("is_tied", False))
    counted = count.value({letter: sizes[key] for letter, key in letters.items()})
    assert counted == sum(parameter.numel() for parameter in model.parameters())


def test_the_draw_meets_every_choice():
    drawn = [draw(seed) for seed in range(N_DRAWN)]
    assert {precision for _, _, precision, *_ in drawn} == set(PRECISIONS)
    assert {(model["kind"], model["is_tied"], "run" in model) for _, model, *_ in drawn} == {
        (kind, is_tied, runs) for kind in ("sdpa", "explicit") for is_tied in (True, False) for runs in (True, False)
    }
    assert {gpu for *_, gpu in drawn} == {"a100-80gb", "h100-80gb", "t4-16gb"}
    assert {train_with["optimizer"] for *_, train_with, _ in drawn} == {"fused", "foreach", "loop"}


@pytest.mark.long
def test_every_kind_of_attention_is_drawn():
    drawn = [draw(seed) for seed in OF_EACH_KIND]
    assert {attention_of(train(*one)[0], one[1]["kind"]) for one in drawn} == set(ATTENTIONS)


@pytest.mark.parametrize(("name", "value"), [("precision", "fp16"), ("optimizer", "Lion"), ("attention", "sdpa")])
def test_unknown_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be one of .*: got {name}='{value}'"):
        LlamaSettings(**{name: value})
