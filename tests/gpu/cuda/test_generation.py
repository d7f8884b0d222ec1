"""Generation by transformers: each sequence is as long as it may be, and its cache counts."""

import pytest
import torch

from utils import SimulatedGPU

LAYERS, KV_HEADS, HEAD, BATCH, PROMPT, NEW = 2, 2, 64, 3, 20, 12


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sampled", [False, True])
def test_no_sequence_ends_before_its_time(sampled):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=2000, hidden_size=256, intermediate_size=512, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=KV_HEADS, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    tokens = torch.arange(BATCH * PROMPT).view(BATCH, PROMPT) + 3
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
        out = model.generate(
            tokens.cuda(), attention_mask=torch.ones_like(tokens).cuda(), max_new_tokens=NEW, do_sample=sampled,
            return_dict_in_generate=True,
        )  # fmt: skip
        assert out.sequences.shape == (BATCH, PROMPT + NEW)
        cache = sum(layer.keys.nbytes + layer.values.nbytes for layer in out.past_key_values.layers)
        assert cache == 2 * LAYERS * BATCH * (PROMPT + NEW - 1) * KV_HEADS * HEAD * 2
        assert any(name.startswith("no end of sequence") for name in gpu.trace.notes.assumed)
