"""State of one parameter: plain tensors in the optimizer's dict, in the formats that its kernel needs.

Keys of the dict, for a state buffer that torch calls `exp_avg`:

    exp_avg           the values, in the parameter's shape, unless a codec stores them
    exp_avg.codes     bytes of the codec's codes; exp_avg.scales: those of its scales
    exp_avg.format    the codec and its options, as JSON. Values in addition to codes are newer: a program has set them
    row_var           auxiliary state of the optimizer, and its matrices of state; exp_avg.row: of a codec
    residual          bytes of the weight format `residual.format` for a parameter of the dtype `residual.dtype`
    sizes             of the parameter of codes and residual
    strides           the order of codes and residual, if it is not row-major
    step              the steps that the parameter has taken, a tensor as in torch
"""

from collections.abc import Callable

import torch
from torch import Tensor

from . import _core
from .binding import Binding, Pairs, State
from .conversion import Conversion


def bind(
    p: Tensor,
    plan: _core.ParamPlan,
    state: State,
    pairs: Pairs,
    *,
    counted: bool = False,
    restarts: bool = False,
    before_rewrite: Callable[[Tensor], None] | None = None,
) -> tuple[_core.Buffers, Conversion]:
    """Brings the state of a parameter into the plan's formats. An error changes nothing.

    `counted`: the tensor `step` belongs on the parameter's device, and not on the CPU. `restarts`: the first step with
    buffers is step 1, as in torch's SGD, whose momentum may be set later. `before_rewrite`: called with the parameter
    before another weight format rewrites it.
    """
    with torch.no_grad():
        binding = Binding(p, plan, state, pairs, counted=counted, restarts=restarts)
        buffers = binding.run(with_weights=True)
        binding.rewrite_parameter(before_rewrite)
    binding.keep(state, pairs)
    return buffers, binding.conversion


def convert_loaded(
    p: Tensor, plan: _core.ParamPlan, state: State, pairs: Pairs, *, restarts: bool = False
) -> Conversion:
    """The same for a checkpoint, whose parameter may not be loaded yet. Leaves the residual as it is.

    A residual in another storage order needs the parameter. Codes and residual change their order together, so this
    leaves both.
    """
    with torch.no_grad():
        binding = Binding(p, plan, state, pairs, restarts=restarts, advice="Load the state of this parameter.")
        if binding.same_order or "residual" not in binding.state:
            binding.run(with_weights=False)
            binding.keep(state, pairs)
    return binding.conversion


def weights(p: Tensor, plan: _core.ParamPlan, state: State) -> Tensor:
    """The weights with their residual, in float32 (complex ones in their dtype). Changes nothing."""
    with torch.no_grad():
        binding = Binding(p, plan, state, {})
        stored = binding.stored_weights(binding.state.get("residual.format"))
        return stored if stored.is_complex() else stored.to(torch.float32)


def values(p: Tensor, plan: _core.ParamPlan, state: State, pairs: Pairs) -> State:
    """All state buffers as values in torch's shape, for export. Changes nothing."""
    with torch.no_grad():
        binding = Binding(p, plan, state, pairs)
        found: State = {}
        for number, slot in enumerate(plan.slots()):
            stored = binding.stored_values(number, slot) if slot.format else None
            if stored is not None:
                found[slot.name] = stored
        for field in plan.aux():
            if field.slot < 0 and field.name in state:
                found[field.name] = state[field.name].clone()
    return found
