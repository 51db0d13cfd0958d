"""Data parallelism whose gradients have the same bits on every back end."""

import gc
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel


class _Bucket(NamedTuple):
    values: Tensor
    own: Tensor  # the values, and zeros up to equal shares for all ranks
    shares: Tensor  # of all ranks, of this rank's elements
    arrival: Any  # of the shares
    mean: torch.futures.Future[Tensor]


def is_running() -> bool:
    """True if this process may train together with others."""
    return dist.is_available() and dist.is_initialized()


def _reduced_later(ddp: Any) -> set[int]:
    """The ids of the parameters whose gradients a module averages over processes."""
    ignored = ddp.parameters_to_ignore
    return {id(p) for name, p in ddp.module.named_parameters() if name not in ignored}


def refuse_late_averages(owner: str, instead: str, parameters: list[Tensor]) -> None:
    """Raises RuntimeError if DistributedDataParallel averages the gradients of these parameters.

    It does so after torch has called the hooks of a gradient, so that hooks see those of one process. Then it stores a
    gradient again, also zeros for one that a hook has removed, and also in a group of one process.
    """
    own = {id(p) for p in parameters}
    for found in gc.get_objects():
        # Not isinstance(), which may call code of the object.
        if issubclass(type(found), DistributedDataParallel) and own & _reduced_later(found):
            raise RuntimeError(
                f"jitstep: {owner} reads and removes gradients before DistributedDataParallel has averaged them, so "
                f"that processes would train different models. {instead}"
            )


def refuse_flat(owner: str, number: int, p: Tensor) -> None:
    """Raises RuntimeError for a parameter of FullyShardedDataParallel, which averages gradients after hooks, too."""
    if getattr(p, "_is_flat_param", False):
        raise RuntimeError(
            f"jitstep: {owner} cannot use parameter {number}: FullyShardedDataParallel averages its gradient later, so "
            "that processes would train different models. Use fully_shard() in place of it."
        )


# torch 2.13 has renamed it.
_all_gather: Any = getattr(dist, "all_gather_single", None) or getattr(dist, "all_gather_into_tensor", None)

# By group: the last bucket, whose mean was not sent yet.
_open: dict[Any, _Bucket] = {}


def _bytes(tensor: Tensor) -> Tensor:
    """The tensor as bytes, because back ends support few other dtypes."""
    return tensor.view(-1).view(torch.uint8)


def _ordered_mean(rows: Tensor) -> Tensor:
    """Adds neighbors, then sums of neighbors: average_gradients() of C++ adds in this order. Rounded once."""
    nodes: list[Tensor] = list(rows if rows.dtype == torch.float64 else rows.float())
    while len(nodes) > 1:
        sums = [left + right for left, right in zip(nodes[::2], nodes[1::2], strict=False)]
        nodes = sums + nodes[2 * len(sums) :]
    return nodes[0].div(len(rows)).to(rows.dtype)


def _send_mean(group: Any, bucket: _Bucket) -> None:
    bucket.arrival.wait()
    mean = _ordered_mean(bucket.shares)
    gathered = _all_gather(_bytes(bucket.own), _bytes(mean), group=group, async_op=True)

    def finish(future: torch.futures.Future[Any]) -> None:
        try:
            future.value()
            bucket.values.copy_(bucket.own.view(-1)[: bucket.values.numel()])
            bucket.mean.set_result(bucket.values)
        except Exception as error:  # torch only logs exceptions of callbacks
            bucket.mean.set_exception(error)  # type: ignore[arg-type]  # of torch's stub

    gathered.get_future().add_done_callback(finish)


def ordered_all_reduce_hook(state: Any, bucket) -> torch.futures.Future[Tensor]:  # type: ignore[no-untyped-def]
    """A communication hook of DistributedDataParallel, which replaces its all-reduce:

        model.register_comm_hook(None, jitstep.ordered_all_reduce_hook)

    state: a process group, or None for the default one.
    Gradients are added as a tree over ranks, in float32 (float64 for float64), and rounded once. The result depends on
    the gradients alone: not on the back end, the size of buckets or timing. It has the bits of `average_gradients()`
    in C++. A rank sends as many bytes as in an all-reduce.
    """
    group = dist.group.WORLD if state is None else state
    ranks, values = dist.get_world_size(group), bucket.buffer()
    own = values.new_zeros(ranks, -(-values.numel() // ranks))
    own.view(-1)[: values.numel()] = values
    shares = torch.empty_like(own)
    # All ranks must start collective calls in the same order. So the next call of this hook sends the mean of a bucket.
    arrival = dist.all_to_all_single(_bytes(shares), _bytes(own), group=group, async_op=True)
    mean: torch.futures.Future[Tensor] = torch.futures.Future(devices=[values.device] if values.is_cuda else [])
    if before := _open.pop(group, None):
        _send_mean(group, before)
    _open[group] = _Bucket(values, own, shares, arrival, mean)
    if bucket.is_last():
        _send_mean(group, _open.pop(group))
    return mean
