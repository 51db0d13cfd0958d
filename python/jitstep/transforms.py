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
    """float32 (float64 for float64 parameters) of the parameter's shape. The function replaces elements in place."""
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


def register_host_transform(name: str, function: Callable[[Tensor, Group], Tensor], *, replace: bool = False) -> None:
    """Adds a function for rules with `host transform: name`.

    It gets one tensor of float32 (float64 for float64 parameters) and the parameter group, and returns a tensor of the
    same shape. A name that exists raises ValueError, unless `replace` is true. The steps of existing optimizers then
    call the new function. A function that cannot be called raises TypeError.
    """

    def assign(call: TransformCall) -> None:
        made = function(call.values, call.group)
        returned, wanted = f"jitstep: the host transform {name!r} returned", f"shape {list(call.values.shape)}."
        if not isinstance(made, Tensor):
            raise TypeError(f"{returned} {_shown_type(made)}. Return a tensor of the {wanted}")
        if made.shape != call.values.shape:
            raise ValueError(f"{returned} a tensor of the shape {list(made.shape)}. Return one of the {wanted}")
        call.values.copy_(made)

    _register(name, function, assign, replace)


def register_parameter_transform(
    name: str, function: Callable[[TransformCall], object], *, replace: bool = False
) -> None:
    """Like register_host_transform(), for a function that needs the step number of the parameter.

    It gets a TransformCall, replaces its values in place, and returns None. The same tensor, which in-place functions
    return, is also correct. Anything else raises TypeError in the step.
    """

    def check(call: TransformCall) -> None:
        made = function(call)
        if made is not None and made is not call.values:
            raise TypeError(
                f"jitstep: the host transform {name!r} returned {_shown_type(made)}, which would be ignored. Write "
                "call.values in place, such as call.values.copy_(result), and return nothing."
            )

    _register(name, function, check, replace)


def _shown_type(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _register(name: str, function: object, call_one: Callable[[TransformCall], None], replace: bool) -> None:
    if not callable(function):
        raise TypeError(f"jitstep: the host transform {name!r} is {function!r}. Pass a function.")
    if name in _transforms and not replace:
        raise ValueError(
            f"jitstep: the host transform {name!r} exists already. Choose another name, or pass replace=True."
        )

    def each(calls: list[TransformCall]) -> None:
        for call in calls:
            call_one(call)

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
