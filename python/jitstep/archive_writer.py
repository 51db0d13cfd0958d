"""Archives of the C++ front end, written from a state_dict. archives.py reads them, and names their layout."""

import errno
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import _core, errors
from .archives import LAYOUT, STATE_SCHEMA
from .checkpoint import SCHEMA, own_keys
from .options import decoupled_rule
from .storage import row_major


class _Writer:
    """A module whose attributes are an archive's entries."""

    def __init__(self, unit: Any, name: str) -> None:
        self._unit, self.module = unit, torch._C.ScriptModule(name, unit, True)  # type: ignore[call-arg]

    def write(self, key: str, value: Any, kind: Any = None) -> None:
        kind = kind or torch._C._jit_try_infer_type(value).type()
        self.module._register_attribute(key, kind, value)  # type: ignore[attr-defined]

    def write_integers(self, key: str, values: list[int]) -> None:
        self.write(key, values, torch._C.ListType(torch._C.IntType.get()))

    def part(self) -> "_Writer":
        return _Writer(self._unit, "__torch__.Module")

    def write_part(self, key: str, part: "_Writer") -> None:
        """After the part is complete."""
        self.module._register_attribute(key, part.module._type(), part.module)  # type: ignore[attr-defined]


def write_archive(path: str | Path, state_dict: dict[str, Any]) -> None:
    """Writes a state_dict() of jitstep as an archive, which C++ loads with torch::load.

    The file is complete or not written. Raises ValueError for a state_dict that does not name its rule, such as one of
    torch, for sharded state, and for state of something else than a parameter. Raises OSError, with the name `path`, if
    the file cannot be written.
    """
    errors.check_groups_in(state_dict)
    groups = state_dict["param_groups"]
    rule = own_keys(groups[0]).get("rule") if groups else None
    if rule is None:
        raise ValueError(
            "jitstep: the state_dict does not name its rule, as those of torch.optim. Load it into an optimizer of "
            "jitstep with load_state_dict(), and write the state_dict() of that."
        )
    rules = [decoupled_rule(rule, group) for group in groups]
    description = _core.describe(rules[0])
    archive = _Writer(torch._C.CompilationUnit(), "__torch__.Module")
    archive.write("pytorch_version", LAYOUT)
    archive.write_part("jitstep", _origin(archive, description, groups[0], rules))
    states, numbers = archive.part(), _numbers(groups)
    for key, entries in state_dict["state"].items():
        if key not in numbers:
            raise ValueError(
                f"jitstep: the state_dict has state for {key!r}, which is no parameter of its groups. Remove it: an "
                "archive cannot have it."
            )
        states.write_part(str(numbers[key]), _state_part(archive, description, numbers[key], entries))
    archive.write_part("state", states)
    all_groups = archive.part()
    all_groups.write("param_groups/size", torch.tensor(len(groups), device="cpu"))
    for g, group in enumerate(groups):
        all_groups.write_part(f"param_groups/{g}", _group_part(archive, _core.describe(rules[g]), group, numbers))
    archive.write_part("param_groups", all_groups)
    # save() ends the process when the disk is full
    content = archive.module.save_to_buffer()  # type: ignore[attr-defined]
    write_whole(path, lambda name: Path(name).write_bytes(content))


def _numbers(groups: list[dict[str, Any]]) -> dict[Any, int]:
    """The number of each parameter. torch.distributed.checkpoint has names in place of numbers."""
    return {key: number for number, key in enumerate(key for group in groups for key in group["params"])}


def write_whole(path: str | Path, write: Callable[[str], object]) -> None:
    """Calls `write` with another file's name, and renames that file. The file is complete or not written.

    Follows links, and keeps the mode of a file that exists. Raises OSError if torch cannot write the file, or if the
    path is no regular file.
    """
    # tempfile would permit only this user to read the file. Here the umask decides.
    path = Path(os.path.realpath(path))
    is_replaced = path.exists()
    if is_replaced and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    name = path.with_name(f".{os.fsdecode(os.fsencode(path.name)[:200])}.{secrets.token_hex(8)}")  # at most 255 bytes
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        write(str(name))
        _finish(name, path if is_replaced else None)
        os.replace(name, path)
    except BaseException as error:
        with suppress(OSError):
            name.unlink()
        if isinstance(error, OSError) and error.errno is not None:  # the program knows only its own name
            raise OSError(error.errno, error.strerror, str(path)) from None
        if isinstance(error, RuntimeError):  # torch's error of files
            cause = str(error).partition("\n")[0]
            raise OSError(f"jitstep: cannot write {path}: {cause}") from error
        raise


def _finish(name: Path, replaced: Path | None) -> None:
    """Gives a new file the mode of the one that it replaces, and waits until it is on the disk."""
    if replaced:
        with suppress(OSError):  # of a file system without modes
            shutil.copymode(replaced, name)
    file = os.open(name, os.O_RDWR)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):  # of a file system without fsync
            raise
    finally:
        os.close(file)


def _origin(archive: _Writer, description: dict[str, Any], group: dict[str, Any], rules: list[str]) -> _Writer:
    ours = archive.part()
    ours.write("schema", SCHEMA)
    ours.write("rule", rules[0] if len(set(rules)) == 1 else ", ".join(rules))
    for name, torch_name in description["aux_names"].items():
        if torch_name in (group.get("shared_state") or {}):
            ours.write(f"memory_{name}", float(group["shared_state"][torch_name]))
    if description["modes"]:
        ours.write("mode", group["mode"])
    return ours


def _group_part(
    archive: _Writer, description: dict[str, Any], group: dict[str, Any], numbers: dict[Any, int]
) -> _Writer:
    part, options = archive.part(), archive.part()
    part.write("params/size", torch.tensor(len(group["params"]), device="cpu"))
    for i, key in enumerate(group["params"]):
        part.write(f"params/{i}", str(numbers[key]))
    for option in description["options"]:
        name = option["name"]
        value = group.get(name, option["default"])
        if value is None:
            value = group.get("constructed", {}).get(name)
        _write_option(options, option, value)
    state = group.get("state")
    if isinstance(state, str) and state.startswith("{"):  # of save_values: a dict as text
        group = {**group, "state": json.loads(state)}
    options.write("jitstep_formats", _core.formats_to_json(group))
    part.write_part("options", options)
    return part


def _write_option(options: _Writer, option: dict[str, Any], value: Any) -> None:
    name, kind = option["name"], option["type"]
    if kind == "boolean":
        options.write(name, bool(value))
    elif kind == "choice":
        options.write(name, option["default"] if value is None else str(value))
    elif kind == "numbers":
        options.write(name, tuple(math.nan if x is None else float(x) for x in value))
    elif kind == "list":
        options.write(name, [float(x) for x in value], torch._C.ListType(torch._C.FloatType.get()))
    else:
        options.write(name, math.nan if value is None else float(value))


def _state_part(archive: _Writer, description: dict[str, Any], number: int, entries: dict[str, Any]) -> _Writer:
    if any(hasattr(value, "_local_tensor") for value in entries.values()):
        raise ValueError("jitstep: an archive cannot have sharded state. Gather it: full_state_dict=True.")
    part = archive.part()
    part.write("step", int(entries.get("step", 0)))
    slots: dict[str, str] = description["slot_names"]
    for name in slots.values():
        if name in entries:
            part.write(name, entries[name].detach())
    if "sizes" not in entries:  # as torch's state
        lost = [name for name in description["aux_names"].values() if name in entries]
        if lost:
            raise ValueError(
                f"jitstep: the state {', '.join(lost)} of parameter {number} has no entries `sizes` and `dtype`, which "
                "an archive needs. Write the state_dict() of an optimizer of jitstep."
            )
        return part
    ours = archive.part()
    sizes = list(entries["sizes"])
    ours.write("schema", STATE_SCHEMA)
    ours.write("id", number)
    ours.write("dtype", entries.get("residual.dtype", entries["dtype"]))
    ours.write("weights", entries.get("residual.format", "native"))
    ours.write_integers("sizes", sizes)
    ours.write_integers("strides", list(entries.get("strides", row_major(sizes))))
    for name, torch_name in slots.items():
        _write_codes(ours, name, torch_name, entries)
    for name, torch_name in description["aux_names"].items():
        _write_aux(ours, name, entries.get(torch_name), 1 if name in description["matrices"] else 2)
    if "residual" in entries:
        ours.write("extra", entries["residual"])
    part.write_part("jitstep", ours)
    return part


def _write_codes(ours: _Writer, name: str, torch_name: str, entries: dict[str, Any]) -> None:
    codec = entries.get(f"{torch_name}.format")
    if codec is None:
        return
    ours.write(f"codec_{name}", codec)
    none = torch.empty(0, dtype=torch.uint8, device="cpu")
    ours.write(f"codes_{name}", entries.get(f"{torch_name}.codes", none))
    if f"{torch_name}.scales" in entries:
        ours.write(f"meta_{name}", entries[f"{torch_name}.scales"])
    for key, value in entries.items():
        slot, _, field = key.rpartition(".")
        if slot == torch_name and field not in ("format", "codes", "scales"):
            _write_aux(ours, f"{name}.{field}", value)


def _write_aux(ours: _Writer, name: str, value: Tensor | None, buffers: int = 2) -> None:
    """Both buffers, of which the next step reads the newest and writes the other one. A matrix has one buffer."""
    if value is not None:
        for half in range(buffers):
            ours.write(f"memory_{name}_{half}", value.detach().clone())
