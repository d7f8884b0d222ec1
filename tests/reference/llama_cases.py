"""The book's Llama, trained for two steps: sixteen drawn at random, and Llama 3 8B in pure bfloat16 on one GPU."""

import random

import torch

from every_byte.remedies.losses import half_logits, whole_logits
from utils.models.llama import Llama
from utils.models.regions import library_checkpoint

CASES = {}
SEED, N_DRAWN = 800, 16
PRECISIONS = ("bfloat16", "autocast", "float32")


def train(env, model, precision, optimizer, batch, *, keeps_logits, set_to_none):
    """Two steps with AdamW."""
    updates = torch.optim.AdamW(model.parameters(), **{optimizer: True})
    env.mark("model")
    V = model.head.out_features
    logits = None
    for step in (1, 2):
        tokens, targets = (torch.randint(V, batch, device=env.device) for _ in range(2))
        if precision == "autocast":
            with env.autocast(torch.bfloat16):
                logits, loss = model(tokens, targets)
        else:
            logits, loss = model(tokens, targets)
        if not keeps_logits:
            del logits
        env.mark(f"step {step} forward")
        loss.backward()
        env.mark(f"step {step} backward")
        updates.step()
        env.mark(f"step {step} step")
        updates.zero_grad(set_to_none=set_to_none)
        env.mark(f"step {step} zero_grad")


def draw(rng):
    """A Llama's settings, and how it is trained."""
    g = rng.choice([1, 2, 4])
    heads = g * rng.choice([1, 2, 4])
    s, precision = rng.randint(2, 256), rng.choice(PRECISIONS)
    return {
        "sizes": {
            "vocabulary_size": rng.choice([500, 5_001, 32_000]),
            "context_length": s,
            "d_model": heads * rng.choice([16, 32, 64, 128]),
            "n_layers": rng.randint(1, 3),
            "n_heads": heads,
            "n_kv_heads": g,
            "d_mlp": 8 * rng.randint(2, 100),
            "kind": rng.choice(["sdpa", "sdpa", "explicit"]),
            "is_tied": rng.random() < 0.4,
            "loss": rng.choice([whole_logits, half_logits]),
            **({"run": library_checkpoint} if rng.random() < 0.5 else {}),
        },
        "precision": precision,
        "dtype": torch.bfloat16 if precision == "bfloat16" else torch.float32,
        "optimizer": rng.choice(["fused", "foreach"]),
        "batch": (rng.randint(1, 4), s),
        "how": {"keeps_logits": rng.random() < 0.5, "set_to_none": rng.random() < 0.7},
    }


def drawn(env, seed):
    """One of them."""
    one = draw(random.Random(seed))
    model = Llama(**one["sizes"], device=env.device, dtype=one["dtype"])
    train(env, model, one["precision"], one["optimizer"], one["batch"], **one["how"])


def llama3_8b(env, s, optimizer="fused", **settings):
    """All of its 8,030,261,248 parameters; one sequence of s tokens."""
    model = Llama.from_name("llama-3-8b", context_length=s, device=env.device, dtype=torch.bfloat16, **settings)
    train(env, model, "bfloat16", optimizer, (1, s), keeps_logits=False, set_to_none=True)


def add(name, case, **about):
    """Enter a case."""
    case.cudnn_sdp, case.cards = False, ("a100", "h100")
    for key, value in about.items():
        setattr(case, key, value)
    CASES[name] = case


for number in range(N_DRAWN):
    add(f"llama_{number}", lambda env, seed=SEED + number: drawn(env, seed))
add("llama3_8b_2048", lambda env: llama3_8b(env, 2048))
add("llama3_8b_2048_half_loss", lambda env: llama3_8b(env, 2048, loss=half_logits))
add("llama3_8b_8192_checkpoint", lambda env: llama3_8b(env, 8192, run=library_checkpoint))
