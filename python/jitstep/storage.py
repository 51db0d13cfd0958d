"""Tensors in the dtype and the storage order that a plan gives the state of a parameter."""

from typing import Any

import torch
from torch import Tensor

MOST_STEPS_OF_FLOAT32 = 2**24


def value_dtype(p: Tensor) -> torch.dtype:
    """The dtype of state that is stored as values."""
    if p.is_complex():
        return p.dtype
    return torch.float64 if p.dtype == torch.float64 else torch.float32


def dtype_name(p: Tensor) -> str:
    return str(p.dtype).removeprefix("torch.")


def torch_strides(p: Tensor, strides: list[int]) -> tuple[int, ...]:
    """The plan's strides for torch: a plan has a dimension for scalars, and another one for complex numbers."""
    if p.dim() == 0:
        return ()
    return tuple(stride // 2 for stride in strides[:-1]) if p.is_complex() else tuple(strides)


def empty(p: Tensor, strides: list[int], dtype: torch.dtype) -> Tensor:
    """A tensor of the parameter's shape. `strides`: of the plan."""
    return torch.empty_strided(tuple(p.shape), torch_strides(p, strides), dtype=dtype, device=p.device)


def step_number(t: int, device: str | torch.device = "cpu") -> Tensor:
    """The tensor `step`. As torch's, it has the default dtype, but float64 where float32 cannot count on."""
    wide = t >= MOST_STEPS_OF_FLOAT32 or torch.get_default_dtype() == torch.float64
    return torch.tensor(float(t), dtype=torch.float64 if wide else torch.float32, device=device)


def overlap(one: Tensor, other: Tensor) -> bool:
    """True if two tensors share memory of one storage."""
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    return one.data_ptr() < other.data_ptr() + other.nbytes and other.data_ptr() < one.data_ptr() + one.nbytes


def buffer_fault(value: Any, p: Tensor) -> str | None:
    """Why a program's value cannot be a state buffer of this parameter."""
    if not isinstance(value, Tensor):
        return f"is a {type(value).__name__}"
    if value.layout != torch.strided:
        return "is sparse"
    if value.is_meta and not p.is_meta:
        return "has no values, because it is on the device meta"
    return "is complex, and the parameter is real" if value.is_complex() and not p.is_complex() else None


def check_apart(p: Tensor, slots: list[str], state: dict[str, Any]) -> None:
    """Raises ValueError if tensors of state that a program has set share memory with each other or the parameter."""
    held = {"the parameter": p}
    if type(p.grad) is Tensor and p.grad.layout == torch.strided:
        held["the gradient"] = p.grad
    for key in (key for name in slots for key in (name, f"{name}.codes", f"{name}.scales")):
        values = state.get(key)
        if values is None:
            continue
        for name, other in held.items():
            if overlap(values, other):
                raise ValueError(f"the state {key} shares memory with {name}. Set it to a clone().")
        held[f"the state {key}"] = values


def row_major(sizes: list[int]) -> list[int]:
    strides, following = [], 1
    for size in reversed(sizes):
        strides.append(following)
        following *= size
    return strides[::-1]


def dense_strides(sizes: list[int], strides: list[int]) -> list[int]:
    """The strides without those of dimensions of size 1, which order nothing."""
    return [stride for size, stride in zip(sizes, strides, strict=True) if size > 1]
