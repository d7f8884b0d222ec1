"""Training steps in named phases: those of a GPT against the recorded ones, and what each setting does."""

import re
from dataclasses import dataclass

import pytest
import torch
from reference_files import load
from running import run_case, up_to_last_mark

from utils import GPT, LinearStack, LiveGPU, SimulatedGPU, Trace
from utils.experiments.training import ADAMW, STEP_PHASES, StepSettings, adamw, random_tokens, train_steps

SIZES = {
    "tiny": {"V": 1000, "s": 64, "b": 4, "d": 128, "L": 2, "a": 4},
    "small": {"V": 50304, "s": 1024, "b": 12, "d": 768, "L": 12, "a": 12},
    "medium": {"V": 50304, "s": 1024, "b": 4, "d": 1024, "L": 24, "a": 16},
    "large": {"V": 50304, "s": 1024, "b": 4, "d": 1280, "L": 36, "a": 20},
}
BF16, HALF = {"dtype": torch.bfloat16}, {"autocast": torch.bfloat16}
EXPLICIT, DROPOUT, FP16 = {"kind": "explicit"}, {"dropout_prob": 0.1}, {"autocast": torch.float16}
FP16 |= {"keep_outputs": False, "set_to_none": False}
VARIANTS = {  # of the recorded cases: settings of the model, settings of the step
    "fp32": ({}, {}),
    "pure_bf16": (BF16, {}),
    "accumulate4_fp32": ({}, {"micro_batches": 4}),
    "accumulate4_pure_bf16": (BF16, {"micro_batches": 4}),
    "foreach_fp32": ({}, {"optimizer": "foreach"}),
    "foreach_pure_bf16": (BF16, {"optimizer": "foreach"}),
    "explicit_dropout_fp32": (EXPLICIT | DROPOUT | {"bias": True}, {"keep_outputs": False}),
    "explicit_dropout_pure_bf16": (EXPLICIT | DROPOUT | {"bias": True} | BF16, {"keep_outputs": False}),
    "flash_bf16": ({}, HALF),
    "cudnn_bf16": ({}, HALF),
    "foreach": ({}, HALF | {"optimizer": "foreach"}),
    "loop": ({}, HALF | {"optimizer": "loop"}),
    "dropout": (DROPOUT, HALF),
    "explicit_dropout": (EXPLICIT | DROPOUT, HALF),
    "bias": ({"bias": True}, HALF),
    "accumulate4": ({}, HALF | {"micro_batches": 4}),
    "explicit_fp16": (EXPLICIT, FP16),
    "explicit_fp16_scaler": (EXPLICIT, FP16 | {"scaler": True}),
}
LARGER = ["explicit_fp16", "explicit_fp16_scaler", "flash_bf16", "accumulate4", "accumulate4_pure_bf16"]
CASES = [("tiny", variant, card) for variant in VARIANTS for card in ("a100", "h100")]
CASES.remove(("tiny", "cudnn_bf16", "a100"))  # cuDNN's attention wants a later GPU
CASES += [("small", variant, "a100") for variant in LARGER]
CASES += [(size, variant, "a100") for size in ("medium", "large") for variant in ("explicit_fp16", "flash_bf16")]


def gpt_steps(gpu, size="tiny", *, model=None, n_steps=3, at_mark=None, **settings):
    z = SIZES[size]
    return train_steps(
        gpu,
        lambda: GPT(z["V"], z["s"], z["d"], z["L"], z["a"], device=gpu.device, **model or {}),
        lambda: random_tokens(gpu, b=z["b"], s=z["s"], V=z["V"]),
        StepSettings(**settings),
        n_steps=n_steps,
        at_mark=at_mark,
    )


@dataclass
class Case:
    """A recorded case as this book's own modules run it."""

    size: str
    variant: str
    readings = None

    @property
    def cudnn_sdp(self) -> bool:
        return self.variant.startswith("cudnn")

    def __call__(self, env):
        model, settings = VARIANTS[self.variant]
        self.readings = gpt_steps(env.gpu, self.size, model=model, **settings)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("size", "variant", "card"), CASES)
def test_a_gpt_trains_as_the_recorded_one(size, variant, card):
    case, recorded = Case(size, variant), load(f"gpt2_{size}_{variant}", card)
    trace = run_case(case, card).gpu.trace
    for row, mark in zip(case.readings, recorded["marks"], strict=True):
        found = row.requested_bytes, row.allocated_bytes, row.reserved_bytes, row.peak_bytes
        assert found == tuple(mark[name] for name in ("requested", "allocated", "reserved", "peak")), mark["name"]
    assert list(case.readings.figures) == [mark["name"] for mark in recorded["marks"]]
    if "events" in recorded:
        assert up_to_last_mark(trace.sequence()) == Trace.from_recording(recorded).sequence()


# ------------------------------------------------------------------------------------------------------- each setting


def figures(phase, *, step=3, **settings):
    with SimulatedGPU("a100-80gb") as gpu:
        return gpt_steps(gpu, **settings)[step, phase]


LOGITS = 4 * (4 * 64 * 1000)  # bytes, in float32
PARAMETERS = 1000 * 128 + 64 * 128 + 2 * 12 * 128**2 + 5 * 128


def test_zero_grad_drops_gradients_or_keeps_them():
    dropped, kept = (figures("zero_grad", set_to_none=set_to_none) for set_to_none in (True, False))
    assert kept.requested_bytes - dropped.requested_bytes == 4 * PARAMETERS


def test_logits_live_until_the_next_forward_or_not():
    for phase in ("forward", "backward", "zero_grad"):
        kept, dropped = (figures(phase, keep_outputs=keep_outputs) for keep_outputs in (True, False))
        assert kept.requested_bytes - dropped.requested_bytes == LOGITS


def test_micro_batches_are_read_one_by_one():
    with SimulatedGPU("a100-80gb") as gpu:
        readings = gpt_steps(gpu, micro_batches=2, n_steps=1, set_to_none=False)
        marks = [event.name for event in gpu.trace if event.action == "mark"]
    micro = [f"micro {n} {phase}" for n in (1, 2) for phase in ("batch", "forward", "backward")]
    assert [row.phase for row in readings] == ["model", *micro, "optimizer", "zero_grad"]
    assert marks == ["model", *(f"step 1 {row.phase}" for row in readings if row.iteration)] == list(readings.figures)
    assert "step  phase" in str(readings.of(1))
    with pytest.raises(KeyError, match="a reading is named by step and phase: got \\(2, 'forward'\\)"):
        readings[2, "forward"]


def plain_script(gpu, model, optimizer, scaler, n_steps):
    """With clipping, as in nanoGPT's train.py, and a name for everything."""
    z = SIZES["tiny"]
    gpu.trace.mark("model")
    for step in range(1, n_steps + 1):
        tokens = torch.randint(z["V"], (z["b"], z["s"])).to(gpu.device)
        targets = torch.randint(z["V"], (z["b"], z["s"])).to(gpu.device)
        gpu.trace.mark(f"step {step} batch")
        logits, loss = model(tokens, targets)
        gpu.trace.mark(f"step {step} forward")
        scaler.scale(loss).backward()
        gpu.trace.mark(f"step {step} backward")
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        gpu.trace.mark(f"step {step} clip")
        scaler.step(optimizer)
        scaler.update()
        gpu.trace.mark(f"step {step} optimizer")
        optimizer.zero_grad(set_to_none=True)
        gpu.trace.mark(f"step {step} zero_grad")
    return logits


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:nothing is computed")  # the scaler asks whether a gradient is infinite
@pytest.mark.parametrize("scaler", [False, True])
@pytest.mark.parametrize("form", ADAMW)
def test_clipping_takes_what_a_plain_script_takes(form, scaler):
    with SimulatedGPU("a100-80gb") as gpu:
        readings = gpt_steps(gpu, optimizer=form, clip_norm=1.0, scaler=scaler)
        ours = up_to_last_mark(gpu.trace.sequence())
    assert [row.phase for row in readings.of(2)] == list(STEP_PHASES)
    with SimulatedGPU("a100-80gb") as gpu:
        model = GPT(1000, 64, 128, 2, 4, device=gpu.device)
        how = torch.amp.GradScaler(gpu.device.type, enabled=scaler)
        plain_script(gpu, model, adamw(model, form), how, 3)
        assert ours == up_to_last_mark(gpu.trace.sequence())


def test_the_optimizer_is_nanogpts_or_ones_own():
    model = GPT(31, 9, 12, 2, 3, bias=True)
    model.positions.requires_grad_(False)
    decayed, others = adamw(model).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert {parameter.dim() for parameter in decayed["params"]} == {2}
    assert {parameter.dim() for parameter in others["params"]} == {1}
    assert len(decayed["params"]) + len(others["params"]) == len(list(model.parameters())) - 1
    own = figures("optimizer", optimizer=lambda model: torch.optim.SGD(model.parameters()))
    fused = figures("optimizer")
    state = 2 * 4 * PARAMETERS + 15 * 4  # of 15 parameters
    assert fused.requested_bytes - own.requested_bytes == state


def test_at_each_mark_one_may_look_at_the_gpu():
    seen = {}
    with SimulatedGPU("a100-80gb") as gpu:
        readings = gpt_steps(gpu, n_steps=1, at_mark=lambda name: seen.update({name: gpu.memory_allocated()}))
    assert seen == readings.figures


class Squares(LinearStack):
    """A model whose output is its loss."""

    def forward(self, x):
        return super().forward(x).square().mean()


def test_a_model_may_return_its_loss_alone():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(64, 100, device=gpu.device)
        readings = train_steps(gpu, lambda: Squares(n_hidden=3, device=gpu.device), lambda: [x], n_steps=2)
        assert readings[2, "batch"].change_bytes == 0
        assert readings.title == "Squares on a100-80gb, simulated"
        assert readings[2, "zero_grad"].parts == {}


def test_without_a_gpu_that_is_simulated_the_same_calls(monkeypatch):
    """The loop asks a GPU for its device, its name and its statistics alone, as LiveGPU answers them too."""
    asked = set()

    class Asked:
        def __init__(self, gpu):
            self._gpu = gpu

        def __getattr__(self, name):
            asked.add(name)
            if name == "trace":
                raise AttributeError(name)
            return getattr(self._gpu, name)

    with SimulatedGPU("a100-80gb") as gpu:
        with_trace = gpt_steps(gpu, n_steps=2).figures
    with SimulatedGPU("a100-80gb") as gpu:
        assert gpt_steps(Asked(gpu), n_steps=2).figures == with_trace
    assert asked - {"trace"} <= set(dir(LiveGPU)) | {"device", "name", "origin"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"micro_batches": 0}, "micro_batches must be a positive integer: got micro_batches=0"),
        (
            {"optimizer": "adam"},
            "optimizer must be one of fused, foreach, loop, or a function that makes one for a model: "
            "got optimizer='adam'.",
        ),
        ({"clip_norm": 0.0}, "clip_norm must be positive: got clip_norm=0.0; None does not clip."),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        StepSettings(**settings)


def test_bad_numbers_and_forms():
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(ValueError, match="n_steps must be a positive integer: got"):
        gpt_steps(gpu, n_steps=0)
    with pytest.raises(ValueError, match="form must be one of fused, foreach, loop: got form='Lion'"):
        adamw(GPT(31, 9, 12, 2, 3), "Lion")
