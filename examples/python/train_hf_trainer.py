"""Hugging Face's Trainer: its argument optimizer_cls_and_kwargs selects any optimizer."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import jitstep


def main(optimizer_class=jitstep.AdamW, folder=None, steps=4, resume=None, **formats):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    tokens = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(1))
    arguments = TrainingArguments(
        folder or tempfile.mkdtemp(), max_steps=steps, per_device_train_batch_size=8, save_steps=2, learning_rate=1e-3,
        logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        GPT2LMHeadModel(config), arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        optimizer_cls_and_kwargs=(optimizer_class, {"lr": 1e-3, **formats}),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    return trainer


if __name__ == "__main__":
    main(state="int8")
