"""A Llama's step with each remedy for a run that does not fit: of 8B on one GPU, small, and with several, drawn."""

import random
from types import SimpleNamespace

from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, OPTIMIZERS, PRECISIONS

CASES = {}
SEED, N_DRAWN = 921, 16
REMEDIES = {
    "none": {},
    "foreach": {"optimizer": "AdamW, foreach"},
    "checkpoint": {"is_checkpointed": True},
    "chunks_recomputed": {"loss": "chunks, recomputed"},
    "chunks_fused": {"loss": "chunks, fused"},
    "steps_in_backward": {"steps_in_backward": True},
    "8bit": {"optimizer": "AdamW, 8-bit"},
    "8bit_in_backward": {"optimizer": "AdamW, 8-bit", "steps_in_backward": True},
    "adafactor": {"optimizer": "Adafactor"},
    "adafactor_in_backward": {"optimizer": "Adafactor", "steps_in_backward": True},
    "adapters": {"rank": 8},
    "adapters_checkpoint": {"rank": 8, "is_checkpointed": True},
    "autocast": {"precision": "autocast"},
    "float32_masters": {"precision": "float32 masters"},
    "two_micro_batches": {"micro_batches": 2},
    "keeps_logits": {"keeps_logits": True},
    "fills_with_zeros": {"sets_to_none": False},
}
ON_THE_HOST = {
    "activations_offloaded": {"offload": "activations"},
    "optimizer_offloaded": {"offload": "optimizer"},
    "gradients_offloaded": {"offload": "optimizer, gradients"},
}
"""What brings so many bytes to the host, whose memory is real where these are recorded, that a small model must do."""
SMALL = {
    "vocabulary_size": 5_001, "d_model": 96, "n_layers": 2, "n_heads": 6, "n_kv_heads": 2, "d_mlp": 264,
}  # fmt: skip
ROOMY_BYTES = 1 << 40  # a card on which all of them fit: how much there is changes nothing else
SMALL_BATCH = {"b": 3, "s": 701}  # of chunks of 1,024 rows, the third is not whole


def train(env, step, **changes):
    """The step's own program, on what the case is given."""
    gpu = SimpleNamespace(
        name=env.gpu.name,
        origin=env.gpu.origin,
        device=env.device,
        autocast=env.autocast,
        reset_peak_memory_stats=env.gpu.reset_peak_memory_stats,
        memory_stats=env.gpu.memory_stats,
    )
    step.train(gpu, at_mark=env.mark, **changes)


def draw(rng):
    """A small Llama's sizes, and a step with remedies that can be together."""
    while True:
        g = rng.choice([1, 2, 3])
        heads = g * rng.choice([1, 2, 4])
        sizes = {
            "vocabulary_size": rng.choice([500, 5_001, 32_000]),
            "d_model": heads * rng.choice([16, 24, 64]),
            "n_layers": rng.randint(1, 3),
            "n_heads": heads,
            "n_kv_heads": g,
            "d_mlp": rng.choice([8, 1]) * rng.randint(20, 100),
            "is_tied": rng.random() < 0.3,
        }
        settings = {
            "b": rng.randint(1, 4),
            "s": rng.randint(2, 700),
            "precision": rng.choice(PRECISIONS),
            "loss": rng.choice(list(LOSSES)),
            "is_checkpointed": rng.random() < 0.5,
            "optimizer": rng.choice(list(OPTIMIZERS)),
            "steps_in_backward": rng.random() < 0.3,
            "micro_batches": rng.choice([1, 1, 2]),
            "sets_to_none": rng.random() < 0.7,
            "keeps_logits": rng.random() < 0.5,
            "rank": rng.choice([0, 0, 3, 8]),
            "offload": rng.choice(["nothing", *OFFLOADS]),
        }
        try:
            return sizes, LlamaStep(**settings)
        except ValueError:  # they exclude each other: another draw
            continue


def drawn(env, seed):
    """One of them."""
    sizes, step = draw(random.Random(seed))
    train(env, step, **sizes)


def enter(cases, name, case, **about):
    """Put a case among others."""
    case.cudnn_sdp, case.cards = False, ("a100", "h100")
    for key, value in about.items():
        setattr(case, key, value)
    cases[name] = case


for remedy, settings in REMEDIES.items():
    step = LlamaStep(**settings)
    events = () if "8bit" in remedy else ("a100",)  # those would be many
    enter(
        CASES, f"remedy_8b_{remedy}", lambda env, step=step: train(env, step), events=events, memory_bytes=ROOMY_BYTES
    )
for remedy, settings in (REMEDIES | ON_THE_HOST).items():
    step = LlamaStep(**SMALL_BATCH | settings)
    enter(CASES, f"remedy_small_{remedy}", lambda env, step=step: train(env, step, **SMALL))
for number in range(N_DRAWN):
    enter(CASES, f"remedy_drawn_{number}", lambda env, seed=SEED + number: drawn(env, seed))
