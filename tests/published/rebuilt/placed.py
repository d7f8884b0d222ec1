"""Models of Hugging Face's transformers, brought to the card as its Trainer does: what their weights and buffers take.

The Trainer of 2021 reports it, to the byte, as `init_mem_gpu_alloc_delta`. It is more than the sum of all sizes: a
block of a large segment is not split where no more than 1 MiB would be left of it.
"""

import torch
import transformers
from torch import nn

OF_BART = dict(
    activation_function="gelu", decoder_start_token_id=2, forced_eos_token_id=2, scale_embedding=False, vocab_size=50265
)
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
CONFIGS = {
    "bert-tiny": ("Bert", dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512)),
    "bert-medium": ("Bert", dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048)),
    "bert-base-chinese": ("Bert", dict(vocab_size=21128)),
    "minilm-l6": ("Bert", dict(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)),
    "bert-large": ("Bert", LARGE),
    "distilbert": ("DistilBert", {}),
    "roberta-base": ("Roberta", dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)),
    "roberta-large": ("Roberta", dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, **LARGE)),
    "xlm-roberta-base": ("XLMRoberta", dict(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1)),
    "electra-base": (
        "Electra",
        dict(embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    ),
    "albert-base": ("Albert", dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072)),
    "albert-large": ("Albert", dict(hidden_size=1024, num_attention_heads=16, intermediate_size=4096)),
    "gpt2": ("GPT2", {}),
    "gpt2-medium": ("GPT2", dict(n_embd=1024, n_layer=24, n_head=16)),
    "distilgpt2": ("GPT2", dict(n_layer=6)),
    "t5-small": ("T5", {}),
    "t5-large": ("T5", dict(d_model=1024, d_ff=4096, num_layers=24, num_heads=16)),
    "bart-base": (
        "Bart",
        dict(OF_BART, d_model=768, encoder_layers=6, decoder_layers=6, encoder_ffn_dim=3072, decoder_ffn_dim=3072),
    ),
    "bart-large": ("Bart", OF_BART),
    "bart-large-cnn": ("Bart", dict(OF_BART, vocab_size=50264)),
    "distilbart-12-6": ("Bart", dict(OF_BART, vocab_size=50264, decoder_layers=6)),
    "mbart-large-50": ("MBart", dict(vocab_size=250054, scale_embedding=True)),
}
"""The pretrained models by their class and what differs from its configuration's defaults."""


def placed(gpu, model: str, head: str, labels: int = 2) -> int:
    """What a model with a head takes on an empty card, when it has been brought there."""
    kind, settings = CONFIGS[model]
    config = getattr(transformers, f"{kind}Config")(**settings, num_labels=labels)
    with torch.device("meta"):
        made = getattr(transformers, f"{kind}{head}")(config)
        _as_in_2021(made, kind)
    made = made.to_empty(device="cpu")
    made.tie_weights()
    gpu.empty_cache()
    before = gpu.memory_allocated()
    made = made.to(gpu.device)
    return gpu.memory_allocated() - before


def _as_in_2021(model: nn.Module, kind: str) -> None:
    """Take away the buffers that a model had not then, and add those that it has no more."""
    for name, module in model.named_modules():
        module._buffers.pop("token_type_ids", None)
        if kind == "DistilBert":
            module._buffers.pop("position_ids", None)
        if kind == "GPT2" and name.endswith(".attn"):
            n = model.config.n_positions
            module.register_buffer("bias", torch.ones(1, 1, n, n, dtype=torch.uint8))
            module.register_buffer("masked_bias", torch.tensor(-1e4))
