"""torch.optim.Optimizer over jitstep::jit. torch keeps groups, state and hooks. A step is one call of the module."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from . import (
    _core,
    checkpoint,
    counting,
    errors,
    gradients,
    inputs,
    inspect,
    progress,
    scaler,
    supported,
    tables,
    transforms,
)
from .backward import BackwardSteps, has_consumer
from .conversion import Conversion
from .groups import GroupedOptimizer
from .options import FORMATS, TORCH_FLAGS, option_defaults, settle_decay
from .rollback import restored_on_error

_core.use_exchange(
    getattr(torch.Tensor, "__dlpack_c_exchange_api__", getattr(torch.Tensor, "__c_dlpack_exchange_api__", None))
)


class Optimizer(GroupedOptimizer):
    """Any optimizer by the name of its rule: Optimizer("adamw", params, lr=1e-3, state="int8").

    Options have the names of the rule. An unknown one raises TypeError, an invalid value ValueError. jitstep.AdamW and
    so on are subclasses.
    """

    # ---- steps

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Takes one step of all parameters that have a gradient.

        Raises jitstep.MissingCompilerError if a kernel must be compiled and there is no C++ compiler. The first step
        with new formats or flags compiles for about a second, unless the kernel is in the cache.
        """
        loss = None
        if closure is not None:
            self._check_training()
            with torch.enable_grad():
                loss = closure()
        if torch.compiler.is_compiling():
            torch._dynamo.graph_break()
        self._step()
        return loss

    @_disable_dynamo
    def _step(self) -> None:
        try:
            self._take_step()
        except BaseException:
            scaler.take_back(self)
            raise

    def _take_step(self) -> None:
        errors.check_not_tracing()
        self._check_training()
        scale, found_inf = scaler.grad_scale(self), scaler.found_inf(self)
        if self._status.backward is not None:
            if getattr(self, "found_inf", None) is not None:
                raise RuntimeError("jitstep: GradScaler needs all gradients at once. Call step_in_backward(False).")
            if all(p.grad is None for _, _, p in self._numbered()):
                return
        _core.set_threads(torch.get_num_threads())
        transform = transforms.of_step(self._description, self.param_groups, self.state)
        given = (self.state, scale, found_inf, transform, self._inputs)
        result = self._stepper.step(self.param_groups, *given)
        if result == _core.Result.rebuild:
            parameters = [p for _, _, p in self._numbered()]
            with gradients.readable(self), restored_on_error(self, parameters):
                self._prepare(scale is not None)
                result = self._stepper.step(self.param_groups, *given)
                if result == _core.Result.rebuild:
                    raise errors.changed_during_step()
        if result == _core.Result.done:
            if transform is not None:
                transform.keep_matrices()
            self._after_step(scale, found_inf)
        else:  # the step is skipped
            if self._inputs:
                inputs.forget(self, self._stepper.stepped())
            if self._description["shared"]:
                self._stepper.drop()  # before step 1, its initial values follow the options

    def _check_training(self) -> None:
        if self._status.mode == "eval":
            raise RuntimeError(f"step() of {type(self).__name__} in evaluation mode. Call train() first.")

    def _after_step(self, scale: Tensor | None, found_inf: Tensor | None) -> None:
        stepped = self._stepper.stepped()
        if not stepped:
            return
        counting.count(self, stepped, found_inf)
        torch.autograd.graph.increment_version(stepped)
        if self._inputs:
            inputs.forget(self, stepped)
        if scale is not None:
            scaler.unscale(stepped, scale)
        self._stepper.finish_trial()  # may call the user's function
        if self._status.tuning is not None:
            self._status.tuning.show(*self._stepper.tuning_progress())

    def _prepare(self, scaled: bool) -> None:
        """Builds the tables for the current gradients, and the state of parameters that have none yet."""
        self._forget_replaced()
        groups = self._core_groups()
        self._stepper.begin(groups, groups)
        self._restart_shared_state()
        converted = Conversion()
        plans: dict[int, _core.ParamPlan] = {}
        for number, g, p in self._numbered():
            if p.grad is None and (supported.never_trains(p) or not self.state.get(p)):
                continue
            supported.check_device(number, p, bool(self.param_groups[g].get("fused")))
            plans[number] = self._plan(groups[g], p, number)
            self._warn_of_weights(p, plans[number], self.param_groups[g])
            inputs.check(self, p, plans[number], number)
        counted = counting.on_device(self, plans)
        owners: dict[int, int] = {}  # of the step numbers, by address
        for number, g, p in self._numbered():
            plan = plans.get(number)
            if plan is None:
                self._stepper.add_inactive(p)
                continue
            try:
                buffers, conversion = self._bind(p, plan, counted=counted)
            except ValueError:
                if p.grad is not None or self._description["modes"]:
                    raise
                self._stepper.add_inactive(p)  # its state is of an earlier form: an error if it gets a gradient
                continue
            converted.include(conversion)
            self._check_own_step(p, number, owners)
            counter = counting.counter(self, p) if counted else None
            tables.add(self, self._stepper, number, p, plan, buffers, group=g, counter=counter)
        names = {plan.name for plan in plans.values()}
        with progress.polled(len(names), "jitstep compiles", "kernels", _core.compile_count, None):
            self._stepper.finish(self.state, scaled)
        converted.warn()

    def _restart_shared_state(self) -> None:
        """Before step 1 of all parameters, shared state has its initial values, by the options of this step."""
        if self._description["shared"] and not checkpoint.has_stepped(self.state):
            self._stepper.restart_shared_state()

    def _check_own_step(self, p: Tensor, number: int, owners: dict[int, int]) -> None:
        """Raises ValueError if another parameter counts with the same tensor, which would count twice in each step."""
        other = owners.setdefault(self.state[p]["step"].data_ptr(), number)
        if other != number and next(one for n, _, one in self._numbered() if n == other) is p:
            raise ValueError(f"jitstep: parameter {number} is parameter {other} once more. Pass each parameter once.")
        if other != number:
            raise ValueError(
                f"jitstep: {self._shown(number, p)}: its step is the tensor of parameter {other}. Set it to a clone()."
            )

    def _accept_group(self, group: dict[str, Any]) -> None:
        super()._accept_group(group)
        if self._status.backward is not None:
            self.step_in_backward()

    @_disable_dynamo
    def step_in_backward(self, on: bool = True) -> None:
        """Steps each parameter as soon as backward() has computed its gradient, and then frees the gradient.

        Few gradients exist at the same time. Results are the same as those of step(). Every backward() is a step of all
        parameters that it reaches. step() then steps only parameters whose gradients were set elsewhere. Raises
        ValueError for everything that needs all gradients at once: max_grad_norm, and shared state such as Prodigy's.

        backward() cannot know of a GradScaler: it has stepped with scaled gradients when scaler.step() raises
        RuntimeError. backward() raises RuntimeError with DistributedDataParallel, which averages gradients later, and
        if a nested backward(), as of re-entrant checkpoints, gives a parameter a second gradient. Hooks of step() are
        not called. An error changes nothing.
        """
        before = self._status.backward
        if on:
            self._status.backward = BackwardSteps(self._status.owner(), before)
        elif before is not None:
            before.close()
            self._status.backward = None

    @property
    def steps_in_backward(self) -> bool:
        """True after step_in_backward()."""
        return self._status.backward is not None

    @_disable_dynamo
    def tune(
        self,
        on: bool = True,
        *,
        agree: Callable[[list[float]], list[float]] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Tunes the kernels in the following steps: each tries one other launch configuration.

        Later steps use the fastest one, also in later runs. Results are the same for every configuration. Processes
        that train together need `agree`, which they call at the same step with one number per configuration that was
        tried, and which must return the same numbers in all of them. `progress` shows a bar of tqdm. Default: in a
        terminal or notebook.
        """
        if self._status.tuning is not None:
            self._status.tuning.close()
        self._status.tuning = inspect.Tuning(agree, progress) if on else None
        self._status.tunes = on
        self._stepper.tune(on, agree)

    def tuning_progress(self) -> tuple[int, int]:
        """The configurations that were tried so far, and all candidates of the current kernels."""
        return self._stepper.tuning_progress()

    # ---- modes

    @property
    def training(self) -> bool:
        """True at first and after train(). False after eval()."""
        return self._status.mode == "train"

    def train(self, mode: bool = True) -> None:
        """Gives the parameters the values for training. Call it before step(). Only for schedule-free optimizers."""
        self._switch_mode("train" if mode else "eval")

    def eval(self) -> None:
        """Gives the parameters their averages, to evaluate or save the model. Only for schedule-free optimizers."""
        self._switch_mode("eval")

    @_disable_dynamo
    def _switch_mode(self, mode: str) -> None:
        if not self._description["modes"] or mode == self._status.mode:
            return
        _core.set_threads(torch.get_num_threads())
        with gradients.readable(self), restored_on_error(self, [p for _, _, p in self._numbered()]):
            self._prepare(False)
            self._stepper.switch_mode(mode == "train")
        self._status.mode = mode
        moved = [p for _, _, p in self._numbered() if self.state.get(p)]
        if moved:
            torch.autograd.graph.increment_version(moved)

    @_disable_dynamo
    def share_memory(self) -> None:
        """Moves the state to shared memory, as torch.optim.Adagrad does, for training in several processes.

        Raises RuntimeError for optimizers with auxiliary or shared state, which processes cannot share.
        """
        if self._description["aux_names"]:
            raise RuntimeError(f"share_memory(): {type(self).__name__} has auxiliary state, which cannot be shared.")
        self.init_state()
        for entries in self.state.values():
            for value in entries.values():
                if isinstance(value, Tensor):
                    value.share_memory_()  # type: ignore[no-untyped-call]

    # ---- reports

    def kernels(self) -> inspect.KernelReports:
        """The kernels of the last step. Before the first step, compiles those that it will need.

        A list of reports, which print() and notebooks show as a table.
        """
        return inspect.kernels(self)

    def compile(self, *, progress: bool | None = None) -> None:
        """Compiles the kernels of all parameters before the first step. Creates no state.

        A parameter without a gradient counts as one with a gradient like itself, and a frozen one is left out. With
        fused=True, the first step with a GradScaler compiles other kernels. `progress` shows a bar of tqdm. Default: in
        a terminal or notebook.
        """
        inspect.preview(self, progress)

    def memory_report(self) -> inspect.MemoryReport:
        """The bytes of parameters, gradients and state. print() and notebooks show a table."""
        return inspect.memory_report(self)

    # ---- checkpoints and copies

    @_disable_dynamo
    def state_dict(self) -> dict[str, Any]:
        """As in torch: plain tensors and numbers. Has everything that the next step needs, in any format."""
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        with checkpoint.without_hooks(self):
            packed = super().state_dict()
        packed = checkpoint.complete(self, packed)
        for post_hook in self._optimizer_state_dict_post_hooks.values():  # they may return anything
            changed = post_hook(self, packed)
            packed = packed if changed is None else changed
        return packed

    @_disable_dynamo
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a checkpoint of jitstep or of torch's optimizer of the same name. Adam and AdamW load each other's.

        State is converted to this optimizer's formats, with one warning. Options and seed come from the checkpoint.
        """
        checkpoint.load(self._status.owner(), state_dict)

    def export(self) -> dict[str, Any]:
        """A state_dict for torch's optimizer of the same name, with values in the parameters' dtypes."""
        return checkpoint.export(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
            "jitstep": {
                "rule": self.rule,
                "mode": self._status.mode,
                "shared": self._stepper.shared_state(),
                "in_backward": self.steps_in_backward,
                "save_values": self.save_values,
                "tunes": self._status.tunes,
            },
            "inputs": self._inputs,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        own = state.pop("jitstep", None) or {"rule": self.rule, "mode": "train", "shared": []}
        self._setup(own["rule"])
        self._inputs = state.pop("inputs", {})
        super().__setstate__(state)
        defaults = {**option_defaults(self._description), **FORMATS, **TORCH_FLAGS}
        for group in self.param_groups:
            for name, default in defaults.items():
                group.setdefault(name, default)
            settle_decay(self.rule, group)
        self._status.mode = own["mode"]
        self.save_values = own.get("save_values", self.save_values)
        if own.get("tunes") is False:
            self.tune(False)
        if own["shared"]:
            self._stepper.set_shared_state(own["shared"])
        # copy.copy() keeps the parameters: then the first optimizer steps them.
        if own.get("in_backward") and not has_consumer([p for _, _, p in self._numbered()]):
            self.step_in_backward()
