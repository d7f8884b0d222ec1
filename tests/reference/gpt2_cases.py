"""GPT-2 without autocast, in float32 and in pure bfloat16: checkpoints, accumulation, dropout, explicit attention."""

from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

reference = load_module(Path(__file__).with_name("cases.py"))

CASES = {}
WEIGHTS = {"fp32": torch.float32, "pure_bf16": torch.bfloat16}
VARIANTS = {  # name: (parts of Config, arguments of train)
    "checkpoint": ({"recompute": "checkpoint"}, {}),
    "checkpoint_dropout": ({"recompute": "checkpoint", "dropout": 0.1}, {}),
    "accumulate4": ({}, {"micro_batches": 4}),
    "accumulate4_checkpoint": ({"recompute": "checkpoint"}, {"micro_batches": 4, "set_to_none": False}),
    "explicit_dropout": ({"attention": "explicit", "dropout": 0.1, "bias": True}, {"drop_logits": True}),
    "foreach": ({}, {"optimizer": "foreach"}),
}
CARDS = {"tiny": ("a100", "h100"), "small": ("a100", "h100")}


def gpt2(size, variant, weights):
    config, arguments = VARIANTS[variant]
    shape = reference.Config(**{**reference.SIZES[size], **config})
    return lambda env: reference.train(env, shape, weights=weights, **arguments)


for size, cards in CARDS.items():
    for variant in VARIANTS:
        for name, weights in WEIGHTS.items():
            case = gpt2(size, variant, weights)
            case.cudnn_sdp, case.cards, case.events = False, cards, cards if size == "tiny" else ()
            CASES[f"gpt2_{size}_{variant}_{name}"] = case
