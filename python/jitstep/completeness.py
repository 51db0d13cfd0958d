"""The test that loaded state has everything that a step at its step number needs."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from . import _core
from .binding import steps_taken
from .options import torchs_class

if TYPE_CHECKING:
    from .optimizer import Optimizer

# torch's state of these has no step number.
_WITHOUT_STEP = ("muon", "sgd")


def _rule_state(plan: _core.ParamPlan) -> tuple[list[str], list[str]]:
    """The names of a rule's state buffers and auxiliary state, as far as they are stored."""
    slots = [slot.name for slot in plan.slots() if slot.format]
    aux = [field.name for field in plan.aux() if field.slot < 0 and not (field.is_matrix and 0 in field.sizes)]
    return slots, aux


def _state_by_default(optimizer: "Optimizer", p: Tensor, number: int, rule: str) -> set[str] | None:
    """The state that a parameter has with the default options of its rule. None if they do not permit it."""
    try:
        slots, aux = _rule_state(optimizer._plan(_core.Group(rule), p, number))
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


def check(optimizer: "Optimizer", p: Tensor, number: int, plan: _core.ParamPlan, rule: str) -> None:
    """Raises ValueError if state is missing that cannot be new. State that an option adds later starts in any step."""
    entries = optimizer.state[p]
    if steps_taken(entries) == 0:
        return
    _check_buffers(optimizer, p, number, plan, rule)
    has_step = torchs_class(optimizer._description) is not None and optimizer.rule not in _WITHOUT_STEP
    if has_step and "step" not in entries:
        raise ValueError(f"loaded state dict has no step for parameter {number}. Set it to the number of steps.")


def _check_buffers(optimizer: "Optimizer", p: Tensor, number: int, plan: _core.ParamPlan, rule: str) -> None:
    entries = optimizer.state[p]
    slots, aux = _rule_state(plan)
    lost = [name for name in slots if not isinstance(entries.get(name), Tensor) and f"{name}.format" not in entries]
    lost += [name for name in aux if entries.get(name) is None]
    if slots and len(lost) == len(slots) + len(aux):
        raise ValueError(
            f"loaded state dict has none of the state of {optimizer.rule} for parameter {number}: {', '.join(lost)}"
        )
    by_default = _state_by_default(optimizer, p, number, rule) if lost else None
    lost = [name for name in lost if by_default is None or name in by_default] + _lost_of_codecs(plan, entries)
    if lost:
        raise ValueError(
            f"loaded state dict has only a part of the state of {optimizer.rule} for parameter {number}, which has "
            f"taken {steps_taken(entries)} steps. It lacks {', '.join(lost)}. Load a complete checkpoint of "
            f"{optimizer.rule}."
        )
