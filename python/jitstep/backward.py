"""Steps inside backward(): each parameter alone, as soon as its gradient is complete."""

import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from . import _core, distributed, errors, gradients, inputs, scaler, sharded, supported, tables, transforms
from .rollback import restored_on_error

if TYPE_CHECKING:
    from .optimizer import Optimizer

# torch's engine: calls a function after the backward that runs in this thread.
_engine = torch.autograd.Variable._execution_engine

# A gradient has one consumer only: a parameter's is named here. torch refuses to swap parameters with weak references:
# the swap would lose the hooks, and no error would say so.
_consumers: Any = WeakIdKeyDictionary()


_INSTEAD_OF_DDP = (
    "Call step_in_backward(False), and step() after backward(). Or use fully_shard() in place of "
    "DistributedDataParallel."
)


def _may_train(p: Tensor) -> bool:
    return p.requires_grad or ((p.is_floating_point() or p.is_complex()) and not p.is_inference())


def _add_hook(p: Tensor, hook: Callable[[Tensor], None]) -> Any:
    """The hook of a frozen parameter is called after it is unfrozen. torch adds hooks only to tensors that train."""
    trains = p.requires_grad
    p.requires_grad_()
    try:
        handle = p.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        # After torch.utils.swap_tensors(), torch lists hooks that it does not call. Setting them makes it call them.
        p._post_accumulate_grad_hooks = p._post_accumulate_grad_hooks
        return handle
    finally:
        p.requires_grad_(trains)


def has_consumer(parameters: list[Tensor]) -> bool:
    return any(p in _consumers for p in parameters)


class GradHooks:
    """Hooks that torch calls after it has accumulated a parameter's gradient, until close()."""

    def __init__(
        self,
        owner: str,
        parameters: list[Tensor],
        on_gradient: Callable[[int], None],
        instead_of_ddp: str,
        replaces: "GradHooks | None" = None,
    ) -> None:
        """Raises an error, before anything changes, if a gradient has a consumer or its parameter is no leaf.

        `instead_of_ddp`: what to do if backward() raises because of DistributedDataParallel. `replaces`: is closed.
        """
        own = {id(p) for p in replaces._parameters} if replaces else set()
        self._owner, self._instead_of_ddp = owner, instead_of_ddp
        self._gradients = 0
        self._parameters: list[Tensor] = []
        self._handles: list[Any] = []
        for number, p in enumerate(parameters):
            if p in _consumers and id(p) not in own:
                raise ValueError(
                    f"jitstep: {owner} cannot use parameter {number} of shape {list(p.shape)}: its gradients already "
                    f"go to {_consumers[p]}. Close or switch off that one first."
                )
            if not p.is_leaf:
                raise ValueError(f"jitstep: {owner} cannot use parameter {number}: it is not a leaf tensor.")
            distributed.refuse_flat(owner, number, p)
        if replaces:
            replaces.close()
        self._parameters = [p for p in parameters if _may_train(p)]
        for number, p in enumerate(parameters):
            if _may_train(p):
                _consumers[p] = owner
                self._handles.append(_add_hook(p, self._hook(number, on_gradient)))

    def _hook(self, number: int, on_gradient: Callable[[int], None]) -> Callable[[Tensor], None]:
        weak = weakref.ref(self)

        def hook(p: Tensor) -> None:
            hooks = weak()
            if p.grad is None or hooks is None:
                return
            hooks._check_averages()
            on_gradient(number)

        return hook

    def _check_averages(self) -> None:
        """Raises RuntimeError if DistributedDataParallel has the parameters now.

        A program may wrap its model after some steps, and a search takes milliseconds. So there is one at gradient 1,
        2, 4, 8 and so on: in as many backward() calls with the wrapped model as there were before.
        """
        self._gradients += 1
        if self._gradients.bit_count() == 1 and distributed.is_running():
            distributed.refuse_late_averages(self._owner, self._instead_of_ddp, self._parameters)

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        for p in self._parameters:
            _consumers.pop(p, None)
        self._handles, self._parameters = [], []

    def __del__(self) -> None:
        self.close()


def _backwards_in(frame: FrameType | None) -> tuple[int, Any]:
    """How many backward() calls of Python a thread is in, and the root of the outermost one."""
    depth, roots = 0, None
    while frame is not None:
        if frame.f_code.co_name == "_engine_run_backward":
            depth, roots = depth + 1, frame.f_locals.get("t_outputs")
        frame = frame.f_back
    root = roots[0] if roots else None
    return depth, root if isinstance(root, Tensor) else None  # the node of a GradientEdge has no weak references


def _outermost() -> tuple[int, Any]:
    """How many backward() calls of Python compute this gradient, and the root of the outermost one.

    A backward is nested in another one with torch.utils.checkpoint(use_reentrant=True).
    """
    depth, root = _backwards_in(sys._getframe(1))
    if not isinstance(threading.current_thread(), threading._DummyThread):
        return depth, root
    # A thread of torch, which computes gradients on a GPU. The thread that has called backward() waits there.
    own, frames = threading.get_ident(), sys._current_frames()
    waiting = [f for one, f in frames.items() if one != own and f.f_code.co_name == "_engine_run_backward"]
    if len(waiting) != 1:
        return depth, root
    outer, root = _backwards_in(waiting[0])
    return outer + depth, root


class Nesting:
    """Follows the backward() calls of an owner: which belong to the same outermost one."""

    def __init__(self, at_end: Callable[[bool], None]) -> None:
        """`at_end` is called after each backward, with True if it was the outermost one."""
        self._at_end = at_end
        self._task = -1  # torch's number of the backward of the last gradient
        self._root: Any = None  # of the outermost backward

    def note(self) -> tuple[bool, bool]:
        """In a hook of a gradient: if it is the first one of its backward, and of the outermost backward."""
        task = torch._C._current_graph_task_id()
        if task == self._task:
            return False, False
        self._task = task
        depth, root = _outermost()
        is_new = root is None or self._root is None or self._root() is not root
        if is_new:
            self._root = None if root is None else weakref.ref(root)

        def end() -> None:
            self.forget(outermost=depth <= 1)
            self._at_end(depth <= 1)

        _engine.queue_callback(end)
        return True, is_new

    def forget(self, *, outermost: bool = True) -> None:
        """The backward has ended."""
        self._task = -1
        if outermost:
            self._root = None


class _Owners:
    """Which parameter has a tensor of state. Each is stepped alone, so that no table shows that two have the same."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, Tensor]] = {}  # by address

    def check(self, optimizer: "Optimizer", number: int, p: Tensor) -> None:
        """Raises ValueError if another parameter has a tensor of this one's state now."""
        for name, value in optimizer.state[p].items():
            if not isinstance(value, Tensor) or value.numel() == 0 or sharded.is_dtensor(value):
                continue
            address = value.data_ptr()
            other, q = self._owners.setdefault(address, (number, p))
            if q is p:
                continue
            others = optimizer.state.get(q, {}).values()
            if any(isinstance(one, Tensor) and one.numel() and one.data_ptr() == address for one in others):
                raise ValueError(
                    f"jitstep: {optimizer._shown(number, p)}: its {name} is a tensor of parameter {other}. Set it to a "
                    "clone()."
                )
            self._owners[address] = (number, p)


class _Alone:
    """One parameter with tables of its own."""

    def __init__(self, number: int, p: Tensor, owners: "_Owners") -> None:
        self.number, self.p, self.owners = number, p, owners
        self.place = (0, 0)  # group and index in the last step
        self.stepper = _core.Stepper()
        self.stepper.tune(False, None)  # whatever the environment says

    def group(self, groups: list[dict[str, Any]]) -> int:
        """The number of the group that has the parameter now."""
        g, i = self.place
        if g >= len(groups) or i >= len(groups[g]["params"]) or groups[g]["params"][i] is not self.p:
            g, i = self.place = self.found_in(groups)
        number = sum(len(group["params"]) for group in groups[:g]) + i
        if number != self.number:  # random bits depend on it
            self.number = number
            self.stepper.drop()
        return g

    def found_in(self, groups: list[dict[str, Any]]) -> tuple[int, int]:
        for g, group in enumerate(groups):
            for i, p in enumerate(group["params"]):
                if p is self.p:
                    return g, i
        raise RuntimeError(
            f"jitstep: parameter {self.number} is in no group. Call step_in_backward() after you remove groups."
        )

    def prepare(self, optimizer: "Optimizer", g: int, *, scaled: bool) -> None:
        options = optimizer.param_groups[g]
        core = _core.Group(optimizer._rule_of(options))
        core.refresh(options)
        core.first = sum(len(group["params"]) for group in optimizer.param_groups[:g])
        plan = optimizer._plan(core, self.p, self.number)
        inputs.check(optimizer, self.p, plan, self.number)
        check_alone(optimizer, plan, self.number, self.p)
        buffers, conversion = optimizer._bind(self.p, plan)
        self.owners.check(optimizer, self.number, self.p)
        self.stepper.begin([core], [core])
        tables.add(optimizer, self.stepper, self.number, self.p, plan, buffers)
        self.stepper.finish({self.p: optimizer.state[self.p]}, scaled)
        conversion.warn()

    def step(self, optimizer: "Optimizer") -> None:
        optimizer._check_training()
        g = self.group(optimizer.param_groups)
        options = optimizer.param_groups[g]
        alone = [{**options, "params": [self.p]}]
        scale = scaler.grad_scale(optimizer)
        if getattr(optimizer, "found_inf", None) is not None:
            raise RuntimeError(
                "jitstep: found_inf skips the step of all parameters at once. Call step_in_backward(False), and step() "
                "after backward()."
            )
        transform = transforms.of_step(optimizer._description, [options], optimizer.state)
        _core.set_threads(torch.get_num_threads())
        with gradients.readable(optimizer, [self.p]):
            states = {self.p: optimizer.state[self.p]}  # not get(): the state is created here
            given = (states, scale, None, transform, optimizer._inputs)
            if self.stepper.step(alone, *given) == _core.Result.rebuild:
                with restored_on_error(optimizer, [self.p]):
                    self.prepare(optimizer, g, scaled=scale is not None)
                    if self.stepper.step(alone, *given) == _core.Result.rebuild:
                        raise errors.changed_during_step()
            if transform is not None:
                transform.keep_matrices()
        torch.autograd.graph.increment_version([self.p])
        inputs.forget(optimizer, [self.p])
        self.p.grad = None
        optimizer._opt_called = True  # type: ignore[attr-defined]  # what torch's schedulers set in step()


def check_alone(optimizer: "Optimizer", plan: _core.ParamPlan, number: int, p: Tensor) -> None:
    if plan.needs_all_tensors:
        raise ValueError(
            f"jitstep: step_in_backward() cannot step parameter {number} ({str(p.dtype).removeprefix('torch.')} "
            f"{list(p.shape)}) of {optimizer.rule}: max_grad_norm, another sum over all parameters, or shared state "
            "needs all gradients at once. Leave it out, or call step() after backward()."
        )


def check_once(number: int, stepped: set[int]) -> None:
    if number in stepped:
        raise RuntimeError(
            f"jitstep: parameter {number} gets a second gradient in the same backward(), which has already stepped it. "
            "A nested backward(), as of torch.utils.checkpoint(use_reentrant=True), computes a part of a gradient. Use "
            "use_reentrant=False, or call step_in_backward(False), and step() after backward()."
        )


class BackwardSteps:
    """All parameters of an optimizer. Closed when the optimizer is deleted."""

    _hooks: GradHooks

    def __init__(self, optimizer: "Optimizer", replaces: "BackwardSteps | None" = None) -> None:
        """Raises ValueError, before anything changes, if a parameter cannot be stepped alone. `replaces`: is closed."""
        groups = optimizer._core_groups()
        self._alone, owners = [], _Owners()
        for number, g, p in optimizer._numbered():
            if not supported.never_trains(p):
                check_alone(optimizer, optimizer._plan(groups[g], p, number), number, p)
            self._alone.append(_Alone(number, p, owners))
        trained = [one for one in self._alone if one.p.requires_grad and supported.has_memory(one.p)]
        _core.check_disjoint([sharded.local(one.p).detach() for one in trained], [one.number for one in trained])
        weak, alone, lock = weakref.ref(optimizer), self._alone, threading.Lock()
        stepped: set[int] = set()  # in the outermost backward that is running

        def at_end(outermost: bool) -> None:
            if outermost:
                stepped.clear()

        nesting = Nesting(at_end)

        def on_gradient(number: int) -> None:
            found = weak()
            if found is None:
                return
            with lock:
                if nesting.note()[1]:
                    stepped.clear()
                try:
                    check_once(number, stepped)
                    alone[number].step(found)
                except BaseException:  # torch does not call at_end()
                    nesting.forget()
                    stepped.clear()
                    raise
                stepped.add(number)

        parameters = [one.p for one in self._alone]
        owner, before = "an optimizer that steps in backward()", replaces._hooks if replaces else None
        self._hooks = GradHooks(owner, parameters, on_gradient, _INSTEAD_OF_DDP, before)

    def kernels(self) -> list[_core.KernelInfo]:
        return [info for one in self._alone for info in one.stepper.kernels()]

    def close(self) -> None:
        self._hooks.close()
