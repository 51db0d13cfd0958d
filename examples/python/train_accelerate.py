"""Hugging Face Accelerate, with accumulated gradients and a checkpoint: accelerate launch train_accelerate.py"""

import tempfile

import torch
from accelerate import Accelerator

import jitstep


def main(optimizer_class=jitstep.AdamW, folder=None, **formats):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model, optimizer = accelerator.prepare(model, optimizer_class(model.parameters(), lr=1e-2, **formats))
    for step in range(6):
        x = torch.randn(32, 16, generator=torch.Generator().manual_seed(step))
        with accelerator.accumulate(model):
            accelerator.backward((model(x) - x.sum(1, keepdim=True)).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()
        if step == 3:
            accelerator.save_state(folder := folder or tempfile.mkdtemp())
            accelerator.load_state(folder)
    return model


if __name__ == "__main__":
    main(state="int8")
