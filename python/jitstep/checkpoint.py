"""Checkpoints: what state_dict() adds to torch's, how it is loaded, and what torch's optimizers can load.

state_dict() has torch's layout. Each parameter group has these additional keys:

    rule           the rule's name; schema: 1
    mode           the point that the parameters hold, "train" or "eval"
    shared_state   numbers that the rule stores once for all parameters, by name
    jitstep_user_keys   keys of the program that have one of these names, if there are any
"""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any
from warnings import warn

import torch
from torch import Tensor

from . import completeness, errors, sharded, state, supported
from .binding import steps_taken
from .conversion import Conversion
from .options import always_decouples, option_defaults, share_checkpoints, torchs_class
from .storage import dtype_name

if TYPE_CHECKING:
    from .optimizer import Optimizer

SCHEMA = 1
_OWN_KEYS = ("rule", "schema", "mode", "shared_state")
_USER_KEYS = "jitstep_user_keys"
# Newer than torch's first optimizers: false in checkpoints of torch that lack them.
_ADDED_BY_TORCH = ("amsgrad", "decoupled_weight_decay", "maximize")
_FORMAT_KEYS = ("state", "weights", "min_quantized_size")


def own_keys(group: Mapping[str, Any]) -> dict[str, Any]:
    """jitstep's keys of a saved group. None for one of torch, where a program may use their names for itself."""
    is_own = isinstance(group.get("rule"), str) and type(group.get("schema")) is int
    if not is_own or not isinstance(group.get("shared_state"), dict):
        return {}
    return {name: group[name] for name in _OWN_KEYS if name in group}


def _with_own_keys(group: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    of_user = {name: group[name] for name in own if name in group}
    return {**group, **own, **({_USER_KEYS: of_user} if of_user else {})}


def complete(optimizer: "Optimizer", packed: dict[str, Any]) -> dict[str, Any]:
    """Adds what torch's state_dict() lacks. Auxiliary state is copied: it is a view of a larger storage."""
    parameters: dict[Any, Tensor] = dict(enumerate(p for _, _, p in optimizer._numbered()))
    numbers = dict(zip(optimizer._description["shared"], _shared_state(optimizer), strict=False))
    aux = set(optimizer._description["aux_names"].values())
    states = {}
    for key, entries in packed["state"].items():
        if not isinstance(entries, dict):  # a hook of the user may have put anything there
            states[key] = entries
            continue
        pairs = optimizer._pairs.get(parameters[key], {}) if key in parameters else {}
        kept = {name: value for name, value in entries.items() if name != "sizes"}  # of the shard
        states[key] = {name: value.clone() if name in pairs or name in aux else value for name, value in kept.items()}
        if key in parameters and sharded.is_dtensor(parameters[key]):
            states[key] = sharded.state_of_part(optimizer, parameters[key], states[key])
        elif key in parameters and optimizer.save_values:
            states[key] = _as_values(optimizer, parameters[key], states[key])
        if key in parameters:
            states[key] |= _form(parameters[key], states[key], entries.get("sizes"), not aux.isdisjoint(entries))
    own = {"rule": optimizer.rule, "schema": SCHEMA, "mode": optimizer._status.mode, "shared_state": numbers}
    groups = [_with_own_keys(group, own) for group in packed["param_groups"]]
    if optimizer.save_values or any(sharded.is_dtensor(p) for p in parameters.values()):
        groups = [{**group, "state": _as_one_entry(group.get("state"))} for group in groups]
    return {**packed, "state": states, "param_groups": groups}


def _shared_state(optimizer: "Optimizer") -> list[float]:
    """Before the first step: initial values. torch.distributed.checkpoint loads only entries that exist."""
    if not optimizer._description["shared"] or not optimizer.param_groups:
        return []
    return optimizer._stepper.shared_state() or optimizer._core_groups()[0].initial_shared_state()


def _as_one_entry(formats: Any) -> Any:
    """torch.distributed.checkpoint makes an entry of each key of a dict, and loads no checkpoint that lacks one."""
    return json.dumps(formats) if isinstance(formats, dict) else formats


def _form(p: Tensor, entries: dict[str, Any], made_for: Any, has_aux: bool) -> dict[str, Any]:
    """What an archive of C++ needs to know about a parameter, unless its state is as in torch.

    The parameter may have got another shape after the last step. `made_for`: the sizes of codes, or None.
    """
    if p.dtype == torch.float32 and not has_aux and not any(name.endswith(".format") for name in entries):
        return {}
    sizes = p.shape if made_for is None or sharded.is_dtensor(p) else made_for
    return {"dtype": dtype_name(p), "sizes": tuple(sizes)}


def _as_values(optimizer: "Optimizer", p: Tensor, entries: dict[str, Any]) -> dict[str, Any]:
    """The state of a parameter with values in place of codes."""
    coded = {name.removesuffix(".format") for name in entries if name.endswith(".format")} - {"residual"}
    if not coded:
        return entries
    values = optimizer._values(p, optimizer.plan_of(p))
    kept = {name: value for name, value in entries.items() if name.rpartition(".")[0] not in coded}
    if "residual" not in kept:
        kept.pop("strides", None)
    return kept | {name: values[name] for name in coded if name in values}


def _check_groups(optimizer: "Optimizer", saved: list[dict[str, Any]]) -> None:
    groups = optimizer.param_groups
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(group["params"]) != len(other["params"]) for group, other in zip(groups, saved, strict=True)):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
        )
    for own in map(own_keys, saved):
        rule = own.get("rule", optimizer.rule)
        if not share_checkpoints(rule, optimizer.rule):
            raise ValueError(
                f"loaded state dict is of {rule}, and this optimizer is {optimizer.rule}. Load it into an optimizer of "
                "that rule."
            )
        if own.get("schema", SCHEMA) > SCHEMA:
            raise ValueError(f"loaded state dict has the schema {own['schema']}. Install a newer jitstep.")
        if optimizer._description["modes"] and own.get("mode", "train") not in ("train", "eval"):
            raise ValueError(f'loaded state dict has the mode {own["mode"]!r}. It must be "train" or "eval".')


def _copied(value: Any, name: str, p: Tensor) -> Any:
    """A copy of an entry, in its own dtype: torch would cast codes and float state to the parameter's dtype."""
    if not isinstance(value, Tensor):
        return deepcopy(value)
    if sharded.is_dtensor(p) or sharded.is_dtensor(value):
        value = sharded.part_of(value, p)
    if name.endswith((".codes", ".scales")) or name == "residual":
        value = value.reshape(-1)  # a DTensor has the parameter's shape, or its rows
    return value.clone() if name == "step" else value.to(device=p.device, copy=True)


def _add_step(entries: dict[str, Any], group: dict[str, Any]) -> None:
    """Apex and others keep the number of steps in the group."""
    step = group.get("step")
    if entries and "step" not in entries and isinstance(step, (int, float, Tensor)):
        entries["step"] = torch.tensor(float(step))


def _check_formats(entries: dict[str, Any]) -> None:
    for name, value in entries.items():
        if name.endswith(".format") and not isinstance(value, str):
            raise ValueError(
                f"loaded state dict has no text as {name}. flatten_optimizer_state_dict=True of "
                "torch.distributed.checkpoint loses it. Do not set that option for state in a format."
            )


def _check_sizes(optimizer: "Optimizer", entries: dict[str, Any], p: Tensor) -> None:
    """Codes do not show the shape of their parameter."""
    sizes = entries.get("sizes")
    if sizes is not None and list(sizes) != list(p.shape):
        shown = optimizer._shown(optimizer._place(p)[0], p)
        raise ValueError(
            f"loaded state dict has state of a parameter with the shape {list(sizes)} for {shown}. Load the state of "
            "this parameter."
        )


def _loaded_state(optimizer: "Optimizer", saved: dict[str, Any]) -> dict[Any, Any]:
    ids = chain.from_iterable(group["params"] for group in saved["param_groups"])
    owners = dict(zip(ids, (p for _, _, p in optimizer._numbered()), strict=True))
    group_of = {key: group for group in saved["param_groups"] for key in group["params"]}
    loaded: dict[Any, Any] = defaultdict(dict)
    for key, entries in saved["state"].items():
        if key not in owners:
            loaded[key] = deepcopy(entries)
            continue
        p = owners[key]
        if not isinstance(entries, Mapping):
            raise ValueError(
                f"loaded state dict has a {type(entries).__name__} as the state of parameter {key}. It must be a dict."
            )
        entries = dict(entries)
        _check_formats(entries)
        _check_sizes(optimizer, entries, p)
        loaded[p] = {name: _copied(value, name, p) for name, value in entries.items() if name not in ("dtype", "sizes")}
        if "residual" in entries and "dtype" in entries:
            loaded[p].setdefault("residual.dtype", entries["dtype"])  # archives have one dtype
        _add_step(loaded[p], group_of[key])
    return loaded


def _loaded_group(group: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """Options and seed of the checkpoint, formats of the optimizer. An option that the checkpoint lacks stays."""
    own = own_keys(saved)
    left_out = {*own, _USER_KEYS} if own else set()
    new = {**group, **{name: value for name, value in saved.items() if name not in left_out}}
    if own:
        new |= saved.get(_USER_KEYS, {})
    if always_decouples(own.get("rule", "")):
        new["decoupled_weight_decay"] = True  # as torch's Adam that loads AdamW's
    for name in _ADDED_BY_TORCH:
        if not own and name in group and name not in saved:
            new[name] = False
    for name in (*_FORMAT_KEYS, "params"):
        new[name] = group.get(name)
    if saved.get("seed") is None and not (own and "seed" in saved):  # a checkpoint of torch has none
        new["seed"] = group.get("seed")
    if "param_names" in group and "param_names" not in saved:
        new["param_names"] = group["param_names"]
    return new


def _convert(optimizer: "Optimizer") -> None:
    """Brings loaded state into the optimizer's formats."""
    total = Conversion()
    groups = optimizer._core_groups()
    for number, g, p in optimizer._numbered():
        if not optimizer.state.get(p) or not supported.has_kernels(p) or supported.never_trains(p):
            continue
        plan = optimizer._plan(groups[g], p, number)
        completeness.check(optimizer, p, number, plan)
        conversion = optimizer._with_state(state.convert_loaded, p, plan)
        if not sharded.is_dtensor(p):  # its codes are saved as values
            total.include(conversion)
    total.warn()


def has_stepped(states: dict[Any, Any]) -> bool:
    numbered = [one for one in states.values() if isinstance(one, dict) and one.get("step") is not None]
    return any(steps_taken(one) > 0 for one in numbered)


def load(optimizer: "Optimizer", state_dict: dict[str, Any]) -> None:
    """See Optimizer.load_state_dict. Calls torch's hooks. An error leaves the optimizer unchanged."""
    if not isinstance(state_dict, Mapping):
        raise errors.no_state_dict(state_dict)
    state_dict = state_dict.copy()
    for pre_hook in optimizer._optimizer_load_state_dict_pre_hooks.values():
        changed = pre_hook(optimizer, state_dict)
        if changed is not None:
            state_dict = changed
    errors.check_groups_in(state_dict)
    saved_groups = deepcopy(state_dict["param_groups"])
    _check_groups(optimizer, saved_groups)
    first = own_keys(saved_groups[0]) if saved_groups else {}
    numbers, names = first.get("shared_state") or {}, optimizer._description["shared"]
    if set(numbers) != set(names) and (numbers or (first and has_stepped(state_dict["state"]))):
        raise ValueError(f"loaded state dict has the shared state {sorted(numbers)}, and needs {sorted(names)}")
    own = {
        "rule": optimizer.rule,
        "mode": first.get("mode", "train") if optimizer._description["modes"] else "train",
        "shared": [float(numbers[name]) for name in names] if numbers else [],
    }
    groups = [_loaded_group(group, saved) for group, saved in zip(optimizer.param_groups, saved_groups, strict=True)]
    before, status = dict(optimizer.__dict__), optimizer._status
    mode = status.mode
    try:
        loaded = _loaded_state(optimizer, {"param_groups": saved_groups, "state": state_dict["state"]})
        new = {"state": loaded, "param_groups": groups, "jitstep": own, "inputs": optimizer._inputs}
        optimizer.__setstate__(new)
        if status.tunes is not None:
            optimizer._stepper.tune(status.tunes, status.tuning.agree if status.tuning else None)
        _convert(optimizer)
    except BaseException:
        optimizer.__dict__.update(before)
        status.mode = mode
        raise
    for post_hook in optimizer._optimizer_load_state_dict_post_hooks.values():
        post_hook(optimizer)


def _torch_like(value: Tensor, p: Tensor) -> Tensor:
    """In torch's dtype: the parameter's for state buffers, the default one for numbers, which jitstep has in double."""
    if value.dim() == 0 and p.dim() > 0:
        return value.to(torch.get_default_dtype())
    return value.to(p.dtype)


@contextmanager
def without_hooks(optimizer: "Optimizer") -> Iterator[None]:
    """Hooks of state_dict() may change its form."""
    names = ("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks")
    hooks = {name: getattr(optimizer, name) for name in names}
    optimizer.__dict__.update({name: OrderedDict() for name in names})
    try:
        yield
    finally:
        optimizer.__dict__.update(hooks)


def _warn_of_losses(optimizer: "Optimizer", exported_to: type) -> None:
    """Warns of options and weight residuals that torch's class does not have."""
    known, defaults = signature(exported_to).parameters, option_defaults(optimizer._description)
    own = [(name, group[name]) for group in optimizer.param_groups for name in defaults if name in group]
    lost = {name for name, value in own if name not in known and value != defaults[name]}
    if any("residual" in entries for entries in optimizer.state.values()):
        lost.add("weight residuals")
    if lost:
        text = (
            f"jitstep: torch's {exported_to.__name__} does not have {', '.join(sorted(lost))}, and continues without."
        )
        warn(text, stacklevel=4)


def export(optimizer: "Optimizer") -> dict[str, Any]:
    """See Optimizer.export."""
    exported_to = torchs_class(optimizer._description)
    if exported_to is None:
        raise TypeError(f"torch.optim has no {type(optimizer).__name__}. Use state_dict() to save this optimizer.")
    if optimizer._status.mode == "eval":
        raise RuntimeError("export() in evaluation mode. Call train() first.")
    _warn_of_losses(optimizer, exported_to)
    with without_hooks(optimizer):
        packed = torch.optim.Optimizer.state_dict(optimizer)
    groups = optimizer._core_groups()
    states = {}
    for number, g, p in optimizer._numbered():
        if not packed["state"].get(number) or supported.never_trains(p):
            continue
        entries = optimizer._values(p, optimizer._plan(groups[g], p, number))
        like = {key: _torch_like(value, p) for key, value in entries.items()}
        if sharded.is_dtensor(p):
            part = sharded.local(p).shape
            like = {key: sharded.whole(p, value) if value.shape == part else value for key, value in like.items()}
        if not optimizer._description["no_step_number"]:
            like["step"] = packed["state"][number]["step"].clone()
        states[number] = like
    left_out = {*_FORMAT_KEYS, "seed", "constructed"}
    shown = [{key: value for key, value in group.items() if key not in left_out} for group in packed["param_groups"]]
    return {"state": states, "param_groups": shown}
