"""One rank of a library that bench/scale.py measures. Prints its measurements as a line of JSON, as
bench/scale_rank.cpp does.

  scale_peers.py KIND --workload NAME --rounds N --folder FOLDER

torchrun's environment variables select the rank. Every library trains the same parameters with the same gradients.
"""

import argparse
import json
import math
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn

BENCH = pathlib.Path(__file__).resolve().parent
RATE, DECAY, CLIP = 1e-3, 1e-2, 1.0


def random_tensors(shapes, seed):
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=random) * 0.02 for shape in shapes]


class Model(nn.Module):
    """Its gradients are the given factors."""

    def __init__(self, shapes):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(one) for one in random_tensors(shapes, 1))

    def forward(self, factors):
        return sum((p * factor).sum() for p, factor in zip(self.weights, factors))


def bytes_on_the_wire():
    lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()
    return sum(int(line.split(":")[1].split()[8]) for line in lines if line.strip().startswith("lo:"))


def plain_tensors(value):
    """The tensors in nested values, as local parts of DTensors and inner tensors of subclasses."""
    if isinstance(value, dict):
        for one in value.values():
            yield from plain_tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from plain_tensors(one)
    elif hasattr(value, "_local_tensor"):
        yield from plain_tensors(value._local_tensor)
    elif hasattr(value, "__tensor_flatten__"):
        for name in value.__tensor_flatten__()[0]:
            yield from plain_tensors(getattr(value, name))
    elif isinstance(value, torch.Tensor):
        yield value


def hash_of(parameters):
    import hashlib

    total = hashlib.blake2b(digest_size=8)
    for p in parameters:
        whole = p.full_tensor() if hasattr(p, "full_tensor") else p
        total.update(whole.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


class Training:
    """A library: a model, an optimizer, and how they save."""

    def __init__(self, shapes):
        self.model = Model(shapes)

    def backward(self, factors):
        self.optimizer.zero_grad()
        self.wrapped(factors).backward()

    def step(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()

    def state(self):
        return dict(self.optimizer.state)

    def parameters(self):
        return list(self.model.parameters())


class ZeroRedundancy(Training):
    def __init__(self, shapes):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        from torch.nn.parallel import DistributedDataParallel

        super().__init__(shapes)
        self.wrapped = DistributedDataParallel(self.model)
        self.optimizer = ZeroRedundancyOptimizer(
            self.model.parameters(), torch.optim.AdamW, lr=RATE, weight_decay=DECAY, fused=True
        )

    def state(self):
        return dict(self.optimizer.optim.state)

    def save(self, folder):
        self.optimizer.consolidate_state_dict()
        if dist.get_rank() == 0:
            torch.save(self.optimizer.state_dict(), folder / "zero.pt")
        dist.barrier()

    def load(self, folder):
        self.optimizer.load_state_dict(torch.load(folder / "zero.pt", weights_only=True))


class FullySharded(Training):
    """FSDP2. `optimizer` makes one from parameters."""

    def __init__(self, shapes, optimizer):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(shapes)
        self.wrapped = fully_shard(self.model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        self.optimizer = optimizer(self.model.parameters())

    def save(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

        dcp.save({"optimizer": get_optimizer_state_dict(self.model, self.optimizer)}, checkpoint_id=folder / "dcp")

    def load(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

        held = {"optimizer": get_optimizer_state_dict(self.model, self.optimizer)}
        dcp.load(held, checkpoint_id=folder / "dcp")
        set_optimizer_state_dict(self.model, self.optimizer, held["optimizer"])


class DeepSpeed(Training):
    def __init__(self, shapes, stage):
        import deepspeed

        super().__init__(shapes)
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_clipping": CLIP,
            "zero_optimization": {"stage": stage},
            "optimizer": {"type": "AdamW", "params": {"lr": RATE, "weight_decay": DECAY, "torch_adam": True}},
        }
        self.wrapped, self.optimizer, _, _ = deepspeed.initialize(
            model=self.model, model_parameters=self.model.parameters(), config=config
        )

    def backward(self, factors):
        self.wrapped.backward(self.wrapped(factors))

    def step(self):
        self.wrapped.step()

    def state(self):
        inner = getattr(self.optimizer, "optimizer", self.optimizer)
        masters = getattr(self.optimizer, "single_partition_of_fp32_groups", [])
        return {"optimizer": dict(inner.state), "masters": list(masters)}

    def save(self, folder):
        self.wrapped.save_checkpoint(str(folder / "deepspeed"))

    def load(self, folder):
        self.wrapped.load_checkpoint(str(folder / "deepspeed"))


def torchao8(parameters):
    from torchao.optim import AdamW8bit

    return AdamW8bit(parameters, lr=RATE, weight_decay=DECAY)


def jitstep8(parameters):
    import jitstep

    return jitstep.AdamW(parameters, lr=RATE, weight_decay=DECAY, state="int8")


KINDS = {
    "zero": ZeroRedundancy,
    "fsdp2": lambda shapes: FullySharded(
        shapes, lambda parameters: torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY, fused=True)
    ),
    "fsdp2 torchao": lambda shapes: FullySharded(shapes, torchao8),
    "fsdp2 jitstep": lambda shapes: FullySharded(shapes, jitstep8),
    "deepspeed 1": lambda shapes: DeepSpeed(shapes, 1),
    "deepspeed 2": lambda shapes: DeepSpeed(shapes, 2),
}


class Phases:
    """Measures between two barriers, which are not part of the time."""

    def __init__(self):
        self.seconds, self.wire = {}, {}

    def measure(self, name, action):
        dist.barrier()
        before = bytes_on_the_wire()
        start = time.perf_counter()
        action()
        taken = time.perf_counter() - start
        dist.barrier()
        self.seconds.setdefault(name, []).append(taken)
        self.wire.setdefault(name, []).append(bytes_on_the_wire() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--workload", default="tiny")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    shapes = json.loads((BENCH / "shapes.json").read_text())[arguments.workload]["shapes"]
    factors = random_tensors(shapes, 2)
    training = KINDS[arguments.kind](shapes)
    untimed, timed = Phases(), Phases()
    for round_ in range(-2, arguments.rounds):
        phases = untimed if round_ < 0 else timed
        phases.measure("backward", lambda: training.backward(factors))
        phases.measure("step", training.step)
    digest = hash_of(training.parameters())
    state = {t.data_ptr(): t for t in plain_tensors(training.state())}
    for _ in range(3 if arguments.folder else 0):
        timed.measure("save parts", lambda: training.save(arguments.folder))
        timed.measure("load parts", lambda: training.load(arguments.folder))
    print(
        json.dumps(
            {
                "rank": dist.get_rank(),
                "elements": sum(map(math.prod, shapes)),
                "state_bytes": sum(t.nbytes for t in state.values()),
                "hash": digest,
                "seconds": timed.seconds,
                "wire": timed.wire,
            }
        ),
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    main()
