"""The explorer of a GPT's training step: its controls, its prediction, and the account by the simulated GPU."""

from .explorers import Account, Control, Explorer, Limit, Timeline
from .gpt import SIZES, letters
from .gpt_experiments import ATTENTIONS, MOMENTS, OPTIMIZERS, PRECISIONS, GPTStep, predicted
from .simulated.specs import SPECS

_LETTERS = {name: {letter: letters(name)[letter] for letter in "dLaV"} for name in SIZES}


def controls() -> list[Control]:
    """One for each setting of `GPTStep`."""
    return [
        Control.choice("model", "model", list(SIZES), letters=_LETTERS),
        Control.range("b", "batch", 1, 128, value=12, log=True, unit="sequences"),
        Control.range("s", "sequence", 16, 16384, value=1024, log=True, unit="tokens"),
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
        note="PyTorch 2.13 rules",
        timeline=Timeline.of(
            run.trace,
            after=run.after,
            until=run.until,
            named=run.positions,
            capacity_bytes=run.step.spec.allocator_bytes,
        ),
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
        limits={
            list(MOMENTS)[-1]: Limit(
                "3072 - b*s", "for more than 3,072 tokens its kernel sorts them, in buffers of its own."
            )
        },
    )
