"""The memory of auxiliary state: two buffers per field, of which a step reads one and writes the other."""

from typing import Any

import torch
from torch import Tensor

from . import _core


def is_view(value: Any, pair: Tensor) -> bool:
    """True if a state's tensor is one of the two buffers, and not another one that a program put there."""
    if not isinstance(value, Tensor) or value.shape != pair.shape[1:] or value.dtype != pair.dtype:
        return False
    return value.data_ptr() in (pair[0].data_ptr(), pair[-1].data_ptr()) and value.device == pair.device


def _aux_dtype(field: _core.AuxInfo) -> torch.dtype:
    return torch.float64 if field.is_double else torch.float32


def fits(pair: Tensor, p: Tensor, field: _core.AuxInfo) -> bool:
    """False if the parameter has another shape, dtype or device than when the buffers were made."""
    return list(pair.shape[1:]) == field.sizes and pair.dtype == _aux_dtype(field) and pair.device == p.device


def new_pair(p: Tensor, field: _core.AuxInfo, value: Any) -> Tensor:
    """Two buffers with the given values, or with initial ones. One buffer of a matrix."""
    dtype = _aux_dtype(field)
    if field.is_matrix:
        pair = torch.zeros((1, *field.sizes), dtype=dtype, device=p.device)
        pair[0].fill_diagonal_(field.initial)
    else:
        pair = torch.full((2, *field.sizes), field.initial, dtype=dtype, device=p.device)
    if value is None:
        return pair
    values = torch.as_tensor(value).detach()
    if values.numel() != pair[0].numel():
        raise ValueError(
            f"the state {field.name} has {values.numel()} of {pair[0].numel()} values. Load a complete checkpoint."
        )
    pair[:] = values.to(dtype).reshape(pair.shape[1:])
    return pair
