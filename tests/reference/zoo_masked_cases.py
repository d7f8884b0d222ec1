"""Training steps of small models of transformers with attention masks: whether one is full decides what is computed.

The library looks at the masks' values on the card. Where these cases were recorded nothing is computed: `answers` says
what a card answers to each such question, as follows from the masks and positions, and as PyTorch on the CPU answers.
"""

from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

zoo = load_module(Path(__file__).with_name("zoo_steps.py"))
decoders = load_module(Path(__file__).with_name("zoo_decoder_cases.py"))
encoders = load_module(Path(__file__).with_name("zoo_encoder_cases.py"))

CASES = {}
ASKED_TWICE = (False, False)  # whether a mask is full; then, whether it is but for places that are still to come


def mask(b: int, s: int, padding: int, left: bool = False) -> torch.Tensor:
    """Ones, and zeros for the padding of the last row."""
    ones = torch.ones(b, s, dtype=torch.long)
    if padding:
        ones[-1, slice(None, padding) if left else slice(-padding, None)] = 0
    return ones


def case(name, model, inputs, answers=(), **options):
    def run(env):
        zoo.trained(env, model(), inputs(), answers=answers, **options)

    run.cudnn_sdp, run.cards = False, ("a100",)
    CASES[f"zoo_masked_{name}"] = run


def decoder(name, attention="sdpa", auto="AutoModelForCausalLM", **settings):
    def model():
        import transformers

        config = transformers.AutoConfig.for_model(name, **decoders.MODELS[name] | settings)
        config._experts_implementation = "batched_mm"
        return getattr(transformers, auto).from_config(config, attn_implementation=attention)

    return model


def encoder(name, attention="sdpa"):
    def model():
        import transformers

        kind, config, settings, _ = encoders.MODELS[name]
        config = transformers.AutoConfig.for_model(config, **settings)
        config._attn_implementation = attention
        return getattr(transformers, kind)(config)

    return model


def text(padding=0, left=False, **more):
    def inputs():
        x = zoo.tokens(3, 43)
        keep = mask(3, 43, padding, left)
        return {"input_ids": x, "attention_mask": keep, "labels": x.masked_fill(keep == 0, -100), **more}

    return inputs


def of_encoder(name, padding=0):
    """An encoder's inputs with a mask, whose labels stay."""

    def inputs():
        inputs = encoders.MODELS[name][3]()
        return inputs | {"attention_mask": mask(*inputs["input_ids"].shape, padding)}

    return inputs


def positions(packed: bool):
    """Positions that say where each of the sequences in a row begins: one in each, or several."""

    def inputs():
        x = zoo.tokens(2, 43)
        row = torch.cat((torch.arange(17), torch.arange(26))) if packed else torch.arange(43)
        return {"input_ids": x, "labels": x, "position_ids": row.expand(2, 43).contiguous(), "use_cache": False}

    return inputs


def one_class(padding):
    def inputs():
        x = zoo.tokens(3, 43)
        keep = mask(3, 43, padding)
        return {"input_ids": x * keep, "attention_mask": keep, "labels": torch.tensor([0, 1, 1])}

    return inputs


HALF, BRAIN = torch.float16, torch.bfloat16
case("full_llama", decoder("llama"), text(), answers=(True,))
case("padded_llama", decoder("llama"), text(9), answers=ASKED_TWICE, autocast=BRAIN)
case("left_padded_qwen3", decoder("qwen3"), text(9, left=True), answers=ASKED_TWICE)
case("padded_eager_llama", decoder("llama", "eager"), text(9), autocast=BRAIN)
case("padded_mistral", decoder("mistral"), text(5))
case("full_mixtral", decoder("mixtral"), text(), answers=(True,), autocast=BRAIN)
case("padded_gpt2", decoder("gpt2"), text(7), answers=ASKED_TWICE, autocast=HALF)
case("padded_bloom", decoder("bloom", "eager"), text(7))
case("padded_opt", decoder("opt"), text(7), answers=ASKED_TWICE)
# without a cache of keys, it looks whether the positions are of one sequence in each row
case("positions_llama", decoder("llama"), positions(packed=False), answers=(True,))
case("packed_llama", decoder("llama"), positions(packed=True), answers=(False,), autocast=BRAIN)
case(
    "classifying_llama",
    decoder("llama", auto="AutoModelForSequenceClassification"),
    one_class(6),
    answers=ASKED_TWICE,
)
case("full_bert", encoder("bert"), of_encoder("bert"), answers=(True,), autocast=BRAIN)
case("padded_bert", encoder("bert"), of_encoder("bert", 11), answers=(False,))
case("padded_eager_roberta", encoder("roberta", "eager"), of_encoder("roberta", 11), answers=(False,), autocast=BRAIN)
case("padded_deberta_v2", encoder("deberta_v2", "eager"), of_encoder("deberta_v2", 11))
case("padded_layoutlm", encoder("layoutlm"), of_encoder("layoutlm", 4))
case("full_t5", encoder("t5"), of_encoder("t5"), answers=(True,))
case("padded_t5", encoder("t5"), of_encoder("t5", 11), answers=(False,), autocast=BRAIN)
case("bart", encoder("bart"), encoders.translated, answers=(True,))
case("padded_bart", encoder("bart"), of_encoder("bart", 11), answers=(False, True, False), autocast=BRAIN)
