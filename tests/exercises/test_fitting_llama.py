"""The replies to a reader of chapter 7 about settings that should make Llama 3 8B fit on a 24 GB card."""

from dataclasses import replace

import pytest
import torch

from utils.exercises.fitting_llama import DIES, GIVEN, fits_on_24_gb

pytestmark = pytest.mark.sampled(6, slow=True)

CHUNKS = DIES | {"loss": "chunks, fused", "is_checkpointed": True}
FITS = CHUNKS | {"optimizer": "SGD", "steps_in_backward": True}
HOST = CHUNKS | {"offload": "optimizer, gradients"}
KEPT_ON_HOST = FITS | {"is_checkpointed": False, "offload": "activations"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "replies"),
    [
        (
            DIES,
            [
                "Not yet: memory runs out in step 1 forward, 82,635,980,800 bytes (77 GiB) short.",
                "Its peak is in backward, at _log_softmax_backward_data, with 105,012,717,460 bytes (97.8 GiB), of",
            ],
        ),
        (
            CHUNKS | {"optimizer": "Adafactor", "steps_in_backward": True},
            [
                "Right: it fits with 1,575,157,760 bytes (1.47 GiB) to spare.",
                "It computes 24.1% more than the given step.",
                "The gradients are the same, except for the order of sums; the update is Adafactor's, not AdamW's.",
            ],
        ),
        (FITS, ["Right: it fits with 1,581,449,216 bytes", "the update is SGD's, not AdamW's."]),
        (FITS | {"loss": "chunks, recomputed"}, ["But it does 1.4% of its computing for nothing: loss='chunks, fu"]),
        (HOST, ["Right: it fits", "moves 16,060,522,496 bytes (15 GiB) to the host", "float32 copies in the host's"]),
        (KEPT_ON_HOST, ["Right: it fits", "It computes no more than the given step, and moves 68,061,602,560 bytes"]),
        (
            KEPT_ON_HOST | {"is_checkpointed": True},
            ["But it moves ", "bytes (3.1 GiB) to the host and back for nothing: offload='nothing' fits as well."],
        ),
        (CHUNKS | {"rank": 8}, ["Not yet: it fits", "it trains only the adapters' 20,971,520 parameters"]),
        (CHUNKS | {"offload": "optimizer"}, ["out in step 1 backward, 9,336,324,096 bytes", "gradients 13.7"]),
        (HOST | {"steps_in_backward": True}, ["raised ValueError: steps_in_backward and an offloaded optimizer"]),
        (FITS | {"optimizer": "Adam"}, ["the step raised ValueError: optimizer must be one of AdamW, fused; AdamW, f"]),
        (FITS | {"loss": 3}, ["loss must be a name: got 3."]),
        (FITS | {"rank": -1}, ["rank must be a whole number from 0 to 256: got -1."]),
        (FITS | {"rank": True}, ["rank must be a whole number from 0 to 256: got True."]),
        (FITS | {"steps_in_backward": 1}, ["steps_in_backward must be True or False: got 1."]),
        (FITS | {"s": 4096}, ["settings must be a dict of 'loss', 'is_checkpointed', 'optimizer', 'steps_in_backw"]),
        ("all of them", ["settings must be a dict of", "got 'all of them'."]),
        (None, ["No answer yet"]),
    ],
)  # fmt: skip
def test_a_reply(settings, replies):
    found = str(fits_on_24_gb(settings))
    for reply in replies:
        assert reply in found


def tiny(step, **changes):
    """The step's model, narrow, on the CPU, the same for every step; and a batch."""
    torch.manual_seed(0)
    sizes = {"vocabulary_size": 50, "context_length": 2048, "d_model": 16, "n_layers": 2, "n_heads": 4}
    model = step.model_on(torch.device("cpu"), dtype=torch.float64, n_kv_heads=2, d_mlp=24, **sizes | changes)
    return model, torch.randint(50, (1, 2048)), torch.randint(50, (1, 2048))


@pytest.mark.long
@pytest.mark.parametrize("settings", [FITS, HOST, KEPT_ON_HOST, FITS | {"loss": "chunks, recomputed"}])
def test_the_gradients_of_what_is_right_are_those_of_the_given_step(settings):
    expected, found = [], []
    for step, gradients in ((GIVEN, expected), (replace(GIVEN, **settings), found)):
        model, tokens, targets = tiny(step)
        model(tokens, targets)[-1].backward()
        gradients += [parameter.grad for parameter in model.parameters()]
    for one, other in zip(expected, found, strict=True):
        # both losses are in float32, in other orders of summation: some units in the last of 24 bits
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-7 * float(one.abs().max()) + 1e-9)


def test_adapters_have_other_gradients():
    model, *_ = tiny(replace(GIVEN, **CHUNKS | {"rank": 2}))
    assert any(not parameter.requires_grad for parameter in model.parameters())
