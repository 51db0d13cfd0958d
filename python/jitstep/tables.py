"""Adds parameters to the tables of a step."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from . import _core, sharded, supported

if TYPE_CHECKING:
    from .groups import GroupedOptimizer


def add(
    optimizer: "GroupedOptimizer",
    stepper: _core.Stepper,
    number: int,
    p: Tensor,
    plan: _core.ParamPlan,
    buffers: _core.Buffers,
    *,
    group: int = 0,
    counter: Tensor | None = None,
    entries: dict[str, Any] | None = None,
) -> None:
    """Adds a parameter. One without a gradient is added with a gradient like itself.

    `entries`: its state. Default: that of the optimizer. Raises an error that names the parameter if no kernel can step
    it with this gradient.
    """
    entries = optimizer.state[p] if entries is None else entries
    like = sharded.local(p.detach() if p.grad is None else p.grad)
    supported.check_gradient(optimizer._shown, number, p, like)
    try:
        stepper.add(p, group, plan, buffers, entries.get("step"), counter, like, entries)
    except ValueError as error:
        raise optimizer._parameter_error(error, number, p) from None
