"""torch.optim.Optimizer over jitstep::jit. torch keeps groups, state and hooks. A step is one call of the module."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from . import _core, checkpoint, inspect, state, transforms, words

# Arguments of all classes, in addition to the options of their rule.
FORMATS: dict[str, Any] = {"state": None, "weights": None, "seed": None, "min_quantized_size": None}
# torch's own arguments that select an implementation. jitstep has one, which is fused.
TORCH_FLAGS: dict[str, Any] = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
# Rules whose dense step gives the result of torch's sparse one.
_SPARSE_RULES = {"sgd", "adagrad"}

_core.use_exchange(
    getattr(torch.Tensor, "__dlpack_c_exchange_api__", getattr(torch.Tensor, "__c_dlpack_exchange_api__", None))
)


def option_defaults(description: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of all options, except those that other options set when a group is made.

    torch's schedulers set such a key, `initial_lr`, unless it exists.
    """
    return {o["name"]: o["default"] for o in description["options"] if not o["at_construction"]}


class Optimizer(torch.optim.Optimizer):
    """Any optimizer by the name of its rule: Optimizer("adamw", params, lr=1e-3, state="int8").

    Options have the names of the rule. An unknown one raises TypeError, an invalid value ValueError. jitstep.AdamW and
    so on are subclasses.
    """

    rule: str = ""
    _description: dict[str, Any]
    _groups: list[_core.Group]
    _stepper: _core.Stepper
    _pairs: dict[Tensor, state.Pairs]
    _mode: str
    _threads: int

    def __init__(self, rule: str, params: Any, **options: Any) -> None:
        self._setup(rule)
        name = type(self).__name__
        if options.get("fused") and options.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        if options.get("differentiable"):
            raise RuntimeError(f"`fused` does not support `differentiable`: autograd does not record steps of {name}.")
        known = {o["name"] for o in self._description["options"]} | set(FORMATS) | set(TORCH_FLAGS)
        for option in options:
            if option not in known:
                raise TypeError(f"{name} has no option {option!r}. Options: {', '.join(sorted(known))}")
        defaults = {**option_defaults(self._description), **FORMATS, **TORCH_FLAGS, **options}
        lr = defaults.get("lr")
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        self._checked_group(defaults)
        super().__init__(params, defaults)

    def _setup(self, rule: str) -> None:
        # Through __dict__, because torch's own __setstate__ may run before __init__.
        self.__dict__.update(
            rule=rule,
            _description=_core.describe(rule),
            _groups=[],
            _stepper=_core.Stepper(),
            _pairs={},
            _mode="train",
            _threads=0,
        )

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """With fused=True, GradScaler leaves the unscaling and the check for infinities to the step, as in torch."""
        return bool(self.defaults.get("fused"))

    # ---- parameter groups

    def _checked_group(self, options: dict[str, Any]) -> _core.Group:
        """The options of a group. Raises ValueError, in torch's words where it has some."""
        group = _core.Group(self.rule)
        try:
            group.refresh(options, True)
        except _core.OptionError as error:
            raise words.option_error(self.rule, error, options) from None
        except ValueError as error:
            raise words.refusal(self.rule, error, options) from None
        return group

    @_disable_dynamo
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            self._accept_group(self.param_groups[-1])
        except Exception:
            self.param_groups.pop()
            raise
        self._stepper.drop()

    def _accept_group(self, group: dict[str, Any]) -> None:
        checked = self._checked_group(group)
        constructed = checked.constructed()
        if constructed:
            group.setdefault("constructed", constructed)
        number = sum(len(other["params"]) for other in self.param_groups[:-1])
        for p in group["params"]:
            if hasattr(p, "_local_tensor"):
                raise TypeError("jitstep does not step DTensor parameters yet. Use DistributedDataParallel.")
            if p.device.type == "cpu" and p.layout == torch.strided:
                plan = self._plan(checked, p, number)
                if self._description["early_state"]:
                    self._bind(p, plan)
            number += 1
        self._groups.append(checked)

    def _plan(self, group: _core.Group, p: Tensor, number: int) -> _core.ParamPlan:
        try:
            return _core.ParamPlan(group, p.detach(), number)
        except ValueError as error:
            raise words.parameter_error(self.rule, type(self).__name__, error, number, p) from None

    def _core_groups(self) -> list[_core.Group]:
        """The options of all groups, up to date."""
        if len(self._groups) != len(self.param_groups):
            self._groups = [_core.Group(self.rule) for _ in self.param_groups]
        for core, group in zip(self._groups, self.param_groups, strict=True):
            core.refresh(group)
        return list(self._groups)

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

    # ---- state

    def _bind(self, p: Tensor, plan: _core.ParamPlan, *, with_weights: bool = True) -> Any:
        return state.bind(p, plan, self.state[p], self._pairs.setdefault(p, {}), with_weights=with_weights)

    def value(self, parameter: Tensor, name: str) -> Tensor:
        """A state buffer such as "exp_avg" as a new tensor of float values, for any state format."""
        found = self._values(parameter, self.plan_of(parameter))
        if name not in found:
            raise KeyError(f"{self.rule} has no state {name!r} for this parameter. It has: {', '.join(found)}")
        value: Tensor = found[name]
        return value

    def _values(self, p: Tensor, plan: _core.ParamPlan) -> dict[str, Any]:
        held = self.state.get(p, {})
        return state.values(p, plan, held, self._pairs.get(p, {}))

    # ---- steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step of all parameters that have a gradient.

        Raises jitstep.MissingCompilerError if a kernel must be compiled and there is no C++ compiler. The first step
        with new formats or flags compiles for about a second, unless the kernel is in the cache.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break()
        self._step()
        return loss

    @_disable_dynamo
    def _step(self) -> None:
        if self._mode == "eval":
            raise RuntimeError(f"step() of {type(self).__name__} in evaluation mode. Call train() first.")
        scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        self._use_threads()
        transform = self._transform if self._description["host_transform"] else None
        result = self._stepper.step(self.param_groups, self.state, scale, found_inf, transform)
        if result == _core.Result.rebuild:
            with self._dense_gradients():
                self._prepare(scale is not None)
                result = self._stepper.step(self.param_groups, self.state, scale, found_inf, transform)
                if result == _core.Result.rebuild:
                    raise RuntimeError("jitstep: parameters or state changed during step(). Use one thread.")
        if result == _core.Result.done:
            self._after_step(scale)

    def _use_threads(self) -> None:
        threads = torch.get_num_threads()
        if threads != self._threads:
            _core.set_threads(threads)
            self._threads = threads

    def _after_step(self, scale: Tensor | None) -> None:
        stepped = self._stepper.stepped()
        if not stepped:
            return
        torch.autograd.graph.increment_version(stepped)
        if scale is not None:  # torch's fused optimizers leave unscaled gradients
            with torch.no_grad():
                torch._foreach_div_([p.grad for p in stepped if p.grad is not None], scale.reshape(()))

    def _transform(self, given: list[tuple[int, int, list[int], list[int], bool]]) -> None:
        transforms.run(self._description["host_transform"], given, self.param_groups)

    @contextmanager
    def _dense_gradients(self) -> Iterator[None]:
        """Replaces gradients that kernels cannot read, until the end of the step."""
        replaced: list[tuple[Tensor, Tensor]] = []
        try:
            for _, _, p in self._numbered():
                grad = p.grad
                if grad is None or (grad.layout == torch.strided and not grad.is_conj() and not grad.is_neg()):
                    continue
                if grad.layout != torch.strided and self.rule not in _SPARSE_RULES:
                    raise RuntimeError(f"{type(self).__name__} does not support sparse gradients. Use to_dense().")
                replaced.append((p, grad))
                dense = grad if grad.layout == torch.strided else grad.to_dense()
                p.grad = dense.resolve_conj().resolve_neg()
            yield
        finally:
            for p, grad in replaced:
                p.grad = grad

    def _prepare(self, scaled: bool) -> None:
        """Builds the tables for the current gradients, and the state of parameters that have none yet."""
        groups = self._core_groups()
        self._stepper.begin(groups, groups)
        converted = state.Conversion()
        for number, g, p in self._numbered():
            if p.grad is None and not self.state.get(p):
                self._stepper.add_inactive(p)
                continue
            if p.device.type != "cpu":
                raise RuntimeError(
                    f"jitstep: parameter {number} is on {p.device}, and the Python front end has kernels for the CPU "
                    "only. Move the model to the CPU, or use the C++ front end."
                )
            plan = self._plan(groups[g], p, number)
            buffers, conversion = self._bind(p, plan)
            converted.include(conversion)
            held = self.state[p]
            like = p.detach() if p.grad is None else p.grad
            try:
                self._stepper.add(g, plan, buffers, held["step"], like, held)
            except ValueError as error:
                raise words.parameter_error(self.rule, type(self).__name__, error, number, p) from None
        self._stepper.finish(self.state, scaled)
        converted.warn(stacklevel=4)

    # ---- modes

    def train(self, mode: bool = True) -> None:
        """Moves the parameters to the point where gradients are computed. Only for schedule-free optimizers."""
        self._switch_mode("train" if mode else "eval")

    def eval(self) -> None:
        """Moves the parameters to the point to evaluate. Only schedule-free optimizers have another one."""
        self._switch_mode("eval")

    @_disable_dynamo
    def _switch_mode(self, mode: str) -> None:
        if not self._description["modes"] or mode == self._mode:
            return
        self._use_threads()
        with self._dense_gradients():
            self._prepare(False)
            self._stepper.switch_mode(mode == "train")
        self._mode = mode
        moved = [p for _, _, p in self._numbered() if self.state.get(p)]
        if moved:
            torch.autograd.graph.increment_version(moved)

    # ---- reports

    def kernels(self) -> list[inspect.KernelReport]:
        """The kernels of the last step. Before the first step, compiles those that it will need."""
        return inspect.kernels(self)

    def memory_report(self) -> inspect.MemoryReport:
        """The bytes of parameters, gradients and state. print() shows a table."""
        return inspect.memory_report(self)

    # ---- checkpoints and copies

    @_disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """As in torch: plain tensors and numbers. Has everything that the next step needs, in any format."""
        return checkpoint.complete(self, super().state_dict())

    @_disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a checkpoint of jitstep or of torch's optimizer of the same name.

        State is converted to this optimizer's formats, with one warning. Options and seed come from the checkpoint.
        """
        checkpoint.load(self, state_dict)

    def export(self) -> dict[str, Any]:
        """A state_dict for torch's optimizer of the same name, with values in the parameters' dtypes."""
        return checkpoint.export(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
            "jitstep": {"rule": self.rule, "mode": self._mode, "shared": self._stepper.shared_state()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        own = state.pop("jitstep", None) or {"rule": self.rule, "mode": "train", "shared": []}
        self._setup(own["rule"])
        super().__setstate__(state)
        defaults = {**option_defaults(self._description), **FORMATS, **TORCH_FLAGS}
        for group in self.param_groups:
            for name, default in defaults.items():
                group.setdefault(name, default)
        self._mode = own["mode"]
        if own["shared"]:
            self._stepper.set_shared_state(own["shared"])
