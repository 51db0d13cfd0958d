"""The test that state has everything that a step at its step number needs.

State that an option adds during training may be missing: it starts at its initial value in any step. All other state
must be there from step 1 on.
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from . import _core, state
from .binding import steps_taken
from .conversion import Conversion
from .options import torchs_class

if TYPE_CHECKING:
    from .groups import GroupedOptimizer
    from .optimizer import Optimizer

# torch's state of these has no step number.
_WITHOUT_STEP = ("muon", "sgd")


def _rule_state(plan: _core.ParamPlan) -> tuple[list[str], list[str]]:
    """The names of a rule's state buffers and auxiliary state, as far as they are stored."""
    slots = [slot.name for slot in plan.slots() if slot.format]
    aux = [field.name for field in plan.aux() if field.slot < 0 and not (field.is_matrix and 0 in field.sizes)]
    return slots, aux


def _state_by_default(optimizer: "GroupedOptimizer", p: Tensor) -> set[str] | None:
    """The state that a parameter has with the default options of its rule. None if they do not permit it."""
    number, g = optimizer._place(p)
    try:
        slots, aux = _rule_state(optimizer._plan(_core.Group(optimizer._rule_of(optimizer.param_groups[g])), p, number))
    except (ValueError, RuntimeError):
        return None
    return {*slots, *aux}


def _lost_of_codecs(plan: _core.ParamPlan, entries: dict[str, Any]) -> list[str]:
    """Auxiliary state that loaded codes need."""
    lost = []
    for number, slot in enumerate(plan.slots()):
        if slot.format and isinstance(entries.get(f"{slot.name}.format"), str):
            if isinstance(entries.get(slot.name), Tensor):
                continue  # values, which replace the codes
            fields = plan.with_codec(number, entries[f"{slot.name}.format"]).aux()
            lost += [field.name for field in fields if field.slot == number and entries.get(field.name) is None]
    return lost


def _has_step(optimizer: "GroupedOptimizer") -> bool:
    """Whether torch's state of this optimizer has a step number, too."""
    return torchs_class(optimizer._description) is not None and optimizer.rule not in _WITHOUT_STEP


def check(optimizer: "Optimizer", p: Tensor, number: int, plan: _core.ParamPlan) -> None:
    """Raises ValueError if loaded state lacks a part that no option could have added."""
    entries = optimizer.state[p]
    try:
        taken = steps_taken(entries)
    except ValueError as error:
        raise ValueError(f"loaded state dict, parameter {number}: {error}") from None
    if taken == 0:
        return
    _check_buffers(optimizer, p, number, plan)
    if _has_step(optimizer) and "step" not in entries:
        raise ValueError(f"loaded state dict has no step for parameter {number}. Set it to the number of steps.")


def _absent(plan: _core.ParamPlan, entries: dict[str, Any]) -> list[str]:
    """The state buffers and the auxiliary state of the rule that are not there."""
    slots, aux = _rule_state(plan)
    absent = [name for name in slots if entries.get(name) is None and f"{name}.format" not in entries]
    return absent + [name for name in aux if entries.get(name) is None]


def _lost(optimizer: "GroupedOptimizer", p: Tensor, plan: _core.ParamPlan) -> list[str]:
    """The absent state that no option could have added."""
    absent = _absent(plan, optimizer.state[p])
    by_default = _state_by_default(optimizer, p) if absent else None
    return [name for name in absent if by_default is None or name in by_default]


def _check_removed(optimizer: "GroupedOptimizer", p: Tensor, plan: _core.ParamPlan) -> None:
    """Raises ValueError if a program has removed state, or assigned it so that a part is missing."""
    entries = optimizer.state[p]
    if steps_taken(entries) == 0 or optimizer._description["no_step_number"]:
        return
    bound = optimizer._bound.get(p)
    lost = _lost(optimizer, p, plan) if bound is None else [name for name in _absent(plan, entries) if name in bound]
    if _has_step(optimizer) and not isinstance(entries.get("step"), (Tensor, int, float)):
        lost.append("step")
    if lost:
        raise ValueError(
            f"its state lacks {', '.join(lost)}. Set what is missing, or start again with none: del optimizer.state[p]."
        )


def bind(
    optimizer: "GroupedOptimizer", p: Tensor, local: Tensor, plan: _core.ParamPlan, *args: Any, **options: Any
) -> tuple[_core.Buffers, Conversion]:
    """state.bind(), which remembers what state a parameter has, and raises ValueError if a part of it is missing."""
    _check_removed(optimizer, p, plan)
    made = state.bind(local, plan, *args, **options)
    slots, aux = _rule_state(plan)
    optimizer._bound[p] = frozenset((*slots, *aux))
    return made


def _check_buffers(optimizer: "Optimizer", p: Tensor, number: int, plan: _core.ParamPlan) -> None:
    entries = optimizer.state[p]
    slots, aux = _rule_state(plan)
    absent = _absent(plan, entries)
    if slots and len(absent) == len(slots) + len(aux):
        raise ValueError(
            f"loaded state dict has none of the state of {optimizer.rule} for parameter {number}: {', '.join(absent)}"
        )
    lost = _lost(optimizer, p, plan) + _lost_of_codecs(plan, entries)
    if lost:
        raise ValueError(
            f"loaded state dict has only a part of the state of {optimizer.rule} for parameter {number}, which has "
            f"taken {steps_taken(entries)} steps. It lacks {', '.join(lost)}. Load a complete checkpoint of "
            f"{optimizer.rule}."
        )
