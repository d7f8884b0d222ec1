"""The remedies of a program whose loop is Hugging Face's Trainer: each is an argument of its TrainingArguments."""

from importlib.util import find_spec as find_module

from every_byte.advice import loop
from every_byte.advice.regions import COUNTED_TWICE
from every_byte.advice.remedy import Left, Remedy
from every_byte.gpu.memory.specs import GPUSpec

from .by_changes import EIGHT_BIT, OF_HOST, TO_BFLOAT16, Offers, remedy_by
from .script import Script
from .seen import Seen

_OWN_LOOP = "the loop is the Trainer's own"
_FEW_BITS = {"8-bit": "adamw_bnb_8bit", "8-bit, paged": "paged_adamw_8bit"}
_ADAMW = "adamw_torch"


def offers(seen: Seen, spec: GPUSpec) -> Offers:
    """Each argument that may save memory and is not set already."""
    told = seen.trainer
    if told["bf16"] or told["fp16"]:
        yield Left("bf16", f"{'bf16' if told['bf16'] else 'fp16'}=True is set already")
    elif spec.capability < loop.BFLOAT16_FROM:
        yield Left("bf16", f"{spec.name} has no units for bfloat16; fp16=True is another choice")
    else:
        yield _argument(seen, "precision", bf16=True, note=TO_BFLOAT16, keeps_values=False)
    yield from _optimizers(seen)
    if told["gradient_checkpointing"]:
        yield Left("gradient_checkpointing", "it is set already")
    else:
        note = COUNTED_TWICE if any(way.get("note") for way in seen.ways) else ""
        yield _argument(seen, "regions", gradient_checkpointing=True, note=note)
    for name in ("step in backward", "saved tensors on the CPU"):
        yield Left(name, _OWN_LOOP)
    if told["torch_compile"]:
        yield Left("torch_compile", "it is set already")
    else:
        yield _argument(seen, "compile", torch_compile=True, note="results differ in rounding", keeps_values=False)


def _optimizers(seen: Seen) -> Offers:
    now = seen.trainer["optim"]
    if not now.startswith(_ADAMW):
        yield Left("AdamW, 8-bit", f"optim is {now!r}, no AdamW of PyTorch's")
    elif find_module("bitsandbytes") is None:
        yield Left("AdamW, 8-bit", "bitsandbytes is not installed: pip install bitsandbytes")
    else:
        for name, optim in _FEW_BITS.items():
            note = f"{EIGHT_BIT}. {OF_HOST}" if "paged" in name else EIGHT_BIT
            yield _argument(seen, "optimizer", optim=optim, note=note, keeps_values=False, waits="paged" in name)


def _argument(
    seen: Seen, kind: str, *, note: str = "", keeps_values: bool = True, waits: bool = False, **argument: bool | str
) -> Remedy[Script]:
    ((name, value),) = argument.items()
    lines = f"{seen.trainer['class']}(..., {name}={value!r})"
    excludes = frozenset({"regions"}) if kind == "compile" else frozenset()
    return remedy_by(
        f"{name}={value}", kind, lines, ("trainer arguments", argument), note=note, keeps_values=keeps_values,
        waits=waits, excludes=excludes,
    )  # fmt: skip
