"""Programs of several processes, for test_frameworks.py: python distributed.py NAME FOLDER.

Processes are forked, so that torch is imported once. An assertion that fails in one of them ends the program.
"""

import copy
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from training import assert_stored

import jitstep
from jitstep import sharded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
import train_ddp
import train_fsdp2
import train_zero

# Formats of FSDP2's tests. A codec with scales is saved as it is if rows have whole blocks, and as values otherwise. In
# the third one, int8 is the state of the first parameter alone, which has rows of 32.
FORMATS = [
    {},
    {"state": {"exp_avg": "bf16", "exp_avg_sq": "fp16"}},
    {"state": {"codec": "int8", "block": 32}, "min_quantized_size": 300},
    {"state": "int8", "min_quantized_size": 0},
    {"state": "int4", "min_quantized_size": 0},
]
EXACT = FORMATS[:3]


def _entry(rank, body, world, folder, arguments):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    body(folder, *arguments)
    dist.barrier()
    dist.destroy_process_group()


def run(body, world, folder, *arguments):
    rendezvous = pathlib.Path(folder) / "rendezvous"
    rendezvous.unlink(missing_ok=True)
    torch.multiprocessing.start_processes(_entry, (body, world, folder, arguments), nprocs=world, start_method="fork")


def full(model):
    """All parameters, gathered."""
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]


def assert_close(a, b, rtol=1e-5, atol=1e-6):
    for p, q in zip(a, b, strict=True):
        torch.testing.assert_close(p, q, rtol=rtol, atol=atol)


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def ddp(folder):
    assert_close(full(train_ddp.main(torch.optim.AdamW)), full(train_ddp.main(jitstep.AdamW)))
    model = train_ddp.main(state="int8", min_quantized_size=0)
    for p in full(model):
        gathered = [torch.empty_like(p) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, p)
        assert torch.equal(gathered[0], gathered[1])


def tree(terms):
    """The sum over ranks by recursion: the largest power of two of them, then the others."""
    if len(terms) == 1:
        return terms[0].float()
    half = 1 << (len(terms) - 1).bit_length() - 1
    return tree(terms[:half]) + tree(terms[half:])


def ordered_hook(folder):
    """Gradients of DDP in buckets, of two dtypes, against sums of gradients that were made alone."""
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(16, 301), torch.nn.Tanh(), torch.nn.Linear(301, 77), torch.nn.Linear(77, 1)]
        module = torch.nn.Sequential(*layers).to(dtype)
        model = DistributedDataParallel(copy.deepcopy(module), bucket_cap_mb=0.02)
        model.register_comm_hook(None, jitstep.ordered_all_reduce_hook)
        for step in range(3):  # DDP changes its buckets after the first one
            torch.manual_seed(10 * step + dist.get_rank())
            x = torch.randn(32, 16, dtype=dtype)
            for one in (module, model):
                one.zero_grad()
                one(x).pow(2).mean().backward()
            for p, q in zip(module.parameters(), model.module.parameters(), strict=True):
                own = [torch.empty_like(p.grad) for _ in range(dist.get_world_size())]
                dist.all_gather(own, p.grad)
                assert torch.equal(q.grad, (tree(own) / len(own)).to(dtype)), (dtype, step, tuple(p.shape))


def ordered_hook_of_three(folder):
    ordered_hook(folder)


def zero(folder):
    assert_close(full(train_zero.main(torch.optim.AdamW)), full(train_zero.main(jitstep.AdamW)))
    train_zero.main(state="int8", min_quantized_size=0)


def fsdp2_follows_torch(folder):
    theirs, _ = train_fsdp2.main(torch.optim.AdamW)
    ours, optimizer = train_fsdp2.main(jitstep.AdamW)
    assert_close(full(theirs), full(ours))
    p = next(iter(ours.parameters()))
    held = optimizer.state_dict()["state"][0]["exp_avg"]
    assert held.placements == p.placements
    assert held.shape == p.shape
    assert optimizer.state[p]["exp_avg"].shape == p._local_tensor.shape
    assert optimizer.fp32_weights()[0].shape == p.shape
    assert optimizer.memory_report().bytes_of("exp_avg") < 4 * sum(q.numel() for q in ours.parameters())


def fsdp2_resumes(folder):
    for number, formats in enumerate(FORMATS):
        save = f"{folder}/checkpoint{number}"
        whole, _ = train_fsdp2.main(steps=5, **formats)
        kept = _values(*train_fsdp2.main(steps=3, save=save, **formats))
        _check_loaded(save, 3, formats, kept)
        resumed, _ = train_fsdp2.main(steps=2, load=save, first=3, **formats)
        if formats in EXACT:
            assert same(full(whole), full(resumed)), formats
        else:
            assert_close(full(whole), full(resumed), rtol=5e-2, atol=1e-2)


SLOTS = ("exp_avg", "exp_avg_sq")


def _values(model, optimizer):
    """The values of both slots of each parameter, gathered."""
    return [sharded.whole(p, optimizer.value(p, slot)).full_tensor() for p in model.parameters() for slot in SLOTS]


def _check_loaded(load, step, formats, kept):
    """Checks loaded state. In a format that is not exact, it is rounded once more, in the blocks of the new shards."""
    model, optimizer = train_fsdp2.main(steps=0, load=load, **formats)
    assert all(int(held["step"]) == step for held in optimizer.state.values())
    if formats in EXACT:
        assert same(kept, _values(model, optimizer)), formats
        return model, optimizer
    places = [(p, slot) for p in model.parameters() for slot in SLOTS]
    for (p, slot), values in zip(places, kept, strict=True):
        wanted = distribute_tensor(values, p.device_mesh, p.placements).to_local()
        assert_stored(optimizer.value(p, slot), wanted, formats["state"])
    return model, optimizer


def _reshard(folder, number, save, load, first):
    if load:
        _check_loaded(f"{folder}/{load}", first, FORMATS[number], torch.load(f"{folder}/{load}.values"))
    trained = train_fsdp2.main(steps=2, first=first, save=f"{folder}/{save}", load=load and f"{folder}/{load}",
                               **FORMATS[number])  # fmt: skip
    values = _values(*trained)
    if dist.get_rank() == 0:
        torch.save(values, f"{folder}/{save}.values")


def _check_resharded(folder, number, load):
    kept = torch.load(f"{folder}/{load}.values")
    model, optimizer = _check_loaded(f"{folder}/{load}", 6, FORMATS[number], kept)
    whole, reference = train_fsdp2.main(torch.optim.AdamW, steps=6)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if not FORMATS[number] else {"rtol": 5e-2, "atol": 1e-2 * (number + 1)}
    assert_close(full(whole), full(model), **tolerance)
    if not FORMATS[number]:
        for ours, theirs in zip(optimizer.state_dict()["state"].values(), reference.state_dict()["state"].values(),
                                strict=True):  # fmt: skip
            for slot in SLOTS:
                torch.testing.assert_close(ours[slot].full_tensor(), theirs[slot].full_tensor(), rtol=1e-4, atol=1e-8)


def fsdp2_reshards(folder):
    for number in range(len(FORMATS)):
        run(_reshard, 4, folder, number, f"a{number}", None, 0)
        run(_reshard, 2, folder, number, f"b{number}", f"a{number}", 2)
        run(_reshard, 3, folder, number, f"c{number}", f"b{number}", 4)
        run(_check_resharded, 2, folder, number, f"c{number}")


def _with_values(*args, **options):
    optimizer = jitstep.AdamW(*args, **options)
    optimizer.save_values = True
    return optimizer


def fsdp2_changes_the_format(folder):
    model, optimizer = train_fsdp2.main(steps=3, save=f"{folder}/fp32")
    other, loaded = train_fsdp2.main(_with_values, steps=0, load=f"{folder}/fp32", **FORMATS[2])
    assert same(full(model), full(other))
    for exact, values in zip(_values(model, optimizer), _values(other, loaded), strict=True):
        assert_stored(values, exact, "int8")
    held = next(iter(loaded.state.values()))
    assert held["exp_avg.codes"].numel() == next(other.parameters())._local_tensor.numel()
    loaded.save_values = False
    assert loaded.state_dict()["state"][0]["exp_avg.codes"].shape == (30, 32)


def fsdp2_refuses(folder):
    for cls, options in ((jitstep.LAMB, {}), (jitstep.AdamW, {"max_grad_norm": 1.0}), (jitstep.Adafactor, {})):
        try:
            train_fsdp2.main(cls, **options)
        except ValueError as error:
            assert "this process has a shard" in str(error)
        else:
            raise AssertionError(cls)


SIZED = """// A probe: a step that depends on the parameter's sizes.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::sized {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Flags {
  bool tall = false;  // lifted: size(0) >= 7
};
struct Slots {
  Signed m;  // if tall
};
struct Scalars {
  real lr;
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, const Sizes& size) {
    const double inputs = static_cast<double>(size.fan_in() * size.fan_out());
    return {static_cast<real>(h.lr / inputs)};
  }
  KHD static void update_state(auto& e, const auto&) {
    if constexpr (F.tall) e.m.next = e.m.prev + e.g;
  }
  KHD static void update_param(auto& e, const auto& c) {
    if constexpr (F.tall) e.p -= c.lr * e.m.next;
    else e.p -= c.lr * e.g;
  }
};
}
"""


def fsdp2_gives_shards_the_sizes_of_their_parameter(folder):
    file = pathlib.Path(folder) / str(dist.get_rank()) / "sized.cuh"
    file.parent.mkdir()
    file.write_text(SIZED)
    rule = jitstep.load_rule(file)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for rows in (3, 5, 7, 8):
        values = torch.randn(2, rows, 12, generator=torch.Generator().manual_seed(rows))
        whole = torch.nn.Parameter(values[0].clone())
        part = torch.nn.Parameter(distribute_tensor(values[0].clone(), mesh, [Shard(0)]))
        for p, g in ((whole, values[1]), (part, distribute_tensor(values[1].clone(), mesh, [Shard(0)]))):
            optimizer = rule([p])
            for _ in range(2):
                p.grad = g
                optimizer.step()
        assert torch.equal(part.full_tensor(), whole.detach()), rows


def fsdp2_counts_on_ranks_without_elements(folder):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    p = torch.nn.Parameter(distribute_tensor(torch.ones(1, 12), mesh, [Shard(0)]))
    optimizer = jitstep.NAdam([p])
    for _ in range(3):
        p.grad = distribute_tensor(torch.ones(1, 12), mesh, [Shard(0)])
        optimizer.step()
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, optimizer.state[p]["mu_product"].item())
    assert found[0] < 1 and found == [found[0]] * len(found)


def fsdp2_saves_the_formats_of_ranks_without_elements(folder):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    formats = [{"weights": one} for one in ("kahan", "split8", "split16", "stochastic")]
    formats += [{"state": one} for one in ("bf16", "bf16_sr", "fp16", "int8", "int4", "fp8")]
    for options in formats:
        values = torch.randn(3, 1, 4096, generator=torch.Generator().manual_seed(1)).bfloat16()
        p = torch.nn.Parameter(distribute_tensor(values[0].clone(), mesh, [Shard(0)]))
        q = torch.nn.Parameter(values[0].clone())
        optimizer, other = jitstep.AdamW([p], seed=3, **options), jitstep.AdamW([q], **options)
        p.grad = distribute_tensor(values[1].clone(), mesh, [Shard(0)])
        optimizer.step()
        entries = optimizer.state_dict()["state"][0]
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, sorted(entries))
        assert found == [found[0]] * len(found), (options, found)
        gathered = {n: v.full_tensor() if hasattr(v, "full_tensor") else v for n, v in entries.items()}
        other.load_state_dict({**optimizer.state_dict(), "state": {0: gathered}})
        q.data.copy_(p.full_tensor())
        p.grad, q.grad = distribute_tensor(values[2].clone(), mesh, [Shard(0)]), values[2].clone()
        optimizer.step()
        other.step()
        assert torch.equal(p.full_tensor(), q.detach()), options
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.step()


def fsdp2_saves_without_buffers_that_are_off(folder):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for state in ("int4", "int8", "fp32"):
        for save_values in (False, True):
            values = torch.randn(2, 40, 300, generator=torch.Generator().manual_seed(1))
            p, q = (torch.nn.Parameter(distribute_tensor(values[0].clone(), mesh, [Shard(0)])) for _ in range(2))
            optimizer = jitstep.AdamW([p], amsgrad=True, state=state)
            other = jitstep.AdamW([q], amsgrad=False, state=state)
            for one, target in ((optimizer, p), (other, q)):
                target.grad = distribute_tensor(values[1].clone(), mesh, [Shard(0)])
                one.step()
                one.param_groups[0]["amsgrad"] = False
                one.step()
                one.save_values = save_values
            held, wanted = (one.state_dict()["state"][0] for one in (optimizer, other))
            assert {name for name in held if name.startswith("exp_avg")} == {n for n in wanted if n.startswith("exp_")}
            other.load_state_dict(optimizer.state_dict())
            other.step()


def gradients_of_other_placements(folder):
    """As tensor parallelism gives them."""
    from torch.distributed.tensor import DTensor, Partial, Replicate

    mesh = init_device_mesh("cpu", (2,))
    for placement, rows in ((Partial(), 2), (Shard(0), 1)):
        stepped = []
        for cls in (torch.optim.SGD, jitstep.SGD):
            p = torch.nn.Parameter(DTensor.from_local(torch.zeros(2, 3), mesh, [Replicate()]))
            optimizer = cls([p], lr=1.0)
            for step in range(3):
                local = torch.full((rows, 3), dist.get_rank() + 1.0 + step)
                p.grad = DTensor.from_local(local, mesh, [placement], run_check=False)
                optimizer.step()
            assert p.grad.placements == (placement,)
            stepped.append(p.to_local().detach().clone())
        assert torch.equal(*stepped), placement


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    if name == "fsdp2_reshards":
        fsdp2_reshards(folder)
    else:
        run(globals()[name], 3 if name.endswith("three") else 2, folder)
