"""Parameters of which this process has a part: torch's DTensor, as FSDP2's fully_shard() makes them.

Kernels and `optimizer.state` have the local tensors. state_dict() has DTensors, so that torch.distributed.checkpoint
can distribute them to another number of processes.
"""

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import _core

if TYPE_CHECKING:
    from .optimizer import Optimizer


def is_dtensor(tensor: Any) -> bool:
    return hasattr(tensor, "_local_tensor")


def local(tensor: Tensor) -> Tensor:
    """The part of a DTensor that this process has. Other tensors are returned as they are."""
    found: Tensor = getattr(tensor, "_local_tensor", tensor)
    return found


def is_shard(p: Tensor) -> bool:
    """True if this process lacks some elements."""
    return is_dtensor(p) and any(not placement.is_replicate() for placement in p.placements)  # type: ignore[attr-defined]


def redistributed(grad: Any, p: Any) -> Any:
    """A gradient in the placements of its parameter: tensor parallelism gives a replicated weight a partial one."""
    if not is_dtensor(p) or not is_dtensor(grad) or grad.placements == p.placements:
        return grad
    return grad.redistribute(p.device_mesh, p.placements)


def check(p: Tensor, elementwise: bool, name: str) -> None:
    """Raises ValueError for a part that its rule cannot step alone."""
    if not is_dtensor(p):
        return
    if any(placement.is_partial() for placement in p.placements):  # type: ignore[attr-defined]
        raise ValueError("its placement is Partial. Shard or replicate it.")
    if is_shard(p) and not elementwise:
        raise ValueError(
            f"{name} with these options needs all elements of a tensor, and this process has a shard. Use an optimizer "
            "that steps each element alone, such as AdamW without max_grad_norm, or DistributedDataParallel."
        )
    if not local(p).is_contiguous():
        raise ValueError("its shard is not contiguous. Use a contiguous parameter.")


def _bounds(p: Any) -> tuple[list[int], list[int]]:
    """Sizes of the local part, and the indices of its first element."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    sizes, first = compute_local_shape_and_global_offset(p.shape, p.device_mesh, p.placements)
    return list(sizes), list(first)


def first_element(p: Tensor) -> int:
    """The number of the local part's first element, rounded down as kernels need it. Random bits depend on it."""
    if not is_shard(p):
        return 0
    number = 0
    for size, index in zip(p.shape, _bounds(p)[1], strict=True):
        number = number * size + index
    return number // 8 * 8


def whole(p: Tensor, part: Tensor) -> Tensor:
    """A DTensor with this local part, and with p's distribution. `part` may have further dimensions."""
    from torch.distributed.tensor import DTensor

    shape = (*p.shape, *part.shape[p.dim() :])
    strides = torch.empty(shape, device="meta").stride()
    made: Tensor = DTensor.from_local(
        part,
        p.device_mesh,  # type: ignore[attr-defined]
        p.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=torch.Size(shape),
        stride=strides,
    )
    return made


def splits_rows(p: Tensor, block: int) -> bool:
    """True if every part of p has whole rows (indices of dimension 0), and every row has whole blocks."""
    row = p.numel() // p.shape[0] if p.dim() > 0 and p.shape[0] > 0 else 0
    by_rows = all(one.is_replicate() or one.is_shard(0) for one in p.placements)  # type: ignore[attr-defined]
    return by_rows and row > 0 and row % block == 0


def whole_rows(p: Tensor, part: Tensor | None, width: int) -> Tensor:
    """A DTensor of [rows of p, width], whose local part has these bytes. None: this process has no row."""
    from torch.distributed.tensor import DTensor

    bytes_of_rows = torch.empty(0, dtype=torch.uint8, device=local(p).device) if part is None else part
    rows = p.shape[0]
    made: Tensor = DTensor.from_local(
        bytes_of_rows.reshape(local(p).shape[0], width),
        p.device_mesh,  # type: ignore[attr-defined]
        p.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=torch.Size((rows, width)),
        stride=(width, 1),
    )
    return made


def part_of(value: Tensor, p: Tensor) -> Tensor:
    """The part of a loaded tensor that belongs to the local part of p. Tensors of other shapes are returned whole."""
    if is_dtensor(value) and not is_dtensor(p):
        whole_value: Tensor = value.full_tensor()  # type: ignore[attr-defined]
        return whole_value
    if is_dtensor(value):
        if value.placements != p.placements or value.device_mesh != p.device_mesh:  # type: ignore[attr-defined]
            value = value.redistribute(p.device_mesh, p.placements)  # type: ignore[attr-defined]
        return local(value)
    if (
        is_shard(p)
        and value.dim() == 2
        and p.dim() > 1
        and value.shape[0] == p.shape[0]
        and value.shape[: p.dim()] != p.shape
    ):
        rows, start = (of_dims[0] for of_dims in _bounds(p))
        return value.narrow(0, min(start, value.shape[0]), rows)  # of whole_rows()
    if not is_shard(p) or value.shape[: p.dim()] != p.shape:
        return value
    for dim, (size, first) in enumerate(zip(*_bounds(p), strict=True)):
        value = value.narrow(dim, min(first, value.shape[dim]), size)
    return value


def _stored_slots(row: _core.ParamPlan, entries: dict[str, Any]) -> dict[str, _core.SlotInfo]:
    """The slots with codes, by name, in the formats of the entries. A group may have got other formats since."""
    found = {}
    for number, slot in enumerate(row.slots()):
        stored = entries.get(f"{slot.name}.format")
        if slot.format and stored is not None:
            found[slot.name] = row.with_codec(number, stored).slots()[number]
    return found


def _bytes_of_elements(optimizer: "Optimizer", p: Tensor, owner: str, entries: dict[str, Any]) -> dict[str, Tensor]:
    """The residual, or the codes of a slot without scales, with a last dimension of bytes. A process without elements
    has none of them, and all processes must have the same entries.
    """
    part, key = local(p), owner if owner == "residual" else f"{owner}.codes"
    if part.numel() > 0:
        return {key: whole(p, entries[key].reshape(*part.shape, -1))}
    if owner == "residual":
        width = (
            optimizer.plan_of_row(p, entries["residual.dtype"]).with_weights(entries["residual.format"]).residual_bytes
        )
    else:
        slots = _stored_slots(optimizer.plan_of_row(p), entries)
        width = slots[owner].codes // max(1, math.prod(p.shape[1:]))
    return {key: whole(p, torch.empty((*part.shape, width), dtype=torch.uint8, device=part.device))}


def state_of_part(optimizer: "Optimizer", p: Tensor, entries: dict[str, Any]) -> dict[str, Any]:
    """The state of a DTensor as DTensors. Codes whose blocks other shards would not have become values."""
    part, packed = local(p), {}
    row = optimizer.plan_of_row(p)
    off = {slot.name for slot in row.slots() if not slot.format}  # by an option: nothing tells their rows
    entries = {name: value for name, value in entries.items() if name.rpartition(".")[0] not in off}
    coded = _stored_slots(row, entries)
    scaled = {name: slot for name, slot in coded.items() if slot.scales or optimizer.save_values}
    owners = [name.rpartition(".") for name in entries]
    aux = {owner for owner, _, what in owners if what not in ("codes", "scales", "format")}
    by_rows = [name for name, slot in scaled.items() if name not in aux and splits_rows(p, slot.block)]
    if optimizer.save_values:
        by_rows = []
    values = optimizer._values(p, optimizer.plan_of(p)) if len(by_rows) < len(scaled) else {}
    for name, slot in scaled.items():
        if name not in by_rows:
            packed[name] = whole(p, values[name])
            continue
        for what, width in (("codes", slot.codes), ("scales", slot.scales)):
            packed[f"{name}.{what}"] = whole_rows(p, entries.get(f"{name}.{what}"), width)
        packed[f"{name}.format"] = entries[f"{name}.format"]
    for name, value in entries.items():
        owner, _, what = name.rpartition(".")
        if owner in scaled or what == "codes" or name == "residual":
            continue
        if what == "format":
            packed |= {name: value, **_bytes_of_elements(optimizer, p, owner, entries)}
        elif isinstance(value, Tensor) and value.dim() > 0 and value.shape == part.shape:
            packed[name] = whole(p, value)
        elif name != "strides":
            packed[name] = value
    return packed
