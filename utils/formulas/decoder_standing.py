"""What a GPU holds in every phase of a decoder's training step, and the rows in which forms speak of a ledger."""

from every_byte.formula.formula import Selector, Term

from .decoder_counts import parameter_count, state_size, trained_count, values_size
from .decoder_settings import HALF, MASTERS, WHOLE, DecoderSettings
from .families import family_of


def rows_of(category: str) -> tuple[Selector, ...]:
    """All rows of a category."""
    return (Selector("*", category, "*"),)


def standing(settings: DecoderSettings) -> list[Term]:
    """What is there in every phase."""
    family, count, each = family_of(settings), parameter_count(settings), settings.weight_bytes
    adapters = f" + L*{family.adapter_weights}" if settings.is_adapted else ""
    masters = f" + 4*({trained_count(settings)})" if has_masters(settings) else ""
    terms = [
        Term("parameters", f"{each}*({count}{adapters}){masters}", 1, rows_of("parameters"), "the model"),
    ]
    if family.tables:
        terms.append(Term("rotary tables", family.tables, 4, rows_of("buffers"), "cosines and sines, in float32"))
    if settings.holds_gradients:
        terms.append(gradients(trained_count(settings), settings, "of the step or the micro-batch before"))
    kept = {
        "optimizer state": (state_size(settings), "averages of each gradient"),
        "other tensors": (values_size(settings), "the 256 values that a byte of an average may stand for"),
    }
    terms += [Term(name, size, 1, rows_of(name), why) for name, (size, why) in kept.items() if size != "0"]
    return [
        *terms,
        Term("inputs", "2*b*s", 8, rows_of("inputs"), "tokens and targets, int64"),
        Term("cuBLAS workspaces", "2", settings.workspace_bytes, rows_of("cuBLAS workspace"), "forward and backward"),
    ]


def has_masters(settings: DecoderSettings) -> bool:
    """Whether float32 copies of what is trained lie on the GPU."""
    return settings.precision == MASTERS and not settings.offload.startswith("optimizer")


def gradients(count: str, settings: DecoderSettings, why: str) -> Term:
    """Those that stay until the step."""
    return Term("gradients", count, settings.weight_bytes, rows_of("gradients"), why)


def outputs(settings: DecoderSettings) -> list[Term]:
    """What the program has names for when forward has ended."""
    has_logits = settings.holds_logits and not settings.takes_chunks
    size = f"{settings.element_bytes}*b*s*V + " if has_logits else ""
    name = "logits and loss" if size else "loss"
    return [Term(name, f"{size}{loss_bytes(settings)}", 1, rows_of("outputs"), "the program has names for it")]


def loss_bytes(settings: DecoderSettings) -> int:
    """Of the loss, a number: float32 unless it is made of logits in half precision."""
    return 2 if settings.loss == HALF and settings.weight_bytes == 2 else 4


def on_their_way(size: str, why: str) -> Term:
    """What is there for a moment, in bytes."""
    return Term("gradients on their way" if "gradient" in why else "on the way", size, 1, rows_of("temporaries"), why)


def is_whole(settings: DecoderSettings) -> bool:
    """Whether all logits are there at once."""
    return settings.loss in (WHOLE, HALF)
