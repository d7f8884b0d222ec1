"""Trains a small GPT-2 from its configuration with transformers' Trainer, as its documentation does."""

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

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


config = GPT2Config(vocab_size=8192, n_positions=256, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)

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
