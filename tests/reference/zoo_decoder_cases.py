"""Training steps of small language models of transformers, without attention masks: two each, with labels."""

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
    "mistral": GROUPED | dict(sliding_window=24),
    "qwen2": GROUPED,
    "qwen3": GROUPED | dict(head_dim=16),
    "olmo": ALIKE,
    "olmo2": GROUPED,
    "gemma2": GROUPED | dict(head_dim=16, sliding_window=24),
    "gemma3_text": GROUPED | dict(head_dim=16, sliding_window=24, layer_types=["sliding_attention"] * 2),
    "phi3": GROUPED | dict(resid_pdrop=0.1),
    "falcon": dict(vocab_size=300, hidden_size=72, num_hidden_layers=2, num_attention_heads=6),
    "gpt2": dict(vocab_size=300, n_positions=128, n_embd=72, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2),
    "gpt_neox": ALIKE | dict(attention_dropout=0.1, hidden_dropout=0.1),
    "gptj": dict(
        vocab_size=300, n_positions=128, n_embd=96, n_layer=2, n_head=6, rotary_dim=8, bos_token_id=1, eos_token_id=2
    ),
    "opt": dict(
        vocab_size=300, hidden_size=72, ffn_dim=104, num_hidden_layers=2, num_attention_heads=6,
        max_position_embeddings=128, word_embed_proj_dim=40, pad_token_id=1,
    ),
    "bloom": dict(vocab_size=300, hidden_size=72, n_layer=2, n_head=6),
    "nemotron": GROUPED | dict(head_dim=12),
    "mamba": dict(vocab_size=300, hidden_size=72, state_size=8, num_hidden_layers=2),
    "rwkv": dict(vocab_size=300, hidden_size=72, attention_hidden_size=72, num_hidden_layers=2, context_length=64),
    "mixtral": GROUPED | dict(num_local_experts=4, output_router_logits=True),
    "qwen3_moe": GROUPED | dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=40),
    "olmoe": GROUPED | dict(num_experts=4, num_experts_per_tok=2),
    "gpt_oss": GROUPED | dict(head_dim=16, num_local_experts=4, sliding_window=24),
    "deepseek_v3": ALIKE | dict(
        moe_intermediate_size=40, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, v_head_dim=12,
        qk_nope_head_dim=12, num_key_value_heads=6, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
        first_k_dense_replace=1,
    ),
}  # fmt: skip


def case(name, attention="sdpa", *, experts="batched_mm", cards=("a100",), flagged=(), size=(2, 47), **options):
    """A case of one model; `flagged` are operations of which what a library takes for itself is not known."""

    def run(env):
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.for_model(name, **MODELS[name])
        config._experts_implementation = experts
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        x = zoo.tokens(*size)
        zoo.trained(env, model, {"input_ids": x, "labels": x}, **options)

    run.cudnn_sdp, run.cards, run.flagged = False, cards, flagged
    CASES[f"zoo_{name}" if experts == "batched_mm" else f"zoo_{name}_{experts}"] = run


HALF, BRAIN = torch.float16, torch.bfloat16
case("llama", cards=("a100", "t4", "h100"))
case("mistral", "eager", autocast=BRAIN)
case("qwen2", autocast=BRAIN, optimizer="AdamW fused")
case("qwen3", "eager", optimizer="SGD foreach")
case("olmo", autocast=HALF, cards=("a100", "t4"))
case("olmo2", optimizer="Adafactor")
case("gemma2", "eager", autocast=BRAIN)
case("gemma3_text", autocast=BRAIN)
case("phi3", "eager")
case("falcon", autocast=BRAIN, optimizer="SGD")
case("gpt2", "eager", autocast=HALF, cards=("a100", "t4"))
case("gpt_neox")
case("gptj", "eager", autocast=BRAIN, size=(3, 41))
case("opt", "eager")
case("bloom", "eager", autocast=BRAIN)
case("nemotron", autocast=BRAIN)
case("mamba", "eager", flagged=zoo.CONVOLUTIONS, size=(2, 21))
case("rwkv", "eager", size=(2, 13))
case("mixtral", cards=("a100", "h100"))
case("qwen3_moe", "eager", autocast=BRAIN)
case("qwen3_moe", experts="grouped_mm")
case("olmoe", optimizer="AdamW fused")
case("gpt_oss", "eager", autocast=BRAIN)
case("gpt_oss", "eager", experts="grouped_mm", autocast=BRAIN)
case("deepseek_v3", autocast=BRAIN, optimizer="AdamW foreach")
