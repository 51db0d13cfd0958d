"""ZeroRedundancyOptimizer: each process has the state of some parameters. torchrun --nproc-per-node 2 train_zero.py"""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import jitstep


def main(optimizer_class=jitstep.AdamW, steps=5, **formats):
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    )
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class, lr=1e-2, **formats)
    data = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        x = torch.randn(32, 16, generator=data)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()
    return model.module


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(state="int8")
    dist.destroy_process_group()
