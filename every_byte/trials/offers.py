"""The remedies that can be applied to a program from outside, by what it was seen to do, and why the others cannot."""

from importlib.util import find_spec as find_module
from typing import Any

from every_byte.advice import loop
from every_byte.advice.remedy import Left, Offer, Remedy
from every_byte.gpu.memory.specs import GPUSpec

from . import trainer
from .by_changes import EIGHT_BIT, OF_HOST, TO_BFLOAT16, Offers, remedy_by
from .optimizers import STEP_IN_BACKWARD
from .script import Script
from .seen import Seen

_IN_BITS = {"AdamW": ("AdamW8bit", "PagedAdamW8bit"), "Adam": ("Adam8bit", "PagedAdam8bit")}
_AROUND = ":\n    ...  # the call of the model, and the loss"


def offers(seen: Seen, spec: GPUSpec, settings: str) -> list[Offer[Script]]:
    """All that might be applied, in order of worth: what costs least and is least to write comes first."""
    of_settings: list[Offer[Script]] = loop.settings(settings)
    if not seen.model:
        return [*of_settings, Left("all others", "no model was trained: no module was called in training mode")]
    if seen.trainer:
        return [*of_settings, *trainer.offers(seen, spec), *_attention(seen)]
    return [
        *of_settings, *_precision(seen, spec), *_attention(seen), *_optimizers(seen), *_in_backward(seen),
        *_checkpoints(seen), *_zero_grad(seen), *_offload(), *_compiled(seen),
    ]  # fmt: skip


def _precision(seen: Seen, spec: GPUSpec) -> Offers:
    name = "autocast bfloat16"
    if seen.autocast:
        yield Left(name, f"there is autocast to {seen.autocast} already")
    elif spec.capability < loop.BFLOAT16_FROM:
        yield Left(name, f"{spec.name} has no units for bfloat16, and float16 would need a GradScaler")
    elif seen.of_types != ["float32"]:
        yield Left(name, f"the weights are {' and '.join(seen.of_types)}: autocast is for float32")
    else:
        lines = f'with torch.autocast("cuda", torch.bfloat16){_AROUND}'
        yield remedy_by(
            name, "precision", lines, ("autocast", {"dtype": "bfloat16"}), note=TO_BFLOAT16, keeps_values=False
        )


def _attention(seen: Seen) -> Offers:
    name = "attention by SDPA"
    if seen.attention == "eager":
        lines = 'model.set_attn_implementation("sdpa")'
        note = 'or from_pretrained(..., attn_implementation="sdpa"); attention weights are no longer returned'
        yield remedy_by(name, "attention", lines, ("on the model", {"lines": lines}), note=note)
    elif seen.attention:
        yield Left(name, f"the model's configuration says {seen.attention} already")
    else:
        yield Left(name, "only a Hugging Face model's configuration lets it be changed from outside")


def _optimizers(seen: Seen) -> Offers:
    forms = "another form of the optimizer"
    if len(seen.optimizers) != 1:
        n = len(seen.optimizers) or "no"
        yield Left(forms, f"the program makes {n} optimizers, and which one matters is not ours to guess")
        return
    (made,) = seen.optimizers
    if not made["name"]:
        yield Left(forms, f"{made['class']} is none of PyTorch's own")
        return
    name = made["name"]
    if made["fused"] is not None and not made["fused"]:
        made["fused"] = None
    if not made["fused"] and name in ("AdamW", "Adam", "SGD", "Adagrad"):
        yield _form(name, "fused", fused=True, foreach=None)
    if made["foreach"] is not False or made["fused"]:
        yield _form(name, "loop", foreach=False, fused=None)
    yield from _in_few_bits(made)


def _form(of: str, form: str, **arguments: bool | None) -> Remedy[Script]:
    given = ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)
    lines = f"optimizer = torch.optim.{of}(..., {given})  # the other arguments as they are"
    note = {"loop": "one parameter after the other: many more kernels to launch", "fused": ""}[form]
    return remedy_by(f"{of}, {form}", "optimizer", lines, ("optimizer arguments", {"of": of, **arguments}), note=note)


def _in_few_bits(made: dict[str, Any]) -> Offers:
    name = f"{made['name']}, 8-bit"
    if made["name"] not in _IN_BITS:
        yield Left("optimizer in 8 bits", f"the program's {made['name']} has no such form")
        return
    if set_here := [key for key in ("amsgrad", "maximize") if made[key]]:
        yield Left(name, f"{set_here[0]} is set, which it does not have")
        return
    if find_module("bitsandbytes") is None:
        yield Left(name, "bitsandbytes is not installed: pip install bitsandbytes")
        return
    for by in _IN_BITS[made["name"]]:
        paged = by.startswith("Paged")
        lines = f"optimizer = bitsandbytes.optim.{by}(...)  # parameters, lr, betas, eps, weight_decay as they are"
        note = EIGHT_BIT
        if paged:
            note += f"; they are in memory that the host shares. {OF_HOST}"
        change = "optimizer class", {"of": made["name"], "by": f"bitsandbytes.optim.{by}"}
        full = f"{name}, paged" if paged else name
        yield remedy_by(full, "optimizer", lines, change, note=note, keeps_values=False, waits=paged)


def _in_backward(seen: Seen) -> Offers:
    name = "step in backward"
    reasons = {
        "the program makes no optimizer": not seen.optimizers,
        f"the gradients of {seen.most_backwards} backwards are added up before a step": seen.most_backwards > 1,
        "the gradients are clipped by the norm of all of them": seen.clips,
        "a GradScaler looks at all gradients before a step": seen.scales,
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        yield Left(name, found[0])
        return
    lines = f"# after the line that makes the optimizer\n{STEP_IN_BACKWARD}# optimizer.step() finds no gradient then"
    note = "no clipping by the norm of all gradients, no accumulation, no GradScaler"
    yield remedy_by(name, name, lines, ("step in backward", {}), note=note)


def _checkpoints(seen: Seen) -> Offers:
    for way in seen.ways:
        if "reason" in way:
            yield Left(way["name"], way["reason"])
        elif seen.is_compiled:
            yield Left(way["name"], "the model is compiled, which chooses what to keep by itself")
        else:
            change = "on the model", {"lines": way["lines"]}
            yield remedy_by(way["name"], "regions", way["lines"], change, note=way["note"])


def _zero_grad(seen: Seen) -> Offers:
    name = "gradients set to None"
    if not seen.fills_with_zeros:
        yield Left(name, "no zero_grad() fills gradients with zeros")
        return
    lines = "optimizer.zero_grad()  # without set_to_none=False"
    yield remedy_by(name, "zero_grad", lines, ("set to none", {}))


def _offload() -> Offers:
    lines = f"with torch.autograd.graph.save_on_cpu(pin_memory=True){_AROUND}"
    change = "saved on the CPU", dict[str, Any]()
    yield remedy_by("saved tensors on the CPU", "offload", lines, change, note=OF_HOST, waits=True)


def _compiled(seen: Seen) -> Offers:
    if seen.is_compiled:
        yield Left("torch.compile", "the model is compiled already")
        return
    lines = "model.compile()  # before it is called"
    note = "results differ in rounding; the first step takes minutes on a GPU"
    change = "on the model", {"lines": lines}
    yield remedy_by(
        "torch.compile", "compile", lines, change, note=note, excludes=frozenset({"regions"}), keeps_values=False
    )
