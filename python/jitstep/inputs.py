"""Inputs that a rule reads in addition to the gradient, as Sophia's estimate of the Hessian."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import _core, sharded, storage

if TYPE_CHECKING:
    from .groups import GroupedOptimizer


def set_input(optimizer: "GroupedOptimizer", parameter: Tensor, name: str, value: Tensor | None) -> None:
    """See Optimizer.set_input."""
    for one in (parameter, value):
        if one is not None and not isinstance(one, Tensor):
            raise TypeError(f"set_input(): expected a tensor, found an object of type {type(one).__name__}.")
    known = optimizer._description["inputs"]
    if name not in known:
        has = ", ".join(known) or "none"
        raise ValueError(f"set_input(): {optimizer.rule} has no input {name!r}. Inputs of {optimizer.rule}: {has}.")
    plan = optimizer.plan_of(parameter)
    number = known.index(name)
    if value is None:
        optimizer._inputs.get(parameter, {}).pop(number, None)
        return
    if value.is_complex():
        raise ValueError(f"set_input(): {name!r} is complex. Pass real numbers.")
    if value.shape != parameter.shape:
        raise ValueError(
            f"set_input(): {name!r} has the shape {list(value.shape)}, and the parameter {list(parameter.shape)}. "
            "Pass one value per element."
        )
    p = sharded.local(parameter)
    with torch.no_grad():
        copied = storage.empty(p, plan.compact_strides(), storage.value_dtype(p))
        copied.copy_(sharded.part_of(value, parameter))
    optimizer._inputs.setdefault(parameter, {})[number] = copied


def check(optimizer: "GroupedOptimizer", p: Tensor, plan: _core.ParamPlan, number: int) -> None:
    """Raises ValueError if a parameter with inputs has another form than in set_input()."""
    local = sharded.local(p)
    for value in optimizer._inputs.get(p, {}).values():
        now = storage.empty(local, plan.compact_strides(), storage.value_dtype(local))
        same_memory = now.shape == value.shape and now.stride() == value.stride()
        if not same_memory or now.dtype != value.dtype or now.device != value.device:
            raise ValueError(
                f"jitstep: parameter {number} has another shape, dtype, device or memory format than in "
                "set_input(). Call it again."
            )


def forget(optimizer: "GroupedOptimizer", stepped: list[Tensor]) -> None:
    """Drops the inputs that a step has read."""
    for p in stepped:
        for value in optimizer._inputs.pop(p, {}).values():
            if value.is_cuda:  # the allocator must not use the memory before the step has read it
                value.record_stream(torch.cuda.current_stream(value.device))
