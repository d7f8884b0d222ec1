"""A GPT-2's step with each remedy for a run that does not fit: of its width with two blocks, and small, on the host."""

from pathlib import Path

from every_byte.gpu.cases.programs import load_module
from utils.experiments.gpt_remedy_step import GPTRemedyStep

of_llamas = load_module(Path(__file__).with_name("remedy_cases.py"))

CASES = {}
REMEDIES = {
    "none": {},
    "logits_in_half": {"loss": "all logits, bfloat16"},
    "chunks_recomputed": {"loss": "chunks, recomputed"},
    "chunks_fused": {"loss": "chunks, fused"},
    "checkpoint": {"is_checkpointed": True},
    "8bit": {"optimizer": "AdamW, 8-bit"},
    "steps_in_backward": {"steps_in_backward": True},
    "8bit_in_backward": {"optimizer": "AdamW, 8-bit", "steps_in_backward": True, "loss": "chunks, fused"},
    "loop": {"optimizer": "AdamW, loop"},
    "adapters": {"rank": 8},
    "adapters_checkpoint": {"rank": 8, "is_checkpointed": True, "loss": "chunks, recomputed"},
    "autocast": {"precision": "autocast", "is_checkpointed": True, "loss": "chunks, fused"},
    "float32_masters": {"precision": "float32 masters"},
    "sorted_tokens": {"b": 4, "s": 1024, "loss": "chunks, fused"},
}
BATCH = {"b": 3, "s": 701}  # of chunks of 1,024 rows, the third is not whole
SIZES = {"n_layers": 2}
SMALL = {"vocabulary_size": 5_001, "d_model": 96, "n_layers": 2, "n_heads": 6}

for remedy, settings in REMEDIES.items():
    step = GPTRemedyStep(**BATCH | settings)
    of_llamas.enter(CASES, f"gpt_remedy_{remedy}", lambda env, step=step: of_llamas.train(env, step, **SIZES))
for remedy, settings in of_llamas.ON_THE_HOST.items():
    step = GPTRemedyStep(**BATCH | settings)
    of_llamas.enter(CASES, f"gpt_remedy_{remedy}", lambda env, step=step: of_llamas.train(env, step, **SMALL))
