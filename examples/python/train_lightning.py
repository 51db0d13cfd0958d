"""Lightning: configure_optimizers() returns the optimizer. Checkpoints resume in every state format."""

import lightning
import torch
from torch.utils.data import DataLoader

import jitstep


class Model(lightning.LightningModule):
    def __init__(self, optimizer_class=jitstep.AdamW, **formats):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        self.make_optimizer = lambda: optimizer_class(self.parameters(), lr=1e-2, **formats)

    def training_step(self, x, _):
        return (self.net(x) - x.sum(1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return self.make_optimizer()


def main(optimizer_class=jitstep.AdamW, steps=6, resume=None, save=None, **formats):
    torch.manual_seed(0)
    data = DataLoader(torch.randn(8, 16, generator=torch.Generator().manual_seed(1)), batch_size=8)
    model = Model(optimizer_class, **formats)
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, data, ckpt_path=resume)
    if save:
        trainer.save_checkpoint(save)
    return model


if __name__ == "__main__":
    main(state="int8")
