"""One class for each optimizer of the catalog, made when the package is imported."""

import json
import re
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from pathlib import Path
from textwrap import wrap
from typing import Any

from . import _core
from .errors import did_you_mean
from .optimizer import Optimizer
from .options import FORMATS, TORCH_FLAGS, class_name, option_defaults, torchs_class

_WIDTH = 100  # columns of a docstring's text
_FORMAT_NOTES = {
    "state": 'state format: "int8", {"codec": "int8", "block": 128}, or a dict by state buffer. Default: float32.',
    "weights": 'weight format of bfloat16 parameters: "split16", "stochastic", "kahan", "split8" or "master"; of '
    'float16 parameters: "split8" or "master". Default: none.',
    "seed": "seed of stochastic rounding, an integer. Default: 0.",
    "min_quantized_size": "smaller parameters keep float32 state. Default: 4096.",
}
_TORCH_NOTES = {
    "foreach": "accepted for compatibility with torch.",
    "capturable": "True: GPUs count steps, so that a CUDA graph can contain step(). Take one step before the capture.",
    "differentiable": "must be False.",
    "fused": "True lets GradScaler leave the unscaling to step(), as in torch. Every step is fused.",
}


def _torch_order(description: dict[str, Any], known: set[str]) -> list[str] | None:
    """The positional arguments of torch's optimizer of this name, as far as this one has them."""
    theirs = torchs_class(description)
    if theirs is None:
        return None
    names = []
    for name, parameter in list(signature(theirs).parameters.items())[1:]:
        if parameter.kind is not Parameter.POSITIONAL_OR_KEYWORD or name not in known:
            break
        names.append(name)
    return names


def _parameters(description: dict[str, Any]) -> list[Parameter]:
    options = option_defaults(description)
    derived = {o["name"]: None for o in description["options"] if o["at_construction"]}  # from other options
    defaults = {**options, **FORMATS, **TORCH_FLAGS, **derived}
    positional = _torch_order(description, set(defaults))
    if positional is None:
        positional = [o["name"] for o in description["options"] if not o["common"] and o["name"] in options]
    keyword = [name for name in defaults if name not in positional]
    made = [Parameter("params", Parameter.POSITIONAL_OR_KEYWORD)]
    made += [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=defaults[n]) for n in positional]
    return made + [Parameter(n, Parameter.KEYWORD_ONLY, default=defaults[n]) for n in keyword]


def _sentence(note: str) -> str:
    """A note of a rule's file as a sentence. Names such as torch.nn keep their first letter."""
    first = note.split(maxsplit=1)[0]
    start = note[0].upper() + note[1:] if first.isalpha() else note
    return start if start.endswith(".") else f"{start}."


def _option_line(option: dict[str, Any]) -> str:
    choices = ", ".join(repr(choice) for choice in option["choices"])
    what = choices or option["range"] or "True or False"
    note = f" {_sentence(option['note'])}" if option["note"] else ""
    start = f"{option['at_construction']} of the new group" if option["at_construction"] else repr(option["default"])
    return f"    {option['name']}: {what}. Default: {start}.{note}"


def _docstring(description: dict[str, Any], formulas: str) -> str:
    lines = [*wrap(description["description"].strip(), _WIDTH), "", "Args:"]
    lines.append("    params: parameters or groups, as in torch.optim.")
    lines += [_option_line(option) for option in description["options"]]
    lines += [f"    {name}: {note}" for name, note in {**_FORMAT_NOTES, **_TORCH_NOTES}.items()]
    buffers = ", ".join(description["slots"]) or "none"
    return "\n".join([*lines, "", f"State buffers: {buffers}. Formulas: {formulas}"])


def make_class(description: dict[str, Any], formulas: str) -> type[Optimizer]:
    """The class of a rule. `formulas`: where its documentation says that its formulas are."""
    rule = description["name"]
    name = class_name(rule, description["class"])
    shown = Signature(_parameters(description))
    late = {o["name"] for o in description["options"] if o["at_construction"]}

    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        for option in kwargs:
            if option not in shown.parameters:
                hint = did_you_mean(option, shown.parameters)
                hint = hint or f" Arguments: {', '.join(shown.parameters)}"
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument {option!r}.{hint}")
        try:
            bound = shown.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}.__init__(): {error}") from None
        bound.apply_defaults()
        options = {k: v for k, v in bound.arguments.items() if k not in late or v is not None}
        Optimizer.__init__(self, rule, options.pop("params"), **options)

    __init__.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *shown.parameters.values()]
    )
    members = {
        "__init__": __init__,
        "__doc__": _docstring(description, formulas),
        "__module__": "jitstep",
        "rule": rule,
    }
    return type(name, (Optimizer,), members)


_classes: dict[str, type[Optimizer]] = {}
_loaded: dict[str, bytes] = {}  # the files that load_rule() made classes from
_ARGUMENTS = {"self", "params", "rule", *FORMATS, *TORCH_FLAGS}
_GROUP_KEYS = {"mode", "schema", "shared_state", "constructed", "param_names"}


def classes() -> dict[str, type[Optimizer]]:
    """The classes by name."""
    if not _classes:
        for rule in _core.rules():
            made = make_class(_core.describe(rule), f"python -m jitstep show {rule}")
            _classes[made.__name__] = made
    return dict(_classes)


def _line_of_class(text: str, rule: str, named: str) -> int:
    """The line of a rule's file that names its class, or its namespace if none does."""
    found = re.search(rf"class:[ \t]*{named}\b" if named else rf"\b{rule}\b", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _name_problem(option: str) -> str:
    """Why an option cannot have this name, or an empty text."""
    if iskeyword(option):
        return "a word of Python"
    if option in _ARGUMENTS:
        return "an argument of all classes in Python"
    return "an entry of state dicts in Python" if option in _GROUP_KEYS else ""


def _check_names(path: str, options: list[tuple[str, int, str]], state: list[tuple[str, int]]) -> None:
    for option, line, at_construction in options:
        problem = _name_problem(option)
        if problem:
            raise ValueError(f"{path}:{line}: `{option}` is {problem}. Rename the option.")
        if option == "initial_lr" and at_construction != "lr":
            raise ValueError(
                f"{path}:{line}: `initial_lr` is the rate from which torch's schedulers start. Declare "
                "`Nullable initial_lr = null;  // at construction: lr`, or rename the option."
            )
    for name, line in state:
        if name == "residual":
            raise ValueError(
                f"{path}:{line}: `residual` is what weight formats store, in Python. Rename the state, or give it "
                "another name there with the note `torch: NAME`."
            )


def load_rule(path: str | Path) -> type[Optimizer]:
    """The class of the optimizer in a file. It is also an attribute of `jitstep`, so that pickle finds it.

    An unchanged file keeps its class. The file is code: it must belong to this user or to root. Invalid declarations
    raise ValueError with their line, and so does a class whose name jitstep has already, unless it is that of the same
    rule. An error changes nothing.
    """
    import jitstep

    rule, named, options, state = _core.rule_in(str(path))
    name = class_name(rule, named)
    exists = hasattr(jitstep, name) and getattr(getattr(jitstep, name), "rule", None) != rule
    if exists or iskeyword(name):
        line = _line_of_class(Path(path).read_text(errors="replace"), rule, named)
        problem = f"jitstep.{name} exists already" if exists else f"`{name}` is a word of Python"
        raise ValueError(f"{path}:{line}: {problem}. Choose another name after `class:`.")
    _check_names(str(path), options, state)
    text = Path(path).read_bytes()
    description = _core.describe(_core.load_rule(str(path)))
    if _loaded.get(name) == text:  # pickle expects the class of existing optimizers
        return _classes[name]
    made = make_class(description, str(path))
    _classes[name], _loaded[name] = made, text
    setattr(jitstep, name, made)
    return made


def load_codec(path: str | Path) -> str:
    """Adds the state format in a file, and returns its name for the argument `state`."""
    return _core.load_codec(str(path))


def _check_plain(value: Any, path: str) -> None:
    """Raises TypeError, with its place in the configuration, for a value that is no JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_plain(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            _check_plain(inner, f"{path}[{i}]")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(
            f"from_spec(): {path or 'the configuration'} is a {type(value).__name__}. A configuration has only what "
            "JSON has: use a number, text, a list or a dict. Set other values in param_groups."
        )


def from_spec(params: Any, spec: str | dict[str, Any]) -> Optimizer:
    """An optimizer from a configuration, the same as in C++ and on the command line:

    from_spec(params, {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"})
    """
    _check_plain(spec, "")
    read = _core.parse_spec(spec if isinstance(spec, str) else json.dumps(spec))
    made = next((one for one in classes().values() if one.rule == read["rule"]), None)
    arguments = {**read["options"], **read["formats"]}
    if made is None:
        return Optimizer(read["rule"], params, **arguments)
    return made(params, **arguments)
