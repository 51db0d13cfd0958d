"""Programs of two processes, for test_frameworks.py: steps in backward(), sums of gradients, and values of state."""

import copy
import itertools
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from distributed import FORMATS, SLOTS, _values, _with_values, full, run, same, train_fsdp2
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.nn.parallel import DistributedDataParallel
from training import assert_stored

import jitstep


def _in_backward(*args, **options):
    optimizer = jitstep.SGD(*args, **{"lr": 0.125, **options})
    optimizer.step_in_backward()
    return optimizer


def _backward_of_ranks(model):
    model(torch.full((2, 4), 1.0 + dist.get_rank())).sum().backward()


def ddp_refuses_what_reads_gradients_early(folder):
    own_group = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    owners = []
    for owner, group in itertools.product((_in_backward, jitstep.GradAccumulator), (None, own_group)):
        module = torch.nn.Linear(4, 3)
        used, before = owner(module.parameters()), full(copy.deepcopy(module))
        try:
            _backward_of_ranks(DistributedDataParallel(module, process_group=group))
        except RuntimeError as error:
            assert "before DistributedDataParallel has averaged them" in str(error)
        else:
            raise AssertionError(owner)
        assert same(full(module), before)
        del used
        module = torch.nn.Linear(4, 3)  # not wrapped
        owners.append(owner(module.parameters()))
        _backward_of_ranks(module)
        assert module.weight.grad is None
        wrapped = DistributedDataParallel(module, process_group=group)  # after a first step without it
        try:
            _backward_of_ranks(wrapped)
        except RuntimeError as error:
            assert "before DistributedDataParallel has averaged them" in str(error)
        else:
            raise AssertionError(owner)


def fsdp2_steps_in_backward(folder):
    model, _ = train_fsdp2.main(jitstep.SGD)
    other, _ = train_fsdp2.main(_in_backward)
    assert same(full(model), full(other))


def _whole_module():
    module = torch.nn.Sequential(torch.nn.Linear(32, 30), torch.nn.Tanh(), torch.nn.Linear(30, 7))
    return module, _with_values(module.parameters(), lr=1e-2, **FORMATS[3])


def fsdp2_exchanges_values_with_whole_parameters(folder):
    full_dict = StateDictOptions(full_state_dict=True)
    model, optimizer = train_fsdp2.main(steps=3, save=folder, **FORMATS[3])
    kept = _values(model, optimizer)
    packed = get_optimizer_state_dict(model, optimizer, options=full_dict)
    for by_file in (True, False):
        module, loaded = _whole_module()
        loaded.init_state()
        if by_file:
            packed = get_optimizer_state_dict(module, loaded)
            dcp.load({"optimizer": packed}, checkpoint_id=folder)
            set_optimizer_state_dict(module, loaded, packed)
        else:
            loaded.save_values = False
            set_optimizer_state_dict(module, loaded, packed, options=full_dict)
        places = [(p, slot) for p in module.parameters() for slot in SLOTS]
        for (p, slot), values in zip(places, kept, strict=True):
            assert_stored(loaded.value(p, slot), values, "int8")
            assert (int(loaded.state[p]["step"]), slot in loaded.state[p]) == (3, False)
    loaded.save_values = True
    kept = [loaded.value(p, slot) for p, slot in places]
    model, optimizer = train_fsdp2.main(_with_values, steps=0, **FORMATS[3])
    optimizer.init_state()
    packed = get_optimizer_state_dict(module, loaded, options=full_dict)
    set_optimizer_state_dict(model, optimizer, packed, options=full_dict)
    for values, wanted in zip(_values(model, optimizer), kept, strict=True):
        torch.testing.assert_close(values, wanted, rtol=2**-6, atol=2**-6 * wanted.abs().max().item())


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    run(globals()[name], 2, folder)
