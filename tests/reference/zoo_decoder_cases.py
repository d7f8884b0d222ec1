"""Training steps of small language models of transformers, each as its library makes it: two steps, with labels."""

from pathlib import Path

import torch

from every_byte.gpu.cases.programs import load_module

zoo = load_module(Path(__file__).with_name("zoo_steps.py"))

CASES = {}

ALIKE = dict(
    vocab_size=300, hidden_size=72, intermediate_size=104, num_hidden_layers=2, num_attention_heads=6,
    max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
GROUPED = ALIKE | dict(num_key_value_heads=2)
MODELS = {
    "llama": GROUPED,
    "mistral": GROUPED | dict(sliding_window=None),
    "qwen2": GROUPED,
    "qwen3": GROUPED | dict(head_dim=16),
    "olmo": ALIKE,
    "olmo2": GROUPED,
    "gemma2": GROUPED | dict(head_dim=16, sliding_window=24),
    "gemma3_text": GROUPED | dict(head_dim=16, sliding_window=24),
    "phi3": GROUPED,
    "phi": ALIKE,
    "falcon": dict(vocab_size=300, hidden_size=72, num_hidden_layers=2, num_attention_heads=6),
    "gpt2": dict(vocab_size=300, n_positions=128, n_embd=72, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2),
    "gpt_neox": ALIKE,
    "gptj": dict(vocab_size=300, n_positions=128, n_embd=96, n_layer=2, n_head=6, rotary_dim=8, bos_token_id=1, eos_token_id=2),
    "gpt_neo": dict(vocab_size=300, hidden_size=72, num_layers=2, num_heads=6, attention_types=[[["global", "local"], 1]], max_position_embeddings=128, window_size=24, bos_token_id=1, eos_token_id=2),
    "opt": dict(vocab_size=300, hidden_size=72, ffn_dim=104, num_hidden_layers=2, num_attention_heads=6, max_position_embeddings=128, word_embed_proj_dim=72, pad_token_id=1),
    "bloom": dict(vocab_size=300, hidden_size=72, n_layer=2, n_head=6),
    "mamba": dict(vocab_size=300, hidden_size=72, state_size=8, num_hidden_layers=2),
    "nemotron": GROUPED,
    "mixtral": GROUPED | dict(num_local_experts=4),
    "qwen3_moe": GROUPED | dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=40),
    "olmoe": GROUPED | dict(num_experts=4, num_experts_per_tok=2),
    "gpt_oss": GROUPED | dict(head_dim=16, num_local_experts=4, sliding_window=24),
    "deepseek_v3": ALIKE | dict(num_key_value_heads=6, moe_intermediate_size=40, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, v_head_dim=12, qk_nope_head_dim=12, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1),
}


def case(name, attention="sdpa", **options):
    def run(env):
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(name, **MODELS[name])
        config._experts_implementation = "batched_mm"
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        x = zoo.tokens(2, 47)
        zoo.trained(env, model, {"input_ids": x, "labels": x}, **options)

    run.cudnn_sdp, run.cards = False, ("a100",)
    CASES[f"{name}_{attention}"] = run


for name in MODELS:
    case(name)
    case(name, "eager", autocast=torch.bfloat16)
