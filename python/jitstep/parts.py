"""Checkpoints of the C++ front end in a folder, which save_parts() writes.

src/optim/state/STATE_FORMAT.md has the format.
"""

import json
import zipfile
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

INDEX = "index.pt"
_SCHEMA = 1


class Parts:
    """The tensors in a folder's files, by the name of a state, such as "0.12", and of a buffer, such as "codes_m"."""

    def __init__(self, folder: Path, index: str) -> None:
        self._folder, self._index = folder, json.loads(index)
        if self._index["schema"] > _SCHEMA:
            schema = self._index["schema"]
            raise ValueError(f"jitstep: {folder / INDEX} has the schema {schema}. Install a newer jitstep.")
        self._open = lru_cache(maxsize=64)(self._opened)

    def buffers(self, state: str) -> list[str]:
        """The names of a state's buffers that are in files."""
        return list(self._index["states"].get(state, {"buffers": {}})["buffers"])

    def read(self, state: str, buffer: str) -> Tensor:
        """The bytes of all parts, one after the other."""
        elements = self._index["states"][state]["elements"]
        pieces = [self._record(part, f"{state}/{buffer}") for part, count in enumerate(elements) if count]
        data = bytearray(b"".join(pieces))
        return torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)

    def _path(self, part: int) -> Path:
        return self._folder / f"{self._index['save']}-{part}-of-{self._index['parts']}.pt"

    def _opened(self, part: int) -> tuple[zipfile.ZipFile, dict[str, str]]:
        """A part's file, and its records by name. Closed when neither the cache nor a caller has it."""
        file = zipfile.ZipFile(self._path(part))
        by_name = {one.partition("/")[2]: one for one in file.namelist()}
        origin = json.loads(file.read(by_name["part.json"]))
        of_save = {key: self._index[key] for key in ("save", "parts")}
        if origin != {"schema": _SCHEMA, "part": part} | of_save:
            raise ValueError("it belongs to another save, or to a newer version")
        return file, by_name

    def _record(self, part: int, name: str) -> bytes:
        try:
            file, by_name = self._open(part)
            if name not in by_name and "/memory_" in name:
                return b""  # a matrix of state without elements; load_state_dict() refuses values that are missing
            return file.read(by_name[name])
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"jitstep: cannot read {self._path(part)}, a part of the checkpoint: {error}") from None


def compact(sizes: list[int], strides: list[int]) -> list[int]:
    """The strides of a tensor in this storage order, without gaps."""
    order = sorted(range(len(sizes)), key=lambda d: (sizes[d] != 1, strides[d] if sizes[d] != 1 else 0, -d))
    found, step = [0] * len(sizes), 1
    for d in order:
        found[d] = step
        step *= max(sizes[d], 1)
    return found
