"""Which remedies can be applied to a script follows from what it was seen to do, and each other one has its reason."""

from dataclasses import replace

import pytest

from every_byte.advice.remedy import Left, Remedy
from every_byte.gpu.memory.specs import find_spec
from every_byte.trials import offers as module
from every_byte.trials import trainer
from every_byte.trials.offers import offers
from every_byte.trials.script import Script
from every_byte.trials.seen import Seen

A100, T4 = find_spec("a100-80gb"), find_spec("t4-16gb")
ADAMW = {"name": "AdamW", "class": "AdamW", "foreach": None, "fused": None, "amsgrad": False, "maximize": False}
WAY = {"name": "checkpoint, 4 regions", "lines": "a = 1", "note": "twice"}
PLAIN = Seen(model="Net", of_types=["float32"], ways=[WAY], optimizers=[ADAMW], most_backwards=1)
TOLD = {
    "class": "TrainingArguments", "bf16": False, "fp16": False, "gradient_checkpointing": False,
    "optim": "adamw_torch_fused", "per_device_train_batch_size": 8, "torch_compile": False,
}  # fmt: skip
OF_TRAINER = replace(PLAIN, trainer=TOLD)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """As if bitsandbytes were, or were not."""
    there = {"bitsandbytes"}
    for one in (module, trainer):
        monkeypatch.setattr(one, "find_module", lambda name: name if name in there else None)
    return there


def applied(seen: Seen, spec=A100, settings="") -> dict[str, Remedy[Script]]:
    return {one.name: one for one in offers(seen, spec, settings) if isinstance(one, Remedy)}


def left(seen: Seen, spec=A100, settings="") -> dict[str, str]:
    return {one.name: one.reason for one in offers(seen, spec, settings) if isinstance(one, Left)}


def test_what_costs_least_and_is_least_to_write_comes_first():
    assert list(applied(PLAIN)) == [
        "expandable segments", "autocast bfloat16", "AdamW, fused", "AdamW, loop", "AdamW, 8-bit",
        "AdamW, 8-bit, paged", "step in backward", "checkpoint, 4 regions", "saved tensors on the CPU", "torch.compile",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        ({"autocast": "float16"}, "autocast bfloat16", "there is autocast to float16 already"),
        ({"of_types": ["bfloat16"]}, "autocast bfloat16", "the weights are bfloat16: autocast is for float32"),
        ({"attention": "sdpa"}, "attention by SDPA", "the model's configuration says sdpa already"),
        ({"is_compiled": True}, "torch.compile", "the model is compiled already"),
        ({"is_compiled": True}, "checkpoint, 4 regions", "the model is compiled, which chooses what to keep by itself"),
        ({"clips": True}, "step in backward", "the gradients are clipped by the norm of all of them"),
        ({"scales": True}, "step in backward", "a GradScaler looks at all gradients before a step"),
        ({"most_backwards": 4}, "step in backward", "the gradients of 4 backwards are added up before a step"),
        ({"optimizers": []}, "step in backward", "the program makes no optimizer"),
        (
            {"optimizers": [ADAMW, ADAMW]},
            "another form of the optimizer",
            "the program makes 2 optimizers, and which one matters is not ours to guess",
        ),
        (
            {"optimizers": [ADAMW | {"name": "", "class": "Lion"}]},
            "another form of the optimizer",
            "Lion is none of PyTorch's own",
        ),
        ({"optimizers": [ADAMW | {"amsgrad": True}]}, "AdamW, 8-bit", "amsgrad is set, which it does not have"),
        ({"optimizers": [ADAMW | {"name": "SGD"}]}, "optimizer in 8 bits", "the program's SGD has no such form"),
        ({"ways": [{"name": "checkpoint", "reason": "none repeat"}]}, "checkpoint", "none repeat"),
        ({}, "gradients set to None", "no zero_grad() fills gradients with zeros"),
    ],
)
def test_what_cannot_be_applied_has_its_reason_and_is_not_run(change, name, reason):
    seen = replace(PLAIN, **change)
    assert left(seen)[name] == reason
    assert name not in applied(seen)


def test_a_script_that_trains_no_model_has_its_settings_alone():
    assert list(applied(Seen())) == ["expandable segments"]
    assert left(Seen()) == {"all others": "no model was trained: no module was called in training mode"}


def test_a_card_without_bfloat16_and_settings_that_are_there():
    said = left(PLAIN, T4, "expandable_segments:True")
    assert said["autocast bfloat16"].startswith("t4-16gb has no units for bfloat16")
    assert said["expandable segments"] == "the settings have them already: expandable_segments:True"


def test_eager_attention_and_zeros_can_be_changed():
    found = applied(replace(PLAIN, attention="eager", fills_with_zeros=True))
    assert found["attention by SDPA"].apply(Script(("a.py",))).lines == 'model.set_attn_implementation("sdpa")'
    assert found["gradients set to None"].apply(Script(())).step.changes == (("set to none", {}),)


def test_an_optimizer_that_is_fused_already_is_offered_in_its_other_forms():
    found = applied(replace(PLAIN, optimizers=[ADAMW | {"fused": True}]))
    assert "AdamW, fused" not in found
    assert found["AdamW, loop"].apply(Script(())).step.changes == (
        ("optimizer arguments", {"of": "AdamW", "foreach": False, "fused": None}),
    )


def test_without_bitsandbytes_it_says_how_to_get_it(installed):
    installed.clear()
    for seen in (PLAIN, OF_TRAINER):
        assert left(seen)["AdamW, 8-bit"] == "bitsandbytes is not installed: pip install bitsandbytes"


def test_what_waits_for_the_host_says_so():
    assert {name for name, one in applied(PLAIN).items() if one.waits} == {
        "AdamW, 8-bit, paged", "saved tensors on the CPU",
    }  # fmt: skip


def test_a_trainers_remedies_are_its_arguments():
    found = applied(OF_TRAINER)
    assert list(found) == [
        "expandable segments", "bf16=True", "optim=adamw_bnb_8bit", "optim=paged_adamw_8bit",
        "gradient_checkpointing=True", "torch_compile=True",
    ]  # fmt: skip
    changed = found["optim=adamw_bnb_8bit"].apply(Script(()))
    assert changed.lines == "TrainingArguments(..., optim='adamw_bnb_8bit')"
    assert changed.step.changes == (("trainer arguments", {"optim": "adamw_bnb_8bit"}),)
    all_set = TOLD | {"bf16": True, "gradient_checkpointing": True, "torch_compile": True, "optim": "adafactor"}
    assert list(applied(replace(PLAIN, trainer=all_set))) == ["expandable segments"]
    assert left(replace(PLAIN, trainer=all_set)) == {
        "bf16": "bf16=True is set already",
        "AdamW, 8-bit": "optim is 'adafactor', no AdamW of PyTorch's",
        "gradient_checkpointing": "it is set already",
        "step in backward": "the loop is the Trainer's own",
        "saved tensors on the CPU": "the loop is the Trainer's own",
        "torch_compile": "it is set already",
        "attention by SDPA": "only a Hugging Face model's configuration lets it be changed from outside",
    }


def test_what_compiles_goes_with_no_checkpoint():
    found = applied(PLAIN)
    assert not found["torch.compile"].goes_with((found["checkpoint, 4 regions"],))
    assert found["torch.compile"].goes_with((found["autocast bfloat16"],))
