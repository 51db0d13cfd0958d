"""Errors of options, formats and checkpoints. Those that torch.optim has are in its words, because programs and tests
read them."""

import math
import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any
from warnings import warn

import torch
from torch import Tensor

from . import _core
from .options import OTHER_KEYS

# The names of formats that a program may ask for by a dtype.
_FORMATS_OF_DTYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8_e5m2",
    torch.int8: "int8",
}


def did_you_mean(given: str, known: Iterable[str], closeness: float = 0.75) -> str:
    """A sentence with the known name that is closest to a misspelled one. Empty if none is close."""
    by_small_letters = {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), by_small_letters, 1, cutoff=closeness)
    return f" Did you mean {by_small_letters[close[0]]!r}?" if close else ""


def no_attribute(name: str, known: Iterable[str]) -> AttributeError:
    """The error of a name that the package does not have."""
    text = f"module 'jitstep' has no attribute {name!r}."
    if name.startswith("_"):  # Python and tools ask for such names
        return AttributeError(text)
    if hasattr(torch.optim, name):
        return AttributeError(f"{text} Use torch.optim.{name}.")
    loaded = " If it is the class of an optimizer file, call load_rule() first."
    return AttributeError(f"{text}{did_you_mean(name, known) or loaded}")


def changed_during_step() -> RuntimeError:
    return RuntimeError(
        "jitstep: parameters or state changed during step(): another thread, or a function that the step calls, has "
        "changed them. Change them before step()."
    )


def check_not_tracing() -> None:
    """Raises RuntimeError in make_fx(), whose graph would lack the step."""
    if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None:
        raise RuntimeError(
            "jitstep: make_fx() cannot trace step(), because kernels are no operations of torch. Call step() outside "
            "of the traced function."
        )


def stacklevel() -> int:
    """The `stacklevel` of a warning of the caller that names the program's line, not one of jitstep or torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("jitstep", "torch"):
        level, frame = level + 1, frame.f_back
    return level


def check_tensors(rule: str, options: Mapping[str, Any]) -> None:
    """torch's errors of tensors that are options. Its Adam and AdamW have more of them than its other classes."""
    lr, betas = options.get("lr"), options.get("betas")
    is_adam = rule in ("adam", "adamw")
    of_foreach = is_adam and options.get("foreach") and not options.get("capturable")
    if of_foreach and isinstance(lr, Tensor):
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if not is_adam or not isinstance(betas, (tuple, list)):
        return
    tensors = [i for i, beta in enumerate(betas) if isinstance(beta, Tensor)]
    if len(tensors) not in (0, len(betas)):
        raise ValueError("betas must be either both floats or both Tensors")
    if of_foreach and tensors:
        raise ValueError("betas[0] as a Tensor is not supported for capturable=False and foreach=True")
    for i in tensors:
        if betas[i].numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")


def warn_of_misspelled(class_name: str, group: Mapping[str, Any], known: set[str]) -> None:
    """torch permits keys of the user in a parameter group. Those that look like an option are probably a mistake."""
    for key in group.keys() - known - OTHER_KEYS:
        if hint := did_you_mean(str(key), known, closeness=0.85):
            text = f"jitstep: {class_name} ignores the key {key!r} of a parameter group.{hint}"
            warn(text, stacklevel=stacklevel())


def _torch_sentence(rule: str, name: str, index: int, given: Any, wanted: str) -> str:
    """What torch's optimizer of this name says about a number that is out of range."""
    if name == "lr":
        return f"Invalid learning rate: {given} and should be {wanted}"
    if name == "betas":
        return f"Invalid beta parameter at index {index}: {given} and should be {wanted}"
    if rule == "adafactor" and name in ("d", "eps"):
        shown = "Clipping threshold d" if name == "d" else f"epsilon{index + 1}"
        return f"{shown} should be {wanted} but is: {given}"
    if rule == "adafactor":
        return f"{name} should be {wanted} but is: {given}"
    shown = "epsilon" if name == "eps" else name
    return f"Invalid {shown} value: {given} and should be {wanted}"


def _range_of(rule: str, option: str, given: Any) -> str:
    """The values that an option accepts, such as ">= 0"."""
    accepted = next(str(one["range"]) for one in _core.describe(rule)["options"] if one["name"] == option)
    finite = given is not None and math.isfinite(given)
    return accepted if accepted == "finite" or finite else f"finite and {accepted}"


def option_error(rule: str, error: _core.OptionError, options: Mapping[str, Any]) -> ValueError:
    """The error of a number, with the value that the user gave."""
    name, index = error.option, error.index
    given = options.get(name)
    if isinstance(given, (tuple, list)):
        given = given[index]
    if rule == "rprop" and name == "etas":
        etas = options["etas"]
        return ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
    return ValueError(_torch_sentence(rule, name, index, given, _range_of(rule, name, given)))


def with_torchs_names(rule: str, text: str) -> str:
    """A message about state with torch's names of the slots. The rule's own names are those of C++.

    The core calls it, too.
    """
    names = _core.describe(rule)["slot_names"]
    text = re.sub(r"(?<=\bthe slot )\w+", lambda own: names.get(own[0], own[0]), text)
    return re.sub(r"(?<=\. Slots: ).*$", ", ".join(names.values()) or "none", text)


def refusal(rule: str, error: ValueError, options: Mapping[str, Any]) -> ValueError:
    """The error of a combination of options, or of a format."""
    text = str(error)
    if rule == "rprop" and "etas" in text:
        return ValueError(f"Invalid eta values: {options['etas'][0]}, {options['etas'][1]}")
    if rule == "muon" and "adjust_lr_fn" in text:
        return ValueError(f"Adjust learning rate function {options['adjust_lr_fn']} is not supported")
    return ValueError(with_torchs_names(rule, text))


def check_rule(class_name: str, rule: Any, has_params: bool) -> None:
    """Raises TypeError for a call of Optimizer without the rule, or without parameters."""
    if not isinstance(rule, str):
        shown = f'{class_name}: the first argument is the name of the rule, as in Optimizer("adamw", params), not a'
        base = "Derive an optimizer written in Python from torch.optim.Optimizer."
        raise TypeError(f"{shown} {type(rule).__name__}. Rules: jitstep.rules(). {base}")
    if not has_params:
        raise TypeError(f"{class_name}: the argument params is missing, as in Optimizer({rule!r}, params).")


def _check_format(name: str, value: Any, accepted: tuple[type, ...], example: str) -> None:
    if value is None or isinstance(value, accepted):
        return
    known = _FORMATS_OF_DTYPES.get(value) if isinstance(value, torch.dtype) and dict in accepted else None
    raise TypeError(f'{name} is {value!r}. Use the name of a format, such as {name}="{known or example}".')


def check_group(group: Mapping[str, Any]) -> None:
    """Raises TypeError for formats that are no names, such as torch.bfloat16, and RuntimeError for `differentiable`.

    The core calls it when a format of a group has changed.
    """
    if group.get("differentiable"):
        raise RuntimeError("jitstep does not support `differentiable`: autograd does not record its steps.")
    found = group.get("state")
    _check_format("state", found, (str, dict), "int8")
    _check_format("weights", group.get("weights"), (str,), "split16")
    if isinstance(found, dict) and "codec" not in found:
        for buffer, codec in found.items():
            _check_format(f"state[{buffer!r}]", codec, (str, dict), "int8")


def unmet_weights(asked: str, dtype: torch.dtype) -> str:
    """The warning that a 16-bit parameter does not get the weight format that was asked for."""
    name = str(dtype).removeprefix("torch.")
    use = "split8 or master" if dtype == torch.float16 else "a format that does"
    return (
        f"jitstep: the weight format {asked} does not support {name}: such parameters have none, and lose updates "
        f"below half a unit in the last place. Use {use}. formats_of(parameter) shows the formats of a parameter."
    )


def check_groups_in(state_dict: Any) -> None:
    """Raises ValueError for a checkpoint that is no state_dict of an optimizer."""
    if not isinstance(state_dict, Mapping) or "param_groups" not in state_dict or "state" not in state_dict:
        raise no_state_dict(state_dict)
    for number, group in enumerate(state_dict["param_groups"]):
        if not isinstance(group, Mapping) or "params" not in group:
            raise ValueError(
                f"jitstep: param_groups[{number}] of the state_dict is no dict with the key 'params'. Pass the "
                "state_dict() of an optimizer."
            )
    if not isinstance(state_dict["state"], Mapping):
        raise ValueError(
            f"jitstep: 'state' of the state_dict is a {type(state_dict['state']).__name__}, not a dict. Pass the "
            "state_dict() of an optimizer."
        )


def no_state_dict(state_dict: Any) -> ValueError:
    what = f"an object of the type {type(state_dict).__name__}"
    hint = "Pass the state_dict() of an optimizer."
    if isinstance(state_dict, Mapping):
        keys = ", ".join(map(repr, list(state_dict)[:8]))
        what = f"a dict with the keys {keys}" if keys else "an empty dict"
        inner = [key for key, value in state_dict.items() if isinstance(value, Mapping) and "param_groups" in value]
        hint = f"Pass its entry {inner[0]!r}." if inner else hint
    return ValueError(f"jitstep: {what} is no state_dict of an optimizer: 'param_groups' or 'state' is missing. {hint}")


def shown_parameter(number: int, p: Any, name: str = "") -> str:
    """A parameter for messages: number, name if its group has names, dtype and shape."""
    own = f"{name!r}, " if name else ""
    return f"parameter {number} ({own}{str(p.dtype).removeprefix('torch.')} {list(p.shape)})"


def parameter_error(rule: str, class_name: str, error: ValueError, shown: str, p: Any) -> Exception:
    """The error of a parameter that the rule or its formats do not support. `shown`: the parameter for messages."""
    text = f"jitstep: {shown}: {with_torchs_names(rule, str(error))}"
    if p.is_complex() and not p.is_conj():
        return RuntimeError(f"{class_name} does not support complex parameters. {text}")
    if rule == "muon" and p.dim() != 2:
        return ValueError(f"Muon only supports 2D parameters, found parameter with size: {p.size()}. {text}")
    return ValueError(text)
