"""Trains a small Llama from its configuration with transformers' Trainer, as its documentation does."""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--gradient-checkpointing", action="store_true")
args = parser.parse_args()


class RandomTokens(torch.utils.data.Dataset):
    """256 sequences of 256 tokens."""

    def __init__(self):
        self.tokens = torch.randint(8192, (256, 256), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


config = LlamaConfig(
    vocab_size=8192,
    hidden_size=256,
    intermediate_size=688,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=256,
)
model = LlamaForCausalLM(config)

training_args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=4,
    max_steps=10,
    learning_rate=3e-4,
    bf16=True,
    gradient_checkpointing=args.gradient_checkpointing,
    logging_steps=1,
    save_strategy="no",
    report_to="none",
)
trainer = Trainer(model=model, args=training_args, train_dataset=RandomTokens())
trainer.train()
