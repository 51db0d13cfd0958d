"""Parameter groups, and the state of their parameters: the base of Optimizer."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from . import _core, sharded, state, storage, words

if TYPE_CHECKING:
    from .backward import BackwardSteps
    from .inspect import Tuning

# Arguments of all classes, in addition to the options of their rule.
FORMATS: dict[str, Any] = {"state": None, "weights": None, "seed": None, "min_quantized_size": None}
# torch's own arguments that select an implementation. jitstep has one, which is fused.
TORCH_FLAGS: dict[str, Any] = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
# Keys of parameter groups that are no options: those of torch, of its schedulers, and of jitstep.
_OTHER_KEYS = {
    "params", "param_names", "constructed", "initial_lr", "max_lr", "min_lr", "swa_lr",
    "base_momentum", "max_momentum", "rule", "schema", "mode", "shared_state",
}  # fmt: skip
# torch's Adam is AdamW with this option.
_DECOUPLED = {"adam": "adamw"}


def option_defaults(description: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of all options, except those that other options set when a group is made.

    torch's schedulers set such a key, `initial_lr`, unless it exists.
    """
    options = {o["name"]: o["default"] for o in description["options"] if not o["at_construction"]}
    if description["name"] in _DECOUPLED:
        options["decoupled_weight_decay"] = False
    return options


def decoupled_rule(rule: str, options: Mapping[str, Any]) -> str:
    """The rule of a group with these options."""
    return _DECOUPLED[rule] if rule in _DECOUPLED and options.get("decoupled_weight_decay") else rule


def settle_decay(rule: str, group: dict[str, Any]) -> None:
    """torch's AdamW decouples the decay of each group that it loads, also of a checkpoint of Adam."""
    if rule in _DECOUPLED.values() and "decoupled_weight_decay" in group:
        group["decoupled_weight_decay"] = True


class GroupedOptimizer(torch.optim.Optimizer):
    """torch's groups, with options that are checked, and state in the formats of the kernels."""

    rule: str = ""
    save_values: bool = False
    """state_dict() of shards has float32 values in place of a codec's bytes. Set it to load a checkpoint of another
    format with torch.distributed.checkpoint, which loads only entries that the optimizer has."""
    _description: dict[str, Any]
    _groups: list[_core.Group]
    _stepper: _core.Stepper
    _pairs: dict[Tensor, state.Pairs]
    _mode: str
    _backward: "BackwardSteps | None"
    _tuning: "Tuning | None"
    _inputs: dict[Tensor, dict[int, Tensor]]
    _counters: dict[Tensor, Tensor]

    def __init__(self, rule: str, params: Any, **options: Any) -> None:
        self._setup(rule)
        name = type(self).__name__
        if options.get("fused") and options.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        if options.get("differentiable"):
            raise RuntimeError(f"{name} does not support `differentiable`: autograd does not record its steps.")
        known = self._known_options()
        for option in options:
            if option not in known:
                hint = words.did_you_mean(option, known)
                raise TypeError(f"{name} has no option {option!r}.{hint} Options: {', '.join(sorted(known))}")
        defaults = {**option_defaults(self._description), **FORMATS, **TORCH_FLAGS, **options}
        lr = defaults.get("lr")
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        self._checked_group(defaults)
        super().__init__(params, defaults)

    def _known_options(self) -> set[str]:
        rules = {o["name"] for o in self._description["options"]} | set(option_defaults(self._description))
        return rules | set(FORMATS) | set(TORCH_FLAGS)

    def _setup(self, rule: str) -> None:
        # Through __dict__, because torch's own __setstate__ may run before __init__.
        self.__dict__.update(
            rule=rule,
            _description=_core.describe(rule),
            _groups=[],
            _stepper=_core.Stepper(),
            _pairs={},
            _mode="train",
            _backward=None,
            _tuning=None,
            _inputs={},
            _counters={},
        )

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """With fused=True, GradScaler leaves the unscaling and the check for infinities to the step, as in torch."""
        return bool(self.defaults.get("fused"))

    # ---- parameter groups

    def __repr__(self) -> str:
        """As torch's, without `constructed`, which no program sets."""
        return re.sub(r"^    constructed: .*\n", "", super().__repr__(), flags=re.MULTILINE)

    def _rule_of(self, options: Mapping[str, Any]) -> str:
        """The rule of a group."""
        return decoupled_rule(self.rule, options)

    def _checked_group(self, options: dict[str, Any]) -> _core.Group:
        """The options of a group. Raises ValueError, in torch's words where it has some."""
        group = _core.Group(self._rule_of(options))
        try:
            group.refresh(options, True)
        except _core.OptionError as error:
            raise words.option_error(self.rule, error, options) from None
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        except ValueError as error:
            raise words.refusal(self.rule, error, options) from None
        return group

    @_disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            self._warn_of_misspelled(self.param_groups[-1])
            self._accept_group(self.param_groups[-1])
        except Exception:
            self._remove_last_group()
            raise
        self._stepper.drop()

    def _remove_last_group(self) -> None:
        for p in self.param_groups.pop()["params"]:
            self.state.pop(p, None)
            self._pairs.pop(p, None)
        del self._groups[len(self.param_groups) :]

    def _warn_of_misspelled(self, group: dict[str, Any]) -> None:
        """torch permits keys of the user. Those that look like an option are probably a mistake."""
        known = self._known_options()
        for key in group.keys() - known - _OTHER_KEYS:
            if hint := words.did_you_mean(str(key), known, closeness=0.85):
                text = f"jitstep: {type(self).__name__} ignores the key {key!r} of a parameter group.{hint}"
                warn(text, stacklevel=words.stacklevel())

    def _accept_group(self, group: dict[str, Any]) -> None:
        checked = self._checked_group(group)
        constructed = checked.constructed()
        if constructed:
            group.setdefault("constructed", constructed)
        number = checked.first = sum(len(other["params"]) for other in self.param_groups[:-1])
        for p in group["params"]:
            if words.has_kernels(p) and p.layout == torch.strided and not words.never_trains(p):
                self._accept_parameter(checked, p, number)
            number += 1
        self._groups.append(checked)

    def _accept_parameter(self, group: _core.Group, p: Tensor, number: int) -> None:
        try:
            plan = self._plan(group, p, number)
        except RuntimeError:
            return  # a complex parameter: an error of the step, as in torch
        if self._description["early_state"]:
            self._bind(p, plan)

    def _plan(self, group: _core.Group, p: Tensor, number: int) -> _core.ParamPlan:
        try:
            if p.is_conj() or p.is_neg():
                raise ValueError("it is a conjugate or negative view. Use resolve_conj().resolve_neg().")
            whole = list(p.shape) if sharded.is_dtensor(p) else []
            plan = _core.ParamPlan(group, sharded.local(p).detach(), number, whole)
            if sharded.is_dtensor(p):
                sharded.check(p, plan.is_elementwise, type(self).__name__)
                plan = plan.with_offset(sharded.first_element(p))
            return plan
        except ValueError as error:
            raise words.parameter_error(self.rule, type(self).__name__, error, number, p) from None

    def _core_groups(self) -> list[_core.Group]:
        """The options of all groups, up to date."""
        rules = [self._rule_of(group) for group in self.param_groups]
        if [core.rule for core in self._groups] != rules:
            self._groups = [_core.Group(rule) for rule in rules]
        return self._refreshed(self._groups)

    def _other_groups(self) -> list[_core.Group]:
        """The same in new objects, for tables that are not those of steps."""
        return self._refreshed([_core.Group(self._rule_of(group)) for group in self.param_groups])

    def _refreshed(self, groups: list[_core.Group]) -> list[_core.Group]:
        first = 0
        for core, group in zip(groups, self.param_groups, strict=True):
            core.refresh(group)
            core.first = first
            first += len(group["params"])
        return list(groups)

    def _forget_replaced(self) -> None:
        """Drops what is held for tensors that are no parameters any more, as programs that grow or prune models do."""
        present = {p for _, _, p in self._numbered()}
        held: tuple[dict[Tensor, Any], ...] = (self._pairs, self._inputs, self._counters)
        for of_parameters in held:
            for p in [p for p in of_parameters if p not in present]:
                del of_parameters[p]

    def _numbered(self) -> Iterator[tuple[int, int, Tensor]]:
        """Number, group and tensor of each parameter."""
        number = 0
        for g, group in enumerate(self.param_groups):
            for p in group["params"]:
                yield number, g, p
                number += 1

    def plan_of(self, parameter: Tensor) -> _core.ParamPlan:
        """The kernel and the state layout of a parameter, for tools."""
        groups = self._core_groups()
        for number, g, p in self._numbered():
            if p is parameter:
                return self._plan(groups[g], p, number)
        raise ValueError("the tensor is not a parameter of this optimizer")

    def row_slots(self, parameter: Tensor) -> list[_core.SlotInfo]:
        """The state buffers of one index of dimension 0 of a parameter, for tools."""
        groups = self._core_groups()
        row = torch.empty((1, *parameter.shape[1:]), dtype=parameter.dtype)
        for number, g, p in self._numbered():
            if p is parameter:
                return _core.ParamPlan(groups[g], row, number, list(p.shape)).slots()
        raise ValueError("the tensor is not a parameter of this optimizer")

    # ---- inputs

    @_disable_dynamo
    def set_input(self, parameter: Tensor, name: str, value: Tensor | None) -> None:
        """Gives a parameter's next step an input that its rule reads in addition to the gradient.

        An example is "hessian" of Sophia. `value` has the parameter's shape, and is copied. The next step in which the
        parameter has a gradient reads it once. A second call before that step replaces it, and None takes it back.
        Gradient options such as max_grad_norm do not change it. An unknown name, another tensor or another shape raises
        ValueError.
        """
        known = self._description["inputs"]
        if name not in known:
            has = ", ".join(known) or "none"
            raise ValueError(f"set_input(): {self.rule} has no input {name!r}. Inputs of {self.rule}: {has}.")
        plan = self.plan_of(parameter)
        number = known.index(name)
        if value is None:
            self._inputs.get(parameter, {}).pop(number, None)
            return
        if value.shape != parameter.shape:
            raise ValueError(
                f"set_input(): {name!r} has the shape {list(value.shape)}, and the parameter {list(parameter.shape)}. "
                "Pass one value per element."
            )
        p = sharded.local(parameter)
        with torch.no_grad():
            copied = storage.empty(p, plan.compact_strides(), storage.value_dtype(p))
            copied.copy_(sharded.part_of(value, parameter))
        self._inputs.setdefault(parameter, {})[number] = copied

    def _check_inputs(self, p: Tensor, plan: _core.ParamPlan, number: int) -> None:
        """Raises ValueError if a parameter with inputs has another form than in set_input()."""
        local = sharded.local(p)
        for value in self._inputs.get(p, {}).values():
            now = storage.empty(local, plan.compact_strides(), storage.value_dtype(local))
            same_memory = now.shape == value.shape and now.stride() == value.stride()
            if not same_memory or now.dtype != value.dtype or now.device != value.device:
                raise ValueError(
                    f"jitstep: parameter {number} has another shape, dtype, device or memory format than in "
                    "set_input(). Call it again."
                )

    def _forget_inputs(self, stepped: list[Tensor]) -> None:
        for p in stepped:
            self._inputs.pop(p, None)

    # ---- state

    def _bind(self, p: Tensor, plan: _core.ParamPlan, *, with_weights: bool = True, counted: bool = False) -> Any:
        pairs = self._pairs.setdefault(p, {})
        local = sharded.local(p)
        _core.refuse_capture(local.detach())
        restarts = bool(self._description["no_step_number"]) and not self._description["aux_names"]
        return state.bind(
            local, plan, self.state[p], pairs, with_weights=with_weights, counted=counted, restarts=restarts
        )

    @_disable_dynamo
    def init_state(self) -> None:
        """Creates the state of all parameters that require gradients and have none, without a step.

        torch.distributed.checkpoint otherwise takes a step with lr=0 for that, and that step counts.
        """
        groups = self._core_groups()
        for number, g, p in self._numbered():
            if p.requires_grad and words.has_kernels(p) and not self.state.get(p):
                self._bind(p, self._plan(groups[g], p, number))

    def fp32_weights(self) -> list[Tensor]:
        """The weights that the optimizer computes with, in the order of the parameters: new float32 tensors.

        They include the residual of the weight format, so they can be more precise than the parameters.
        """
        groups = self._core_groups()
        found = []
        for number, g, p in self._numbered():
            if words.never_trains(p):
                found.append(p.detach().float())
                continue
            plan = self._plan(groups[g], p, number)
            weights = state.weights(sharded.local(p), plan, self.state.get(p, {}))
            found.append(sharded.whole(p, weights) if sharded.is_dtensor(p) else weights)
        return found

    def value(self, parameter: Tensor, name: str) -> Tensor:
        """A state buffer such as "exp_avg" as a new tensor of float values, for any state format."""
        found = self._values(parameter, self.plan_of(parameter))
        if name not in found:
            if not self.state.get(parameter):
                raise KeyError(f"{self.rule} has no state for this parameter yet. Take a step, or call init_state().")
            has = ", ".join(found) or "none"
            raise KeyError(f"{self.rule} has no state {name!r} for this parameter. State: {has}.")
        value: Tensor = found[name]
        return value

    def _values(self, p: Tensor, plan: _core.ParamPlan) -> dict[str, Any]:
        held = self.state.get(p, {})
        return state.values(sharded.local(p), plan, held, self._pairs.get(p, {}))
