"""The keys of parameter groups: options and formats, their defaults, and those of torch."""

from collections.abc import Mapping
from typing import Any

import torch


class _NotGiven:
    def __repr__(self) -> str:
        return "<required>"


# The default of `params`, so that its absence has an error of our own.
NOT_GIVEN: Any = _NotGiven()
# Arguments of all classes, in addition to the options of their rule.
FORMATS: dict[str, Any] = {"state": None, "weights": None, "seed": None, "min_quantized_size": None}
# torch's own arguments that select an implementation. jitstep has one, which is fused.
TORCH_FLAGS: dict[str, Any] = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
# Keys of parameter groups that are no options: those of torch, of its schedulers, and of jitstep.
OTHER_KEYS = {
    "params", "param_names", "constructed", "initial_lr", "max_lr", "min_lr", "swa_lr",
    "base_momentum", "max_momentum", "rule", "schema", "mode", "shared_state", "decoupled_weight_decay",
}  # fmt: skip
# torch's Adam is AdamW with the option decoupled_weight_decay.
_DECOUPLED = {"adam": "adamw"}
# Defaults of torch that mean the same as those of the rules.
_TORCHS_DEFAULTS: dict[str, dict[str, Any]] = {
    "adam": {"decoupled_weight_decay": False},
    "muon": {"adjust_lr_fn": None},  # "original"
}


def class_name(rule: str, named: str) -> str:
    """The class of a rule. `named`: what its file calls it, or empty."""
    return named or "".join(word.title() for word in rule.split("_"))


def torchs_class(description: Mapping[str, Any]) -> type[torch.optim.Optimizer] | None:
    """torch's optimizer of a rule's class name."""
    found = getattr(torch.optim, class_name(description["name"], description["class"]), None)
    return found if isinstance(found, type) and issubclass(found, torch.optim.Optimizer) else None


def option_defaults(description: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of all options, except those that other options set when a group is made.

    torch's schedulers set such a key, `initial_lr`, unless it exists.
    """
    options = {o["name"]: o["default"] for o in description["options"] if not o["at_construction"]}
    return {**options, **_TORCHS_DEFAULTS.get(description["name"], {})}


def decoupled_rule(rule: str, options: Mapping[str, Any]) -> str:
    """The rule of a group with these options."""
    return _DECOUPLED[rule] if rule in _DECOUPLED and options.get("decoupled_weight_decay") else rule


def always_decouples(rule: str) -> bool:
    """True for AdamW."""
    return rule in _DECOUPLED.values()


def share_checkpoints(rule: str, other: str) -> bool:
    """True if checkpoints of one rule load into the other, as those of torch's Adam and AdamW do."""
    return _DECOUPLED.get(rule, rule) == _DECOUPLED.get(other, other)


def refuse_coupled(rule: str, group: Mapping[str, Any]) -> None:
    """Raises ValueError for a group of AdamW that asks for the decay of Adam."""
    if always_decouples(rule) and not group.get("decoupled_weight_decay", True):
        raise ValueError("AdamW always decouples the weight decay: decoupled_weight_decay cannot be False. Use Adam.")


def torchs_keys(rule: str) -> dict[str, Any]:
    """Keys that torch's groups have, and that are no arguments of its class."""
    return {"decoupled_weight_decay": True} if always_decouples(rule) else {}


def settle_decay(rule: str, group: dict[str, Any]) -> None:
    """torch's AdamW decouples the decay of each group that it loads, also of a checkpoint of Adam."""
    if always_decouples(rule) and "decoupled_weight_decay" in group:
        group["decoupled_weight_decay"] = True
