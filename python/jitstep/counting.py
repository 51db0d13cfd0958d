"""Step numbers on GPUs, for CUDA graphs that contain a step: each replay counts."""

from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import _core, sharded

if TYPE_CHECKING:
    from .optimizer import Optimizer


def on_device(optimizer: "Optimizer", plans: dict[int, _core.ParamPlan]) -> bool:
    """True if the GPU counts the steps of these parameters: all groups are capturable, and all parameters are on GPUs.

    False for rules and formats whose state changes on the host, too.
    """
    rule = optimizer._description
    if not plans or not all(group.get("capturable") for group in optimizer.param_groups):
        return False
    if rule["transforms"] or rule["modes"] or rule["shared"] or rule["inputs"]:
        return False
    stepped = [p for number, _, p in optimizer._numbered() if number in plans]
    return all(p.device.type == "cuda" for p in stepped) and not any(plan.aux() for plan in plans.values())


def counter(optimizer: "Optimizer", p: Tensor) -> Tensor:
    """The number that kernels subtract from a constant: one int64 with 1 - step. Graphs know its address."""
    value: Tensor = (1 - optimizer.state[p]["step"]).to(torch.int64)
    counter: Tensor | None = optimizer._counters.get(p)
    if counter is None or counter.device != value.device:
        optimizer._counters[p] = value
        return value
    counter.copy_(value)
    return counter


def count(optimizer: "Optimizer", stepped: list[Tensor], found_inf: Tensor | None) -> None:
    """Adds 1 to the step of each parameter, unless found_inf has skipped the step. A graph repeats it."""
    if not optimizer._stepper.counts_on_device():
        return
    steps: dict[torch.device, list[Tensor]] = defaultdict(list)
    for p in stepped:
        steps[sharded.local(p).device].append(optimizer.state[p]["step"])
    with torch.no_grad():
        for device, of_device in steps.items():
            increment = 1.0 if found_inf is None else found_inf.eq(0).to(device, torch.float32).reshape(())
            torch._foreach_add_(of_device, increment)
