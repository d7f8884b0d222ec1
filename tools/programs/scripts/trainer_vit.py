"""Trains a small vision transformer from its configuration with transformers' Trainer, as its documentation does."""

import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification


class RandomImages(torch.utils.data.Dataset):
    """256 pictures of noise, 64 by 64, of 10 classes."""

    def __init__(self):
        self.images = torch.randn(256, 3, 64, 64, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"pixel_values": self.images[index], "labels": index % 10}


config = ViTConfig(
    image_size=64,
    patch_size=8,
    hidden_size=256,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_labels=10,
)
model = ViTForImageClassification(config)

training_args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=16,
    max_steps=10,
    learning_rate=3e-4,
    bf16=True,
    logging_steps=1,
    save_strategy="no",
    report_to="none",
    remove_unused_columns=False,
)
trainer = Trainer(model=model, args=training_args, train_dataset=RandomImages())
trainer.train()
