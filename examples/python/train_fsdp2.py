"""FSDP2 with a checkpoint that any number of processes can load. torchrun --nproc-per-node 4 train_fsdp2.py FOLDER"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import jitstep


def main(optimizer_class=jitstep.AdamW, steps=3, load=None, save=None, first=0, **formats):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 30), torch.nn.Tanh(), torch.nn.Linear(30, 7))  # uneven shards
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = optimizer_class(model.parameters(), lr=1e-2, **formats)
    if load:
        if hasattr(optimizer, "init_state"):
            optimizer.init_state()
        weights, state = get_state_dict(model, optimizer)
        dcp.load({"model": weights, "optimizer": state}, checkpoint_id=load)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state)
    for step in range(first, first + steps):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x) - x[:, :7].sin()).pow(2).mean().backward()
        optimizer.step()
    if save:
        weights, state = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": state}, checkpoint_id=save)
    return model, optimizer


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(save=sys.argv[1], state="int8")
    dist.destroy_process_group()
