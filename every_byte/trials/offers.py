"""The remedies that can be applied to a program from outside, by what it was seen to do, and why the others cannot."""

from collections.abc import Iterator
from importlib.util import find_spec as find_module
from typing import Any, TypeAlias

from every_byte.advice import loop
from every_byte.advice.remedy import Changed, Left, Offer, Remedy
from every_byte.gpu.memory.specs import GPUSpec

from .optimizers import STEP_IN_BACKWARD
from .script import Script
from .seen import Seen

Offers: TypeAlias = Iterator[Offer[Script]]
_BFLOAT16_FROM = (8, 0)  # the compute capability with which units for it begin
_IN_BITS = {"AdamW": ("AdamW8bit", "PagedAdamW8bit"), "Adam": ("Adam8bit", "PagedAdam8bit")}
_AROUND = ":\n    ...  # the call of the model, and the loss"
_OF_HOST = "FLOPs do not count the way to the host and back, which a step waits for"


def offers(seen: Seen, spec: GPUSpec, settings: str) -> list[Offer[Script]]:
    """All that might be applied, in order of worth: what costs least and is least to write comes first."""
    of_settings: list[Offer[Script]] = loop.settings(settings)
    if not seen.model:
        return [*of_settings, Left("all others", "no model was trained: no module was called in training mode")]
    return [
        *of_settings, *_precision(seen, spec), *_attention(seen), *_optimizers(seen), *_in_backward(seen),
        *_checkpoints(seen), *_zero_grad(seen), *_offload(), *_compiled(seen),
    ]  # fmt: skip


def _remedy(name: str, kind: str, lines: str, *change: tuple[str, dict[str, Any]], **about: Any) -> Remedy[Script]:
    def apply(script: Script) -> Changed[Script]:
        for what, arguments in change:
            script = script.with_change(what, **arguments)
        return Changed(script, lines)

    return Remedy(name, kind, apply, **about)


def _precision(seen: Seen, spec: GPUSpec) -> Offers:
    name = "autocast bfloat16"
    if seen.autocast:
        yield Left(name, f"there is autocast to {seen.autocast} already")
    elif spec.capability < _BFLOAT16_FROM:
        yield Left(name, f"{spec.name} has no units for bfloat16, and float16 would need a GradScaler")
    elif seen.of_types != ["float32"]:
        yield Left(name, f"the weights are {' and '.join(seen.of_types)}: autocast is for float32")
    else:
        lines = f'with torch.autocast("cuda", torch.bfloat16){_AROUND}'
        note = "products in bfloat16, with 8 significant bits; weights, gradients and averages in float32"
        yield _remedy(name, "precision", lines, ("autocast", {"dtype": "bfloat16"}), note=note, keeps_values=False)


def _attention(seen: Seen) -> Offers:
    name = "attention by SDPA"
    if seen.attention == "eager":
        lines = 'model.set_attn_implementation("sdpa")'
        note = 'or from_pretrained(..., attn_implementation="sdpa"); attention weights are no longer returned'
        yield _remedy(name, "attention", lines, ("on the model", {"lines": lines}), note=note)
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
    return _remedy(f"{of}, {form}", "optimizer", lines, ("optimizer arguments", {"of": of, **arguments}), note=note)


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
        note = "averages of one byte a number, and so other steps"
        if paged:
            note += f"; they are in memory that the host shares. {_OF_HOST}"
        change = "optimizer class", {"of": made["name"], "by": f"bitsandbytes.optim.{by}"}
        full = f"{name}, paged" if paged else name
        yield _remedy(full, "optimizer", lines, change, note=note, keeps_values=False, waits=paged)


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
    yield _remedy(name, name, lines, ("step in backward", {}), note=note)


def _checkpoints(seen: Seen) -> Offers:
    for way in seen.ways:
        if "reason" in way:
            yield Left(way["name"], way["reason"])
        elif seen.is_compiled:
            yield Left(way["name"], "the model is compiled, which chooses what to keep by itself")
        else:
            change = "on the model", {"lines": way["lines"]}
            yield _remedy(way["name"], "regions", way["lines"], change, note=way["note"])


def _zero_grad(seen: Seen) -> Offers:
    name = "gradients set to None"
    if not seen.fills_with_zeros:
        yield Left(name, "no zero_grad() fills gradients with zeros")
        return
    lines = "optimizer.zero_grad()  # without set_to_none=False"
    yield _remedy(name, "zero_grad", lines, ("set to none", {}))


def _offload() -> Offers:
    lines = f"with torch.autograd.graph.save_on_cpu(pin_memory=True){_AROUND}"
    change = "saved on the CPU", dict[str, Any]()
    yield _remedy("saved tensors on the CPU", "offload", lines, change, note=_OF_HOST, waits=True)


def _compiled(seen: Seen) -> Offers:
    if seen.is_compiled:
        yield Left("torch.compile", "the model is compiled already")
        return
    lines = "model.compile()  # before it is called"
    note = "results differ in rounding; the first step takes minutes on a GPU"
    change = "on the model", {"lines": lines}
    yield _remedy("torch.compile", "compile", lines, change, note=note, excludes=frozenset({"regions"}))
