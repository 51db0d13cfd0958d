"""Host transforms: functions on whole tensors inside a step, for rules that name one, such as Muon."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]
# Group, values in memory that the step owns, valid until the transform returns, and step number.
TransformedTensor = tuple[int, Tensor, int]
# Elements of one batch, which bounds the temporary memory of the iteration.
_BATCH_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class TransformCall:
    """What a host transform gets for one parameter in one step."""

    values: Tensor
    """float32 (float64 for float64 parameters) of the parameter's shape. The function replaces its elements in place."""
    group: Group
    """The parameter group."""
    step: int
    """The number of this step of the parameter, from 1."""


def _rate_factor(one: Tensor, group: Group) -> float:
    if "adjust_lr_fn" not in group:  # the rule scales its updates itself
        return 1.0
    adjust = group["adjust_lr_fn"] or "original"
    rows, columns = one.shape
    if adjust == "match_rms_adamw":
        return float(0.2 * max(rows, columns) ** 0.5)
    return float(max(1.0, rows / columns) ** 0.5)


def _batches(values: list[Tensor]) -> list[list[Tensor]]:
    """Matrices of equal sizes together, up to a limit."""
    found: dict[Any, list[list[Tensor]]] = defaultdict(lambda: [[]])
    for one in values:
        batches = found[(min(one.shape), max(one.shape), one.dtype)]
        if len(batches[-1]) >= max(1, _BATCH_ELEMENTS // max(1, one.numel())):
            batches.append([])
        batches[-1].append(one)
    return [batch for batches in found.values() for batch in batches if batch]


def _prepared(one: Tensor, dtype: torch.dtype, eps: float) -> Tensor:
    x = one.to(dtype, copy=True)
    x.div_(x.norm().clamp(min=eps))
    return x.T if one.size(0) > one.size(1) else x


def newton_schulz(calls: list[TransformCall]) -> None:
    """The iteration of torch.optim.Muon, with the same operations, for matrices of equal sizes together."""
    values, group = [call.values for call in calls], calls[0].group
    a, b, c = (float(x) for x in group["ns_coefficients"])
    for batch in _batches(values):
        dtype = torch.bfloat16 if group["ns_dtype"] == "bf16" else batch[0].dtype
        x = torch.stack([_prepared(one, dtype, float(group["eps"])) for one in batch])
        for _ in range(int(group["ns_steps"])):
            gram = x @ x.mT
            update = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            x = torch.baddbmm(x, update, x, beta=a)
        for one, made in zip(batch, x, strict=True):
            made = made.T if one.size(0) > one.size(1) else made
            one.copy_(made.to(one.dtype) * _rate_factor(one, group))


_transforms: dict[str, Callable[[list[TransformCall]], None]] = {"newton_schulz": newton_schulz}


def register_host_transform(name: str, function: Callable[[Tensor, Group], Tensor]) -> None:
    """Adds a function for rules with `host transform: name`.

    It gets one tensor of float32 (float64 for float64 parameters) and the parameter group, and returns a tensor of the
    same shape. A name that is taken raises ValueError.
    """

    def replace(call: TransformCall) -> None:
        made = function(call.values, call.group)
        if made.shape != call.values.shape:
            raise ValueError(f"the host transform {name!r} returned {list(made.shape)} for {list(call.values.shape)}")
        call.values.copy_(made)

    register_parameter_transform(name, replace)


def register_parameter_transform(name: str, function: Callable[[TransformCall], object]) -> None:
    """Like register_host_transform(), for a function that needs the step number of the parameter.

    It gets a TransformCall and replaces its values in place.
    """
    if name in _transforms:
        raise ValueError(f"the host transform {name!r} exists already. Choose another name.")

    def each(calls: list[TransformCall]) -> None:
        for call in calls:
            function(call)

    _transforms[name] = each


def run(name: str, given: list[TransformedTensor], groups: list[Group]) -> None:
    """Calls a transform once per group."""
    if name not in _transforms:
        raise ValueError(f"the host transform {name!r} is unknown. Add it with jitstep.register_host_transform().")
    by_group: dict[int, list[TransformCall]] = defaultdict(list)
    for group, values, step in given:
        by_group[group].append(TransformCall(values, groups[group], step))
    with torch.no_grad():
        for calls in by_group.values():
            _transforms[name](calls)
