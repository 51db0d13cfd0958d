"""Archives of the C++ front end, which torch::save writes, read as a state_dict. archive_writer.py writes them.

src/optim/state/STATE_FORMAT.md has the layout. An archive is a module of TorchScript whose attributes are its entries.
"""

import errno
import json
import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from . import _core
from .checkpoint import SCHEMA
from .options import share_checkpoints
from .parts import INDEX, Parts, compact
from .storage import row_major, step_number

LAYOUT = "1.5.0"  # the version of torch that introduced the layout
STATE_SCHEMA = 2
_INDEX_SCHEMA = 2  # of the index of a folder. That of a file is SCHEMA


def is_archive(path: str | Path) -> bool:
    """True for a file of torch::save and a folder of C++, False for a file of Python's torch.save."""
    return Path(path).is_dir() or any(name.endswith("/constants.pkl") for name in _names_in(path))


def _is_python_checkpoint(path: str | Path) -> bool:
    names = {name.rpartition("/")[2] for name in _names_in(path)}
    return "data.pkl" in names and "constants.pkl" not in names


def _names_in(path: str | Path) -> list[str]:
    """The entries of a zip file. Empty for other files."""
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as file:
        return file.namelist()


def _load_module(path: str | Path) -> Any:
    """torch advises against torch.jit.load for models. Archives of C++ have no other reader."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.load` is", DeprecationWarning)
        return torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]


class _Part:
    """A part of an archive that is read."""

    def __init__(self, module: Any, path: str | Path) -> None:
        self._module, self._path = module, path
        self._replaced: dict[str, Any] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._replaced or bool(self._module.hasattr(key))

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise ValueError(f"jitstep: {self._path} has no entry {key!r}. It is damaged, or no optimizer's archive.")
        return self._replaced[key] if key in self._replaced else self._module.getattr(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401  (this is get)

    def part(self, key: str) -> "_Part":
        value = self[key]
        return value if isinstance(value, _Part) else _Part(value, self._path)

    def replace(self, key: str, value: Any) -> None:
        self._replaced[key] = value


class _Archive:
    """A file of torch::save, or a folder of save_parts(), whose kind and versions are checked."""

    def __init__(self, path: str | Path) -> None:
        if not Path(path).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        folder = Path(path) if Path(path).is_dir() else None
        self.path = folder / INDEX if folder else path
        self._root = _open(self.path, folder)
        self.ours = self._root.part("jitstep") if "jitstep" in self._root else None
        self._check_versions()
        in_parts = self.ours is not None and "parts" in self.ours
        if in_parts != (folder is not None):
            kind = "a whole checkpoint" if folder else "the index of a folder"
            raise ValueError(f"jitstep: {self.path} is {kind}. Read the {'file' if folder else 'folder'}.")
        self.parts = Parts(folder, self.ours["parts"]) if folder and self.ours else None

    def _check_versions(self) -> None:
        if self._root["pytorch_version"] != LAYOUT:
            layout = self._root["pytorch_version"]
            raise ValueError(f"jitstep: {self.path} has the layout {layout}. Install a newer jitstep.")
        if self.ours and self.ours["schema"] > (_INDEX_SCHEMA if "parts" in self.ours else SCHEMA):
            raise ValueError(f"jitstep: {self.path} has the schema {self.ours['schema']}. Install a newer jitstep.")

    def rule(self, asked: str | None) -> str:
        found: str | None = self.ours["rule"] if self.ours else asked
        if found is None:
            raise ValueError(
                f"jitstep: {self.path} does not name its optimizer, like all archives of torch. Pass its rule."
            )
        if asked is not None and not share_checkpoints(asked, found):
            raise ValueError(f"jitstep: {self.path} has state of {found}, and not of {asked}.")
        if ", " in found:
            raise ValueError(f"jitstep: {self.path} has the rules {found}. An optimizer of Python has one rule.")
        return found

    def own_keys(self, rule: str, aux_names: dict[str, str]) -> dict[str, Any]:
        """What jitstep adds to each parameter group of a state_dict."""
        ours = self.ours
        shared = {
            torch_name: ours[f"memory_{name}"]
            for name, torch_name in aux_names.items()
            if ours and f"memory_{name}" in ours
        }
        mode = ours.get("mode", "train") if ours else "train"
        return {"rule": rule, "schema": SCHEMA, "mode": mode, "shared_state": shared}

    def groups(self) -> Iterator[_Part]:
        groups = self._root.part("param_groups")
        for g in range(int(groups["param_groups/size"])):
            yield groups.part(f"param_groups/{g}")

    def state(self, group: _Part, g: int, i: int, slots: dict[str, str]) -> _Part | None:
        """The state of parameter i of a group, the optimizer's group g. None for a parameter without state."""
        states, key = self._root.part("state"), group[f"params/{i}"]
        if key not in states:
            return None
        state = states.part(key)
        if self.parts:
            _fill(state, self.parts, f"{g}.{i}", slots)
        return state


def _open(path: str | Path, folder: Path | None) -> _Part:
    if folder and not Path(path).exists():
        raise ValueError(f"jitstep: {folder} has no file {INDEX}. It is no checkpoint, or an incomplete one.")
    if _is_python_checkpoint(path):
        raise ValueError(
            f"jitstep: {path} is not an archive of torch::save, but a checkpoint of Python. Read it with "
            "torch.load(path, weights_only=True), and give its state_dict to load_state_dict()."
        )
    try:
        return _Part(_load_module(path)._c, path)
    except RuntimeError as error:
        raise ValueError(f"jitstep: {path} is not an archive of torch::save: {str(error).splitlines()[0]}") from None


def read_archive(path: str | Path, rule: str | None = None) -> dict[str, Any]:
    """The state_dict of an optimizer that C++ has saved with torch::save or save_parts(), for load_state_dict().

    `path` is a file, or a folder of save_parts(), of which all parts are read. `rule` is for archives of torch's C++
    optimizers, which do not name theirs. Raises ValueError for a file that is no such archive, for one of a newer
    version, and for one with several rules, and FileNotFoundError if there is no such file.
    """
    archive = _Archive(path)
    rule = archive.rule(rule)
    description = _core.describe(rule)
    own = archive.own_keys(rule, description["aux_names"])
    states: dict[int, Any] = {}
    groups, first = [], 0
    for g, group in enumerate(archive.groups()):
        count = int(group["params/size"])
        for i in range(count):
            state = archive.state(group, g, i, description["slot_names"])
            if state:
                states[first + i] = _read_state(description, state)
        params = list(range(first, first + count))
        groups.append({**_read_options(description, group.part("options")), **own, "params": params})
        first += count
    return {"state": states, "param_groups": groups}


def _fill(state: _Part, parts: Parts, name: str, slots: dict[str, str]) -> None:
    """Replaces the empty tensors of a state by those in the files of a folder."""
    buffers = parts.buffers(name)
    if not buffers:
        return
    ours = state.part("jitstep")
    sizes, strides = list(ours["sizes"]), list(ours["strides"])
    for buffer in buffers:
        data, slot = parts.read(name, buffer), buffer.removeprefix("codes_")
        if slot in slots and f"codec_{slot}" not in ours:
            values = data.view(state[slots[slot]].dtype)
            state.replace(slots[slot], values.as_strided(sizes, compact(sizes, strides)))
        else:
            ours.replace(buffer, data.view(ours[buffer].dtype))
    state.replace("jitstep", ours)


def _nullable(value: Any) -> Any:
    """Archives have NaN for None."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _read_options(description: dict[str, Any], options: _Part) -> dict[str, Any]:
    group: dict[str, Any] = {}
    constructed = {}
    for option in description["options"]:
        name = option["name"]
        if name not in options:
            continue
        value = options[name]
        if isinstance(value, tuple):
            value = tuple(_nullable(x) for x in value)
        value = _nullable(value)
        if isinstance(option["default"], int) and isinstance(value, float) and value.is_integer():
            value = int(value)  # archives have each number as a float
        if option["at_construction"]:
            constructed[name] = value
        else:
            group[name] = value
    if constructed:
        group["constructed"] = constructed
    if "jitstep_formats" in options:
        group["seed"] = None  # of an archive without one
        group |= _core.formats_from_json(options["jitstep_formats"], description["name"])
    return group


def _read_state(description: dict[str, Any], part: _Part) -> dict[str, Any]:
    slots: dict[str, str] = description["slot_names"]
    entries: dict[str, Any] = {name: part[name] for name in slots.values() if name in part}
    t = int(part.get("step", bool(entries)))
    entries["step"] = step_number(t)
    if "jitstep" not in part:
        return entries
    ours = part.part("jitstep")
    if ours["schema"] > STATE_SCHEMA:
        raise ValueError(f"jitstep: the archive has state of schema {ours['schema']}. Install a newer jitstep.")
    newest = t & 1
    aux = dict(description["aux_names"])
    for name, torch_name in slots.items():
        if f"codec_{name}" not in ours:
            continue
        codec = entries[f"{torch_name}.format"] = ours[f"codec_{name}"]
        for key, what in (("codes", "codes"), ("meta", "scales")):
            if f"{key}_{name}" in ours and ours[f"{key}_{name}"].numel():
                entries[f"{torch_name}.{what}"] = ours[f"{key}_{name}"]
        for field in _core.codec_aux(json.loads(codec)["codec"] if "{" in codec else codec):
            aux[f"{name}.{field}"] = f"{torch_name}.{field}"
    for name, torch_name in aux.items():
        half = 0 if name in description["matrices"] else newest
        if f"memory_{name}_{half}" in ours:
            entries[torch_name] = ours[f"memory_{name}_{half}"]
    if "extra" in ours:
        entries |= {"residual": ours["extra"], "residual.format": ours["weights"]}
    sizes, strides = list(ours["sizes"]), list(ours["strides"])
    if strides != row_major(sizes):
        entries["strides"] = tuple(strides)
    entries |= {"dtype": ours["dtype"], "sizes": tuple(sizes)}
    return entries
