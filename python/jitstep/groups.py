"""Parameter groups, and the state of their parameters: the base of Optimizer."""

import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from warnings import warn

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from . import _core, completeness, errors, inputs, sharded, state, supported
from .binding import Pairs
from .conversion import Conversion
from .inspect import ParameterFormats
from .options import (
    FORMATS,
    NOT_GIVEN,
    TORCH_FLAGS,
    decoupled_rule,
    option_defaults,
    refuse_coupled,
    torchs_keys,
)
from .rollback import restored_on_error
from .status import Status

_T = TypeVar("_T")


class GroupedOptimizer(torch.optim.Optimizer):
    """torch's groups, with options that are checked, and state in the formats of the kernels."""

    rule: str
    _description: dict[str, Any]
    _groups: list[_core.Group]
    _stepper: _core.Stepper
    _pairs: dict[Tensor, Pairs]
    _bound: dict[Tensor, frozenset[str]]
    _status: Status
    _inputs: dict[Tensor, dict[int, Tensor]]
    _counters: dict[Tensor, Tensor]
    _warned: set[torch.dtype]

    def __init__(self, rule: str, params: Any = NOT_GIVEN, **options: Any) -> None:
        name = type(self).__name__
        errors.check_rule(name, rule, params is not NOT_GIVEN)
        self._setup(rule)
        if options.get("fused") and options.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        known = self._known_options()
        for option in options:
            if option not in known:
                hint = errors.did_you_mean(option, known)
                raise TypeError(f"{name} has no option {option!r}.{hint} Options: {', '.join(sorted(known))}")
        defaults = {**option_defaults(self._description), **FORMATS, **TORCH_FLAGS, **torchs_keys(rule), **options}
        errors.check_tensors(rule, defaults)
        self._checked_group(defaults)
        super().__init__(params, defaults)

    def _known_options(self) -> set[str]:
        options = {o["name"] for o in self._description["options"]} | set(option_defaults(self._description))
        return options | set(FORMATS) | set(TORCH_FLAGS)

    def _setup(self, rule: str) -> None:
        # Through __dict__, because torch's own __setstate__ may run before __init__.
        self.__dict__.update(
            rule=rule,
            _description=_core.describe(rule),
            _groups=[],
            _stepper=_core.Stepper(),
            _pairs={},
            _bound={},
            _status=self.__dict__.get("_status") or Status(weakref.ref(self)),
            _inputs={},
            _counters={},
            _warned=self.__dict__.get("_warned", set()),
        )

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """With fused=True, GradScaler leaves the unscaling and the check for infinities to the step, as in torch.

        True also for steps in backward(), so that GradScaler calls step(), which raises an error that helps.
        """
        return self._status.backward is not None or bool(self.defaults.get("fused"))

    @property
    def save_values(self) -> bool:
        """True if state_dict() has float32 values in place of a codec's bytes.

        Set it to load a checkpoint of another format, or to exchange one between FSDP2 and whole parameters, with
        torch.distributed.checkpoint, which loads only entries that the optimizer has.
        """
        return self._status.save_values

    @save_values.setter
    def save_values(self, on: bool) -> None:
        self._status.save_values = on

    # ---- parameter groups

    def __repr__(self) -> str:
        """As torch's, without `constructed`, which no program sets."""
        return re.sub(r"^    constructed: .*\n", "", super().__repr__(), flags=re.MULTILINE)

    def _rule_of(self, options: Mapping[str, Any]) -> str:
        """The rule of a group."""
        return decoupled_rule(self.rule, options)

    def _checked_group(self, options: dict[str, Any]) -> _core.Group:
        """The options of a group. Raises ValueError, in torch's words where it has some."""
        name = type(self).__name__
        group = _core.Group(self._rule_of(options))
        refuse_coupled(self.rule, options)
        try:
            group.refresh(options, True)
        except _core.OptionError as error:
            raise errors.option_error(self.rule, error, options) from None
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        except ValueError as error:
            raise errors.refusal(self.rule, error, options) from None
        return group

    @_disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        try:
            with restored_on_error(self, added["params"]):
                errors.warn_of_misspelled(type(self).__name__, added, self._known_options())
                self._accept_group(added)
        except BaseException:
            self.param_groups.pop()
            del self._groups[len(self.param_groups) :]
            raise
        self._stepper.drop()

    def _forget_state(self, p: Tensor) -> None:
        self.state.pop(p, None)
        self._pairs.pop(p, None)
        self._bound.pop(p, None)

    def _accept_group(self, group: dict[str, Any]) -> None:
        checked = self._checked_group(group)
        constructed = checked.constructed()
        if constructed:
            group.setdefault("constructed", constructed)
        number = checked.first = sum(len(other["params"]) for other in self.param_groups[:-1])
        for p in group["params"]:
            if supported.has_kernels(p) and p.layout == torch.strided and not supported.never_trains(p):
                self._accept_parameter(checked, p, number)
            number += 1
        self._groups.append(checked)

    def _accept_parameter(self, group: _core.Group, p: Tensor, number: int) -> None:
        try:
            plan = self._plan(group, p, number)
        except RuntimeError:
            return  # a complex parameter: an error of the step, as in torch
        self._warn_of_weights(p, plan, self.param_groups[-1])
        if self._description["early_state"]:
            self._bind(p, plan)

    def _warn_of_weights(self, p: Tensor, plan: _core.ParamPlan, group: Mapping[str, Any]) -> None:
        """For 16-bit parameters, whose small updates are lost without a format. Others need none."""
        asked = group.get("weights")
        if asked in (None, plan.weights) or p.dtype not in supported.HALF_DTYPES or p.dtype in self._warned:
            return
        self._warned.add(p.dtype)
        warn(errors.unmet_weights(asked, p.dtype), stacklevel=errors.stacklevel())

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
            raise self._parameter_error(error, number, p) from None

    def _parameter_error(self, error: ValueError, number: int, p: Tensor) -> Exception:
        """The error of a parameter that the rule or its formats do not support."""
        return errors.parameter_error(self.rule, type(self).__name__, error, self._shown(number, p), p)

    def _shown(self, number: int, p: Tensor) -> str:
        """A parameter for messages."""
        names = [name for group in self.param_groups for name in group.get("param_names", group["params"])]
        named = number < len(names) and isinstance(names[number], str)
        return errors.shown_parameter(number, p, names[number] if named else "")

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
        """Drops what belongs to tensors that are no parameters any more, as programs that grow or prune models do."""
        present = {p for _, _, p in self._numbered()}
        owned: tuple[dict[Tensor, Any], ...] = (self._pairs, self._bound, self._inputs, self._counters)
        for of_parameters in owned:
            for p in [p for p in of_parameters if p not in present]:
                del of_parameters[p]

    def _numbered(self) -> Iterator[tuple[int, int, Tensor]]:
        """Number, group and tensor of each parameter."""
        number = 0
        for g, group in enumerate(self.param_groups):
            for p in group["params"]:
                yield number, g, p
                number += 1

    def _place(self, parameter: Tensor) -> tuple[int, int]:
        """Number and group of a parameter."""
        for number, g, p in self._numbered():
            if p is parameter:
                return number, g
        raise ValueError(
            f"jitstep: the tensor of the shape {list(parameter.shape)} is not a parameter of this optimizer. Pass "
            "one of param_groups."
        )

    def plan_of(self, parameter: Tensor) -> _core.ParamPlan:
        """The kernel and the state layout of a parameter, for tools."""
        number, g = self._place(parameter)
        supported.check_has_kernels(number, parameter)
        return self._plan(self._core_groups()[g], parameter, number)

    def plan_of_row(self, parameter: Tensor, dtype: str | None = None) -> _core.ParamPlan:
        """The plan of one index of dimension 0 of a parameter, or of one of another dtype, for tools."""
        number, g = self._place(parameter)
        row = torch.empty((1, *parameter.shape[1:]), dtype=getattr(torch, dtype) if dtype else parameter.dtype)
        return _core.ParamPlan(self._core_groups()[g], row, number, list(parameter.shape))

    def formats_of(self, parameter: Tensor) -> ParameterFormats:
        """The formats of a parameter, after its dtype and size have been applied to those of its group.

        Float64 parameters, and small ones in formats with scales of blocks, have float32 or float64 state. Weights are
        "native" if the weight format that was asked for does not support the dtype.
        """
        return ParameterFormats.of(self.plan_of(parameter))

    # ---- inputs

    @_disable_dynamo
    def set_input(self, parameter: Tensor, name: str, value: Tensor | None) -> None:
        """Gives a parameter's next step an input that its rule reads in addition to the gradient.

        An example is "hessian" of Sophia. `value` has the parameter's shape, and is copied. The next step in which the
        parameter has a gradient reads it once. A second call before that step replaces it, and None takes it back.
        Gradient options such as max_grad_norm do not change it. An unknown name, another tensor, another shape or
        complex values raise ValueError. What is no tensor raises TypeError.
        """
        inputs.set_input(self, parameter, name, value)

    # ---- state

    def _bind(self, p: Tensor, plan: _core.ParamPlan, *, counted: bool = False) -> tuple[_core.Buffers, Conversion]:
        rollback = self._status.rollback
        before_rewrite = rollback.keep_values if rollback else None
        bind = partial(completeness.bind, self, p)
        return self._with_state(bind, p, plan, counted=counted, before_rewrite=before_rewrite)

    def _with_state(self, change: Callable[..., _T], p: Tensor, plan: _core.ParamPlan, **options: Any) -> _T:
        """Calls a function of the module `state` for a parameter, and names the parameter in its errors."""
        pairs = self._pairs.setdefault(p, {})
        local = sharded.local(p)
        _core.check_not_capturing(local.detach())
        restarts = bool(self._description["no_step_number"]) and not self._description["aux_names"]
        try:
            return change(local, plan, self.state[p], pairs, restarts=restarts, **options)
        except ValueError as error:
            raise ValueError(f"jitstep: {self._shown(self._place(p)[0], p)}: {error}") from None

    @_disable_dynamo
    def init_state(self) -> None:
        """Creates the state of all parameters that require gradients and have none, without a step.

        torch.distributed.checkpoint otherwise takes a step with lr=0 for that, and that step counts. Raises
        RuntimeError for a parameter on a device without kernels, such as "meta".
        """
        groups = self._core_groups()
        for number, g, p in self._numbered():
            if p.requires_grad and not self.state.get(p):
                supported.check_has_kernels(number, p)
                self._bind(p, self._plan(groups[g], p, number))

    def fp32_weights(self) -> list[Tensor]:
        """The weights that the optimizer computes with, in the order of the parameters: new float32 tensors.

        They include the residual of the weight format, so they can be more precise than the parameters. The weights of
        complex parameters are complex.
        """
        groups = self._core_groups()
        found = []
        for number, g, p in self._numbered():
            if supported.never_trains(p):
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
        entries = self.state.get(p, {})
        return state.values(sharded.local(p), plan, entries, self._pairs.get(p, {}))
