"""Host transforms: functions on whole tensors inside a step, for rules that name one, such as Muon."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from . import errors, preconditioners

Group = dict[str, Any]
# Group, values in memory that the step owns, valid until the transform returns, step number, and parameter.
TransformedTensor = tuple[int, Tensor, int, Tensor]
# Elements of one batch, which bounds the temporary memory of the iteration.
_BATCH_ELEMENTS = 1 << 22


@dataclass(frozen=True)
class TransformCall:
    """What a host transform gets for one parameter in one step."""

    values: Tensor
    """float32 (float64 for float64 parameters) of the parameter's shape. The function replaces elements in place."""
    group: Group
    """The parameter group. If options of the rule are missing or None, a copy with the values that kernels use."""
    step: int
    """The number of this step of the parameter, from 1."""
    matrices: dict[str, Tensor] = field(default_factory=dict)
    """The rule's matrices of state, by the names in its file, without those that this parameter does not have.

    Assign a new tensor of the same shape to change one. All transforms of a step see it, and the state gets its values
    when the step has succeeded. In a step that GradScaler skips, transforms are not called.
    """


def _rate_factor(one: Tensor, group: Group) -> float:
    if "adjust_lr_fn" not in group:  # the rule scales its updates itself
        return 1.0
    rows, columns = one.shape
    if group["adjust_lr_fn"] == "match_rms_adamw":
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
    eps = float(group["ns_eps" if "ns_eps" in group else "eps"])
    for batch in _batches(values):
        dtype = torch.bfloat16 if group["ns_dtype"] == "bf16" else batch[0].dtype
        x = torch.stack([_prepared(one, dtype, eps) for one in batch])
        for _ in range(int(group["ns_steps"])):
            gram = x @ x.mT
            update = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
            x = torch.baddbmm(x, update, x, beta=a)
        for one, made in zip(batch, x, strict=True):
            made = made.T if one.size(0) > one.size(1) else made
            one.copy_(made.to(one.dtype) * _rate_factor(one, group))


def _check_matrices(transform: str, before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    """A transform may replace matrices, but not add others."""
    for name, made in after.items():
        assigned = f"jitstep: the host transform {transform!r} assigned"
        if name not in before:
            has = ", ".join(before) or "none"
            hint = errors.did_you_mean(name, set(before))
            raise ValueError(
                f"{assigned} the matrix {name!r}, which this parameter does not have.{hint} Matrices: {has}."
            )
        wanted = f"the matrix {name!r} of the shape {list(before[name].shape)}. Assign a tensor of this shape."
        if not isinstance(made, Tensor):
            raise TypeError(f"{assigned} {_shown_type(made)} to {wanted}")
        if made.shape != before[name].shape:
            raise ValueError(f"{assigned} a tensor of the shape {list(made.shape)} to {wanted}")
        if made.is_meta or made.layout != torch.strided or not made.is_floating_point():
            kind = f"{made.layout} {made.dtype} tensor on {made.device}"
            raise ValueError(f"{assigned} a {kind} to the matrix {name!r}. Assign a dense floating-point tensor.")


def _each(name: str, function: Callable[[TransformCall], object]) -> Callable[[list[TransformCall]], None]:
    def run(calls: list[TransformCall]) -> None:
        for call in calls:
            before = dict(call.matrices)
            shape, memory = call.values.shape, call.values.data_ptr()
            function(call)
            _check_matrices(name, before, call.matrices)
            if call.values.shape != shape or call.values.data_ptr() != memory:
                raise ValueError(
                    f"jitstep: the host transform {name!r} gave its tensor another shape or memory, which would be "
                    "ignored. Return a new tensor, or write the values in place, such as by copy_()."
                )

    return run


_transforms: dict[str, Callable[[list[TransformCall]], None]] = {
    "newton_schulz": newton_schulz,
    "shampoo": _each("shampoo", preconditioners.shampoo),
    "soap_gradient": _each("soap_gradient", preconditioners.soap_gradient),
    "soap_momentum": _each("soap_momentum", preconditioners.soap_momentum),
    "soap_update": _each("soap_update", preconditioners.soap_update),
}


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
        if made.is_complex() or made.is_meta or made.layout is not torch.strided:
            raise ValueError(
                f"{returned} a tensor of {made.dtype} on {made.device} with the layout {made.layout}. Return a dense "
                f"tensor of real numbers of the {wanted}"
            )
        call.values.copy_(made)

    _register(name, function, assign, replace)


def register_parameter_transform(
    name: str, function: Callable[[TransformCall], object], *, replace: bool = False
) -> None:
    """Like register_host_transform(), for a function that needs the parameter's step number or matrices of state.

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

    _transforms[name] = _each(name, call_one)


@contextmanager
def _exact(values: list[Tensor]) -> Iterator[None]:
    """Neither autograd nor autocast: a step in a program's autocast region has the bits of one outside of it."""
    with torch.no_grad(), ExitStack() as stack:
        for device_type in {one.device.type for one in values}:
            stack.enter_context(torch.autocast(device_type, enabled=False))
        yield


class StepTransforms:
    """The host transforms of one step. The kernels call it with the number of a transform."""

    def __init__(self, names: list[str], matrices: dict[str, str], groups: list[Group], state: dict[Tensor, Any]):
        self._names, self._matrices, self._groups, self._state = names, matrices, groups, state
        self._of_parameter: dict[Tensor, dict[str, Tensor]] = {}

    def __call__(self, number: int, given: list[TransformedTensor]) -> None:
        """Calls a transform once per group."""
        name = self._names[number]
        if name not in _transforms:
            raise ValueError(f"the host transform {name!r} is unknown. Add it with jitstep.register_host_transform().")
        by_group: dict[int, list[TransformCall]] = defaultdict(list)
        for group, values, step, p in given:
            if p.dim() == 0 and values.numel() == 1:  # kernels have it as a vector
                values = values.view(())
            by_group[group].append(TransformCall(values, self._groups[group], step, self._matrices_of(p)))
        with _exact([values for _, values, _, _ in given]):
            for calls in by_group.values():
                _transforms[name](calls)
            for _, _, _, p in given:
                self._copy_views(p)

    def _matrices_of(self, p: Tensor) -> dict[str, Tensor]:
        if not self._matrices:
            return {}
        if p not in self._of_parameter:
            entries = self._state[p]
            self._of_parameter[p] = {name: entries[key] for name, key in self._matrices.items() if key in entries}
        return self._of_parameter[p]

    def _assigned(self, p: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Name, stored matrix and new value of each matrix that transforms have assigned."""
        for name, made in self._of_parameter.get(p, {}).items():
            stored = self._state[p][self._matrices[name]]
            if stored.data_ptr() != made.data_ptr() or stored.stride() != made.stride():
                yield name, stored, made

    def _copy_views(self, p: Tensor) -> None:
        """Copies new values that are views of stored matrices, before the step: memory may run out."""
        found = self._of_parameter.get(p, {})
        storages = {self._state[p][self._matrices[name]].untyped_storage()._cdata for name in found}
        for name, _, made in list(self._assigned(p)):
            if made.untyped_storage()._cdata in storages:
                found[name] = made.clone()

    def keep_matrices(self) -> None:
        """Stores the matrices that transforms have assigned in the memory of the old ones."""
        with torch.no_grad():
            for p in self._of_parameter:
                for _, stored, made in self._assigned(p):
                    stored.copy_(made)


def _completed(group: Group, description: dict[str, Any]) -> Group:
    absent = [one for one in description["options"] if group.get(one["name"]) is None]
    constructed = group.get("constructed", {})
    values = {one["name"]: constructed.get(one["name"], one["default"]) for one in absent}
    return {**group, **values} if values else group


def of_step(description: dict[str, Any], groups: list[Group], state: dict[Tensor, Any]) -> StepTransforms | None:
    """The host transforms of a rule for one step. None if it has none."""
    if not description["transforms"]:
        return None
    completed = [_completed(group, description) for group in groups]
    return StepTransforms(description["transforms"], description["matrices"], completed, state)
