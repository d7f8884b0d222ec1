"""The explorer of a GPT's training step: its controls, its prediction, and the account by the simulated GPU."""

from .explorers import Account, Control, Explorer
from .gpt_experiments import ATTENTIONS, MOMENTS, OPTIMIZERS, PRECISIONS, GPTStep, predicted
from .gpt_view import MANY_TOKENS, model_and_tokens, timeline_of
from .simulated.specs import SPECS


def controls() -> list[Control]:
    """One for each setting of `GPTStep`."""
    return [
        *model_and_tokens(),
        Control.choice("gpu", "GPU", list(SPECS)),
        Control.choice("precision", "precision", list(PRECISIONS)),
        Control.choice("attention", "attention", list(ATTENTIONS)),
        Control.choice("optimizer", "optimizer", list(OPTIMIZERS)),
        Control.choice("dropout", "dropout", {"off": 0.0, "p = 0.1": 0.1}),
        Control.toggle("accumulates", "micro-batches: gradients add up"),
        Control.toggle("keeps_logits", "keep logits until the next step", value=True),
    ]


def account(settings: dict) -> Account:
    """A training step on a simulated GPU of its own, as an explorer shows it."""
    run = GPTStep(**settings).run()
    return Account(
        run.account(),
        device=run.trace.gpu,
        note=run.step.spec.rules,
        timeline=timeline_of(run),
        fit=run.fit(),
    )


def gpt_explorer() -> Explorer:
    """Any of the four GPT-2s in training: predicted and accounted, a timeline, and whether it fits."""
    return Explorer(
        title="A GPT's training step",
        controls=controls(),
        formula=lambda settings: predicted(GPTStep(**settings).held),
        measure=account,
        capacity=("gpu", {name: spec.allocator_bytes for name, spec in SPECS.items()}),
        limits={list(MOMENTS)[-1]: MANY_TOKENS},
    )
