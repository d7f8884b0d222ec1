"""The book's GPT: its numbers on the CPU, its shapes, its bytes on a simulated GPU against the recorded ones."""

import copy
import math
import re
from contextlib import nullcontext

import pytest
import torch
from reference_files import load

from every_byte.gpu.cases.recorder import READINGS
from every_byte.remedies.losses import fused_chunks, half_logits, recomputed_chunks, whole_logits
from utils import GPT, SimulatedGPU
from utils.experiments.readings import requested
from utils.models.gpt import SIZES
from utils.models.regions import library_checkpoint

PUBLISHED = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
TINY = {"vocabulary_size": 31, "context_length": 9, "d_model": 12, "n_layers": 2, "n_heads": 3}


def n_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def tiny(**changes):
    torch.manual_seed(0)
    return GPT(**TINY | {"dtype": torch.float64} | changes)


def batch(b=2, s=9, V=31):
    torch.manual_seed(1)
    return torch.randint(V, (b, s)), torch.randint(V, (b, s))


# ------------------------------------------------------------------------------------------------------------- numbers


def test_explicit_and_sdpa_give_the_same_loss_and_gradients():
    models = {kind: tiny(kind=kind, bias=True) for kind in ("sdpa", "explicit")}
    models["explicit"].load_state_dict(models["sdpa"].state_dict(), strict=False)
    losses, gradients = [], []
    for model in models.values():
        _, loss = model(*batch())
        loss.backward()
        losses.append(loss.detach())
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)  # sums in another order
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)
    assert gradients[0].abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_a_fresh_model_knows_nothing(kind):
    """Its logits are near 0, so that each of V tokens is about as likely: a loss of ln V."""
    model = tiny(kind=kind, vocabulary_size=1000, d_model=48)
    logits, loss = model(*batch(b=8, V=1000))
    assert logits.shape == (8, 9, 1000)
    assert abs(loss.item() - math.log(1000)) < 0.05


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_it_learns(kind):
    model = tiny(kind=kind, d_model=24)
    optimizer, (tokens, _) = torch.optim.AdamW(model.parameters(), lr=1e-2), batch()
    for _ in range(60):
        optimizer.zero_grad()
        _, loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5 < math.log(31)


LOSSES = {
    "whole": whole_logits,
    "half": half_logits,
    "recomputed": recomputed_chunks(7),
    "fused": fused_chunks(7),
}


@pytest.mark.parametrize("run", [{}, {"run": library_checkpoint}], ids=["plainly", "checkpoint"])
@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_gives_the_numbers_of_the_model_s_own(loss, run):
    models = [tiny(dtype=torch.float32), tiny(dtype=torch.float32, loss=LOSSES[loss], **run)]
    models[1].load_state_dict(models[0].state_dict())
    own, given = (gradients_of(model) for model in models)
    for one, other in zip(own, given, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)  # float32, sums in another order


def gradients_of(model):
    """The loss, and all gradients."""
    loss = model(*batch())[-1]
    loss.backward()
    return loss.detach(), *(parameter.grad for parameter in model.parameters())


@pytest.mark.parametrize("autocast", [False, True])
def test_a_model_s_own_loss_lets_the_head_s_input_go(autocast):
    """Under autocast the head keeps a copy of it, and `half_logits` has a name for it."""
    peaks = []
    for loss in (None, half_logits):
        with SimulatedGPU("a100-80gb") as gpu:
            dtype = torch.float32 if autocast else torch.bfloat16
            model = GPT(**TINY, device=gpu.device, dtype=dtype, loss=loss)
            given = [part.to(gpu.device) for part in batch()]
            with gpu.autocast(torch.bfloat16) if autocast else nullcontext():
                model(*given)[-1].backward()
                gpu.reset_peak_memory_stats()
                model(*given)
            peaks.append(requested(gpu, "peak"))
    b, s, d = 2, 9, TINY["d_model"]
    assert peaks[1] - peaks[0] == (4 * b * s * d if autocast else 0)


def test_no_position_sees_what_comes_after_it():
    for kind in ("sdpa", "explicit"):
        model, (tokens, targets) = tiny(kind=kind), batch()
        changed = tokens.clone()
        changed[:, 5:] = (changed[:, 5:] + 1) % 31
        one, other = (model(some, targets)[0] for some in (tokens, changed))
        torch.testing.assert_close(one[:, :5], other[:, :5], rtol=1e-12, atol=1e-14)
        assert (one[:, 5:] - other[:, 5:]).abs().min() > 0


def test_without_targets_the_last_logits_alone():
    model, (tokens, targets) = tiny(), batch()
    logits, loss = model(tokens)
    assert loss is None
    assert logits.shape == (2, 1, 31)
    torch.testing.assert_close(logits[:, 0], model(tokens, targets)[0][:, -1])


def test_a_target_of_minus_1_does_not_count():
    model, (tokens, targets) = tiny(), batch()
    logits, _ = model(tokens, targets)
    targets[:, 3:] = -1
    _, loss = model(tokens, targets)
    expected = torch.nn.functional.cross_entropy(logits[:, :3].flatten(0, 1), targets[:, :3].flatten())
    torch.testing.assert_close(loss, expected)


def test_fresh_weights_are_those_of_nanogpt():
    torch.manual_seed(0)
    model = GPT(500, 100, 128, 8, 4, bias=True)
    deviations = {name: parameter.std().item() for name, parameter in model.named_parameters() if parameter.dim() == 2}
    for name, deviation in deviations.items():
        expected = 0.02 / 4 if re.search(r"attention\.out|mlp\.down", name) else 0.02  # 4: the root of 2 x 8 layers
        assert abs(deviation / expected - 1) < 0.05, name
    assert len(deviations) == 2 + 4 * 8
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == ("norm" in name and name.endswith("weight"))).all(), name


# -------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("name", SIZES)
def test_the_published_parameter_counts(name):
    """Of OpenAI's weights, which have biases and a vocabulary that is not filled up."""
    with SimulatedGPU("a100-80gb") as gpu:
        assert n_parameters(GPT.from_name(name, vocabulary_size=50257, bias=True, device=gpu.device)) == PUBLISHED[name]


def test_names_of_the_parts():
    paths = {name for name, module in tiny(kind="explicit").named_modules() if not list(module.children())}
    block = "norm1 attention.qkv attention.out attention.weight_dropout attention.dropout norm2 mlp.up mlp.activation "
    in_blocks = {f"blocks.{n}.{path}" for n in (0, 1) for path in (block + "mlp.down mlp.dropout").split()}
    assert paths == {"tokens", "positions", "dropout", "norm", "head"} | in_blocks


def test_the_head_is_tied():
    model = tiny()
    assert model.head.weight is model.tokens.weight
    assert (model.head.in_features, model.head.out_features, model.head.bias) == (12, 31, None)
    model = model.to(torch.float32)
    assert model.head.weight is model.tokens.weight
    with SimulatedGPU("a100-80gb") as gpu:
        model = model.to(gpu.device)
        assert model.head.weight is model.tokens.weight


def test_settings_reach_every_part():
    model = tiny(dropout_prob=0.25, act_fn="relu", kind="explicit", bias=True, dtype=torch.bfloat16)
    dropouts = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    assert dropouts == [0.25] * (1 + 3 * 2)
    assert sum(isinstance(module, torch.nn.ReLU) for module in model.modules()) == 2
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.bfloat16}
    assert {buffer.shape for buffer in model.buffers()} == {(1, 1, 9, 9)}
    assert sum("bias" in name for name, _ in model.named_parameters()) == 6 * 2 + 1
    changed = GPT.from_name("gpt2-xl", **TINY | {"n_layers": 1})
    assert (len(changed.blocks), changed.tokens.weight.shape) == (1, (31, 12))


# ------------------------------------------------------------------------------------------------------- simulated GPU


FIGURES = {  # of the recorded cases gpt2_small_<key> at their mark "model"
    "fp32": ("sdpa", torch.float32),
    "pure_bf16": ("sdpa", torch.bfloat16),
    "explicit_fp16": ("explicit", torch.float32),
}


@pytest.fixture(scope="module")
def small_models():
    """GPT-2 small on the CPU, in both kinds."""
    return {kind: GPT.from_name("gpt2", kind=kind) for kind in ("sdpa", "explicit")}


@pytest.mark.long
@pytest.mark.parametrize("case", FIGURES)
def test_made_on_the_gpu_or_moved_there_it_takes_what_was_recorded(case, small_models):
    recorded, (kind, dtype) = load(f"gpt2_small_{case}", "a100")["marks"][0], FIGURES[case]
    assert recorded["name"] == "model"
    for is_moved in (False, True):
        with SimulatedGPU("a100-80gb") as gpu:
            if is_moved:
                model = copy.deepcopy(small_models[kind]).to(gpu.device, dtype)
            else:
                model = GPT.from_name("gpt2", kind=kind, device=gpu.device, dtype=dtype)
            stats = gpu.memory_stats()
            assert {name: stats[key] for name, key in READINGS.items()} == {name: recorded[name] for name in READINGS}
        del model


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary_size": 0}, "vocabulary_size must be a positive integer: got vocabulary_size=0"),
        ({"context_length": 2.0}, "context_length must be a positive integer: got context_length=2.0"),
        ({"n_layers": -1}, "n_layers must be a positive integer: got n_layers=-1"),
        ({"n_heads": 5}, "n_heads must divide d_model: got n_heads=5, d_model=12; nearest: 4 or 6."),
        ({"kind": "flash"}, 'kind must be "sdpa" or "explicit": got kind=\'flash\'.'),
        ({"dropout_prob": 1.0}, "dropout_prob must lie in [0, 1): got dropout_prob=1.0"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        tiny(**changes)


def test_bad_names_and_tokens():
    message = "name must be one of gpt2, gpt2-medium, gpt2-large, gpt2-xl: got name='gpt2-small'."
    with pytest.raises(ValueError, match=re.escape(message)):
        GPT.from_name("gpt2-small")
    with pytest.raises(ValueError, match=re.escape("tokens must be tokens[b, s]: got 1 dimensions, (9,)")):
        tiny()(torch.zeros(9, dtype=torch.int64))
    with pytest.raises(ValueError, match="tokens may have context_length=9 positions at most: got 10"):
        tiny()(torch.zeros(1, 10, dtype=torch.int64))
